package rds

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strconv"
	"time"

	"github.com/rds-go/rds/internal/invariants"
)

// The applications of TestApplicationsAreKilled. A message has its number, the
// incarnation of the sender's process, and a pattern that belongs to the number.
const doomedHeader = 16

func doomedMessage(number uint64, incarnation int) []byte {
	n := doomedHeader + int(number*37%900)
	if number%50 == 49 {
		n = 20 << 10
	}
	b := make([]byte, n)
	binary.BigEndian.PutUint64(b, number)
	binary.BigEndian.PutUint64(b[8:], uint64(incarnation))
	copy(b[doomedHeader:], pattern[number&0xff:])
	return b
}

// progress is where the messages from one port are.
type progress struct {
	incarnation int
	next        uint64
}

// beApplication is what a process does: path role address incarnation targets...
func beApplication(args []string) {
	incarnation, _ := strconv.Atoi(args[3])
	targets := make([]netip.AddrPort, 0, 4)
	for _, a := range args[4:] {
		targets = append(targets, netip.MustParseAddrPort(a))
	}
	err := func() error {
		c, err := Dial(args[0])
		if err != nil {
			return err
		}
		s, err := c.Bind(netip.MustParseAddrPort(args[2]))
		for end := time.Now().Add(time.Second); errors.Is(err, ErrAddressInUse) && time.Now().Before(end); { // its predecessor's death may be news
			s, err = c.Bind(netip.MustParseAddrPort(args[2]))
		}
		if err != nil {
			return err
		}
		fmt.Println("ready")
		if args[1] == "send" {
			err = sendUntilTold(s, incarnation, targets)
		} else {
			err = receiveAndVerify(s, args[1] == "survive")
		}
		return errors.Join(err, c.Close())
	}()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// sendUntilTold sends to all targets until the standard input ends, then says
// how many messages each was sent.
func sendUntilTold(s *Socket, incarnation int, targets []netip.AddrPort) error {
	told := make(chan struct{})
	go func() {
		defer close(told)
		_, _ = os.Stdin.Read(make([]byte, 1))
	}()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	burst := 10
	if invariants.Enabled {
		burst = 1
	}
	for number := uint64(0); ; {
		for range burst {
			for _, to := range targets {
				if err := s.Send(context.Background(), to, doomedMessage(number, incarnation)); err != nil {
					return fmt.Errorf("message %d: %w", number, err)
				}
			}
			number++
		}
		select {
		case <-told:
			fmt.Println("sent", s.LocalAddrPort(), incarnation, number)
			return nil
		case <-tick.C:
		}
	}
}

// receiveAndVerify verifies what comes. A survivor has been there from the
// start: it misses nothing from anybody. It ends when it has all that the
// standard input names.
func receiveAndVerify(s *Socket, survivor bool) error {
	want := make(chan map[netip.AddrPort]progress, 1)
	ctx, wake := context.WithCancel(context.Background())
	go func() {
		all := make(map[netip.AddrPort]progress)
		for in := bufio.NewScanner(os.Stdin); in.Scan(); {
			var from string
			var p progress
			if _, err := fmt.Sscan(in.Text(), &from, &p.incarnation, &p.next); err == nil {
				all[netip.MustParseAddrPort(from)] = p
			}
		}
		want <- all
		wake()
	}()
	seen := make(map[netip.AddrPort]progress)
	var final map[netip.AddrPort]progress
	for {
		if final != nil {
			missing := false
			for from, p := range final {
				missing = missing || seen[from] != p
			}
			if !missing || !survivor {
				return nil
			}
		}
		m, err := s.Recv(ctx)
		if errors.Is(err, context.Canceled) {
			final = <-want
			ctx, wake = context.WithTimeout(context.Background(), patience)
			defer wake()
			continue
		}
		if err != nil {
			return fmt.Errorf("%w: received %v, want %v", err, seen, final)
		}
		if err := judge(seen, &m, survivor); err != nil {
			return err
		}
		m.Release()
	}
}

// judge checks one message against what came before from the same port.
func judge(seen map[netip.AddrPort]progress, m *Message, survivor bool) error {
	if len(m.Data) < doomedHeader {
		return fmt.Errorf("from %v: %d bytes", m.From, len(m.Data))
	}
	number, incarnation := binary.BigEndian.Uint64(m.Data), int(binary.BigEndian.Uint64(m.Data[8:]))
	p, known := seen[m.From]
	switch {
	case !known && !survivor: // it may have come later than the sender
		p = progress{incarnation, number}
	case !known || incarnation > p.incarnation:
		p = progress{incarnation, 0} // the one before was killed: what came of it is a prefix without gaps
	}
	if incarnation != p.incarnation || number != p.next {
		return fmt.Errorf("from %v: message %d of incarnation %d, want %d of %d", m.From, number, incarnation, p.next, p.incarnation)
	}
	if !bytes.Equal(m.Data, doomedMessage(number, incarnation)) {
		return fmt.Errorf("from %v: message %d is damaged", m.From, number)
	}
	p.next++
	seen[m.From] = p
	return nil
}

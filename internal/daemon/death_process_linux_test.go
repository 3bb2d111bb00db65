//go:build live

package daemon

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

	"github.com/rds-go/rds/internal/client"
	"github.com/rds-go/rds/internal/invariants"
	"github.com/rds-go/rds/internal/rdstest"
	"github.com/rds-go/rds/internal/socket"
	"github.com/rds-go/rds/rds/datagram"
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
	copy(b[doomedHeader:], rdstest.Pattern[number&0xff:])
	return b
}

// doomedOrigin is one sender's process. What it had queued when it was killed and
// what its successor sends on the same port may come mixed: they are different
// sockets of different sessions. Each is a stream without gaps.
type doomedOrigin struct {
	from        netip.AddrPort
	incarnation int
}

// beApplication is what a process does: path role address incarnation targets...
func beApplication(args []string) {
	incarnation, _ := strconv.Atoi(args[3])
	targets := make([]netip.AddrPort, 0, 4)
	for _, a := range args[4:] {
		targets = append(targets, netip.MustParseAddrPort(a))
	}
	err := func() error {
		c, err := client.Dial(args[0])
		if err != nil {
			return err
		}
		s, err := c.Bind(netip.MustParseAddrPort(args[2]))
		for end := time.Now().Add(rdstest.Patience); errors.Is(err, datagram.ErrAddressInUse) && time.Now().Before(end); { // its predecessor's death may be news
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
func sendUntilTold(s *socket.Socket, incarnation int, targets []netip.AddrPort) error {
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
func receiveAndVerify(s *socket.Socket, survivor bool) error {
	want := make(chan map[doomedOrigin]uint64, 1)
	ctx, wake := context.WithCancel(context.Background())
	go func() {
		all := make(map[doomedOrigin]uint64)
		for in := bufio.NewScanner(os.Stdin); in.Scan(); {
			var from string
			var incarnation int
			var next uint64
			if _, err := fmt.Sscan(in.Text(), &from, &incarnation, &next); err == nil {
				all[doomedOrigin{netip.MustParseAddrPort(from), incarnation}] = next
			}
		}
		want <- all
		wake()
	}()
	seen := make(map[doomedOrigin]uint64)
	var final map[doomedOrigin]uint64
	for {
		if final != nil {
			missing := false
			for from, next := range final {
				missing = missing || seen[from] != next
			}
			if !missing || !survivor {
				return nil
			}
		}
		m, err := s.Recv(ctx)
		if errors.Is(err, context.Canceled) {
			final = <-want
			ctx, wake = context.WithTimeout(context.Background(), rdstest.Patience)
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

// judge checks one message against what came before from the same process.
func judge(seen map[doomedOrigin]uint64, m *datagram.Message, survivor bool) error {
	if len(m.Data) < doomedHeader {
		return fmt.Errorf("from %v: %d bytes", m.From, len(m.Data))
	}
	number, incarnation := binary.BigEndian.Uint64(m.Data), int(binary.BigEndian.Uint64(m.Data[8:]))
	from := doomedOrigin{m.From, incarnation}
	next, known := seen[from]
	if !known && !survivor { // it may have come later than the sender
		next = number
	}
	if number != next {
		return fmt.Errorf("PROMISE: from %v: message %d, want %d", from, number, next)
	}
	if !bytes.Equal(m.Data, doomedMessage(number, incarnation)) {
		return fmt.Errorf("PROMISE: from %v: message %d is damaged", from, number)
	}
	seen[from] = next + 1
	return nil
}

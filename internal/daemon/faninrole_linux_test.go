//go:build live

package daemon

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/rds-go/rds/internal/client"
	"github.com/rds-go/rds/internal/node"
	"github.com/rds-go/rds/internal/rdstest"
	"github.com/rds-go/rds/internal/socket"
	"github.com/rds-go/rds/rds/config"
	"github.com/rds-go/rds/rds/info"
)

const (
	fanInFull  = 4000      // the port that everybody sends to
	fanInOther = 5000      // the port of a socket that always receives
	fanInSize  = 8 << 10   // of a message on the average, or nearly so
	fanInMost  = 128 << 10 // of a message at most
)

// fanInPayload is message seq of a socket: its number, and more of any length.
func fanInPayload(seq uint64) []byte {
	size := 9 + seq*7919%(2*fanInSize)
	if seq%64 == 63 {
		size = 100_000
	}
	b := binary.BigEndian.AppendUint64(make([]byte, 0, size), seq)[:size]
	b[size-1] = byte(seq)
	return b
}

// fanInCount is what a process has received, in the order in which it is printed.
type fanInCount struct {
	full, wrong    int           // on the full port, and out of order or damaged
	other          int           // on the other port
	p99, worst     time.Duration // how late messages on the other port were
	dropped, pause uint64        // recv_drop_overrun, recv_paused
	astray, reset  uint64        // dropped for want of a socket, conn_reset
	queued         int           // octets that wait on the full port
}

const fanInFormat = "%d %d %d %d %d %d %d %d %d %d\n"

// fanInTaker receives in a process.
type fanInTaker struct {
	n *node.Node // nil in an application

	mu     sync.Mutex
	gate   *sync.Cond
	paused bool            // guarded by mu
	count  fanInCount      // guarded by mu
	late   []time.Duration // guarded by mu
	next   map[netip.AddrPort]uint64
}

// take receives for the full port.
func (k *fanInTaker) take(s *socket.Socket) {
	for {
		k.mu.Lock()
		for k.paused {
			k.gate.Wait()
		}
		k.mu.Unlock()
		m, err := s.Recv(context.Background())
		if err != nil {
			fail(err)
		}
		k.mu.Lock()
		if !bytes.Equal(m.Data, fanInPayload(k.next[m.From])) {
			k.count.wrong++
		}
		k.next[m.From]++
		k.count.full++
		k.mu.Unlock()
		m.Release()
	}
}

// takeOther receives for the other port: messages are the time at which they were sent.
func (k *fanInTaker) takeOther(s *socket.Socket) {
	for {
		m, err := s.Recv(context.Background())
		if err != nil {
			fail(err)
		}
		d := time.Since(time.Unix(0, int64(binary.BigEndian.Uint64(m.Data))))
		m.Release()
		k.mu.Lock()
		k.count.other++
		k.late = append(k.late, d)
		k.mu.Unlock()
	}
}

// obey does what the test says until the test has ended.
func (k *fanInTaker) obey() {
	fmt.Println("ready")
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		k.mu.Lock()
		switch in.Text() {
		case "pause":
			k.paused = true
		case "resume":
			k.paused = false
			k.gate.Broadcast()
		case "count":
			c := k.count
			if len(k.late) > 0 {
				slices.Sort(k.late)
				c.p99, c.worst = k.late[len(k.late)*99/100], k.late[len(k.late)-1]
				k.late = k.late[:0]
			}
			if k.n != nil {
				for _, x := range k.n.List() {
					switch x.Name {
					case "recv_drop_overrun":
						c.dropped = x.Value
					case "recv_drop_no_sock", "recv_drop_dead_sock":
						c.astray += x.Value
					case "recv_paused":
						c.pause = x.Value
					case "conn_reset":
						c.reset = x.Value
					}
				}
				c.queued = k.queued()
			}
			fmt.Printf(fanInFormat, c.full, c.wrong, c.other, c.p99, c.worst, c.dropped, c.pause, c.astray, c.reset, c.queued)
		}
		k.mu.Unlock()
	}
	os.Exit(0)
}

// queued is what waits on the full port, as the node reports it.
func (k *fanInTaker) queued() int {
	report, err := k.n.Info()
	if err != nil {
		fail(err)
	}
	i := slices.IndexFunc(report.Sockets, func(s info.Socket) bool { return s.Bound.Port() == fanInFull })
	if i < 0 {
		return 0 // its application has not bound it yet, or has died
	}
	return report.Sockets[i].RecvQueued
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// beFanIn is what a process does: node address port wire buffer overrun; daemon the same
// and a path; application address path.
func beFanIn(role string, args []string) {
	k := &fanInTaker{next: make(map[netip.AddrPort]uint64)}
	k.gate = sync.NewCond(&k.mu)
	at := netip.MustParseAddr(args[0])
	bind := func(p rdstest.Provider, port uint16) *socket.Socket {
		s, err := p.Bind(rdstest.AddrOf(at, port))
		if err != nil {
			fail(err)
		}
		return s
	}
	if role == "application" {
		c, err := client.Dial(args[1])
		if err != nil {
			fail(err)
		}
		go k.take(bind(c, fanInFull))
		k.obey()
	}
	number := func(i int) int {
		n, err := strconv.Atoi(args[i])
		if err != nil {
			fail(err)
		}
		return n
	}
	n, err := node.New(config.Node{Port: uint16(number(1)), Wire: config.Wire(args[2]), ReceiveBuffer: number(3), ReceiveOverrun: number(4), MaxMessage: fanInMost,
		Linger: -1, XRC: config.XRC{Patience: rdstest.Patience}})
	if err != nil {
		fail(err)
	}
	k.n = n
	go k.takeOther(bind(n, fanInOther))
	if role == "daemon" {
		if _, err := New(n, config.Service{Path: args[5]}); err != nil {
			fail(err)
		}
	} else {
		go k.take(bind(n, fanInFull))
	}
	k.obey()
}

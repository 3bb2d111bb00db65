//go:build !live

package node

import (
	"bytes"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rds-go/rds/internal/rdstest"
	"github.com/rds-go/rds/internal/socket"
	"github.com/rds-go/rds/internal/wire"
	"github.com/rds-go/rds/rds/config"
	"github.com/rds-go/rds/rds/datagram"
)

// A message that was partly written when its link broke comes again whole,
// first, flagged, and with its number (net/rds/send.c, rds_send_path_reset).
func TestReconnectResendsUnacked(t *testing.T) {
	t.Parallel()
	for _, role := range []string{"smaller", "larger"} {
		t.Run("from the "+role+" address", func(t *testing.T) {
			rdstest.Bubble(t, func(t *testing.T) {
				v := newVictimOf(t, config.Node{TCP: config.TCP{SendBuffer: 64 << 10}})
				peer := v.small
				next := func() *rdstest.Raw { return peer.Dial(v.host) }
				if role == "smaller" { // of the victim
					peer = v.high
					ln := peer.Listen()
					next = ln.Accept
				}
				to := rdstest.AddrOf(peer.Addr, 1000)
				var r *rdstest.Raw
				if role == "larger" {
					r = next()
				}
				rdstest.MustSend(t, v.s, to, []byte("whole"))
				if r == nil {
					r = next()
				}
				r.Put(rdstest.Congestion()) // it is RDS that took the link
				r.Hs.Generation = 7         // its answer to the probe says that it has read
				whole, _ := r.NextData()
				_ = r.SetReadBuffer(4096)
				big := rdstest.Payload(7, 600_000)
				rdstest.MustSend(t, v.s, to, big)
				rdstest.MustSend(t, v.s, to, []byte("never begun"))
				var part [wire.HeaderSize + 5000]byte
				if _, err := readFull(r, part[:]); err != nil {
					t.Fatal(err)
				}
				var first wire.Header
				_ = first.Decode(part[:])
				if first.Sequence != whole.Sequence+1 || first.Retransmitted() || first.Length != 600_000 {
					t.Errorf("first: %+v", first)
				}
				// Delayed acknowledgements: the first message must not come again too.
				rdstest.Eventually(t, "its acknowledgement", func() bool { return halfOf(v.s).Account.Messages() == 2 })
				r.Reset()

				r = next()
				r.Put(rdstest.Congestion())
				h, b := r.NextData()
				if h.Sequence != first.Sequence || h.Flags != wire.FlagRetransmitted || !bytes.Equal(b, big) {
					t.Errorf("again: %+v", h)
				}
				h, b = r.NextData()
				if h.Retransmitted() || h.Sequence <= first.Sequence || string(b) != "never begun" {
					t.Errorf("then: %+v %.40q", h, b)
				}
				rdstest.Eventually(t, "the acknowledgement", func() bool { return halfOf(v.s).Account.Messages() == 0 })
				rdstest.WantCounter(t, v.node, "send_retransmitted", 1)
			})
		})
	}
}

func readFull(r *rdstest.Raw, b []byte) (n int, err error) {
	for n < len(b) && err == nil {
		var k int
		k, err = r.Read(b[n:])
		n += k
	}
	return n, err
}

// A peer that accepts and closes at once costs neither a storm of connections
// nor a message: what its TCP acknowledged does not count.
func TestAcceptAndClose(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		most int64 // connections in a second
		with []byte
	}{
		{"silently", 40, nil},
		// It proved to be RDS, so the back-off starts over each time: its minimum bounds it.
		{"after its congestion map", 260, rdstest.Congestion()},
	} {
		for _, reset := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, with RST %v", c.name, reset), func(t *testing.T) {
				bubble(t, newVictim, func(t *testing.T, v *victim) {
					ln := v.high.Listen()
					to := rdstest.AddrOf(v.high.Addr, 1000)
					const count = 50
					for i := range count {
						rdstest.MustSend(t, v.s, to, rdstest.Payload(uint64(i), 100))
					}
					next := ln.Accept()
					end := time.Now().Add(time.Second)
					for dials := int64(1); next != nil; dials++ {
						if dials > c.most {
							t.Fatalf("%d connections in a second", dials)
						}
						r := next
						_, _ = r.Write(c.with)
						if reset {
							r.Reset()
						} else {
							_ = r.Conn.Close()
						}
						next, _ = ln.AcceptUntil(end)
					}
					r := ln.Accept() // it goes on
					if c.with != nil {
						return // what it acknowledged then is gone, as with Linux
					}
					for i := range uint64(count) {
						h, b := r.NextData()
						if err := rdstest.Verify(b, i); err != nil {
							t.Fatalf("%+v: %v", h, err)
						}
					}
				})
			})
		}
	}
}

// A peer that never answers a probe gets data on one path all the same.
func TestProbeWithoutAnswer(t *testing.T) {
	rdstest.Bubble(t, func(t *testing.T) {
		for _, paths := range []int{1, 8} {
			v := newVictimOf(t, config.Node{Paths: paths})
			ln := v.high.Listen()
			to := rdstest.AddrOf(v.high.Addr, 1000)
			for i := range 3 {
				rdstest.MustSend(t, v.s, to, rdstest.Payload(uint64(i), 50_000))
			}
			r := ln.Accept()
			for i := uint64(0); i < 6; {
				h, b, err := r.Next()
				rdstest.Must(t, err)
				if h.Dport != 1000 {
					continue
				}
				rdstest.Must(t, rdstest.Verify(b, i))
				if i == 2 { // it speaks, but not of the probe
					r.Put(v.data(r, "data"))
					rdstest.Expect(t, v.s, "data")
					for i := range 3 {
						rdstest.MustSend(t, v.s, to, rdstest.Payload(uint64(3+i), 10))
					}
				}
				i++
			}
		}
	})
}

// Whatever number of paths a peer states, the node opens no more than it was
// told to, and what goes over the paths there are arrives.
func TestLiesAboutPaths(t *testing.T) {
	t.Parallel()
	for _, ours := range []int{1, 8} {
		for _, theirs := range []uint16{0, 1, 2, 3, 5, 7, 8, 200, 65535} {
			t.Run(fmt.Sprintf("%d of our %d", theirs, ours), func(t *testing.T) {
				rdstest.Bubble(t, func(t *testing.T) {
					v := newVictimOf(t, config.Node{Paths: ours})
					ln := v.high.Listen()
					to := rdstest.AddrOf(v.high.Addr, 1000)
					var socks []*socket.Socket
					for port := range uint16(8) {
						socks = append(socks, v.bind(v.node, rdstest.AddrOf(v.host, 5000+port)))
					}
					rdstest.MustSend(t, socks[0], to, rdstest.Payload(0, 8))
					got := make(chan uint64, 100)
					var open atomic.Int32
					done := make(chan struct{})
					go func() {
						defer close(done)
						for {
							r, err := ln.AcceptUntil(rdstest.After(rdstest.Patience))
							if err != nil {
								return
							}
							open.Add(1)
							r.Hs = wire.Handshake{HasPaths: true, Paths: theirs}
							go func() {
								_ = r.Serve(func(_ wire.Header, b []byte) { got <- rdstest.Be64(b) })
							}()
						}
					}()
					take := func(want int) {
						t.Helper()
						sum := uint64(0)
						for range want {
							select {
							case n := <-got:
								sum += n
							case <-rdstest.Background(t).Done():
								t.Fatal("a message is missing")
							}
						}
						if sum != uint64(want*(want-1)/2) {
							t.Errorf("sum %d", sum)
						}
					}
					take(1)
					agreed := max(1, min(int(theirs), ours))
					rdstest.Eventually(t, "the handshake", func() bool {
						for _, c := range rdstest.Report(t, v.node).Connections {
							if c.Remote == v.high.Addr {
								return c.Paths == agreed
							}
						}
						return false
					})
					for round := range 3 {
						for i, s := range socks {
							rdstest.MustSend(t, s, to, rdstest.Payload(uint64(i), 100*round))
						}
						take(len(socks))
					}
					rdstest.Eventually(t, "all paths", func() bool { return int(open.Load()) >= agreed })
					if n := int(open.Load()); n > agreed {
						t.Errorf("%d connections for %d paths", n, agreed)
					}
					_ = ln.Close()
					<-done
				})
			})
		}
	}
}

// A peer that states 8 paths and opens one leaves the messages of the others
// waiting, within the budget, until it opens them.
func TestPathsThatAreNotOpened(t *testing.T) {
	rdstest.Bubble(t, func(t *testing.T) {
		v := newVictimOf(t, config.Node{Paths: 8})
		r := v.small.Dial(v.host)
		r.Hs.Paths = 8
		r.Put(r.Probe(r.Hs))
		rdstest.Eventually(t, "the handshake", func() bool {
			for _, c := range rdstest.Report(t, v.node).Connections {
				if c.Remote == v.small.Addr {
					return c.Paths == 8
				}
			}
			return false
		})
		const count = 64
		to := rdstest.AddrOf(v.small.Addr, 1000)
		for i := range uint16(count) {
			s := v.bind(v.node, rdstest.AddrOf(v.host, 6000+i))
			rdstest.MustSend(t, s, to, rdstest.Payload(uint64(i), 100))
		}
		got := make(chan uint64, 2*count)
		serve := func(r *rdstest.Raw) {
			r.Hs.Paths = 8
			go func() { _ = r.Serve(func(_ wire.Header, b []byte) { got <- rdstest.Be64(b) }) }()
		}
		serve(r)
		seen := make(map[uint64]bool)
		take := func(wait time.Duration) bool {
			select {
			case n := <-got:
				if seen[n] {
					t.Errorf("message %d twice", n)
				}
				seen[n] = true
				return true
			case <-time.After(wait):
				return false
			}
		}
		const silence = 300 * time.Millisecond // after which the path has brought what it brings
		for wait := rdstest.Patience; take(wait); wait = silence {
		}
		if n := len(seen); n == 0 || n == count {
			t.Errorf("%d of %d messages on the one path", n, count)
		}
		for range 7 {
			serve(v.small.Dial(v.host))
		}
		for range count - len(seen) {
			if !take(rdstest.Patience) {
				t.Fatalf("%d of %d messages on all paths", len(seen), count)
			}
		}
	})
}

// A peer that opens a connection while it has one has lost that: the new one
// takes its place, whether or not the old one ever ends.
func TestSecondConnectionSupersedes(t *testing.T) {
	bubble(t, newVictim, func(t *testing.T, v *victim) {
		dead := v.small.Dial(v.host)
		dead.Put(dead.Probe(dead.Hs)) // with one path there is no doubt which is meant
		dead.Put(v.data(dead, "first"))
		rdstest.Expect(t, v.s, "first")
		to := rdstest.AddrOf(v.small.Addr, 1000)
		for range 3 {
			r := v.small.Dial(v.host)
			r.Seq = dead.Seq
			r.Put(v.data(r, "next"))
			rdstest.Expect(t, v.s, "next")
			rdstest.MustSend(t, v.s, to, []byte("answer"))
			if h, b := r.NextData(); string(b) != "answer" {
				t.Errorf("%+v", h)
			}
			dead.WaitEnd()
			dead = r
		}
	})
}

// An inbound connection from a larger address is a knock: it is closed, and
// the node connects by itself (net/rds/tcp_listen.c, rds_tcp_accept_one).
func TestKnock(t *testing.T) {
	bubble(t, newVictim, func(t *testing.T, v *victim) {
		ln := v.high.Listen()
		knock, err := v.high.TryDial(v.host)
		rdstest.Must(t, err)
		r := ln.Accept()
		knock.WaitEnd()
		r.Put(v.data(r, "came in"))
		rdstest.Expect(t, v.s, "came in")
		if n := rdstest.Counter(t, v.node, "conn_refused"); n == 0 { // the healthy peer may have knocked too
			t.Errorf("conn_refused %d", n)
		}
	})
}

// A connection from one of the node's own addresses is not taken.
func TestOwnAddressFromOutside(t *testing.T) {
	bubble(t, newVictim, func(t *testing.T, v *victim) {
		mine := v.bind(v.node).LocalAddrPort().Addr()
		v.high.Addr = mine
		r, err := v.high.TryDial(v.host)
		rdstest.Must(t, err)
		_, _ = r.Write(v.data(r, "impostor"))
		r.WaitEnd()
		if _, err := v.s.TryRecv(); !errors.Is(err, datagram.ErrWouldBlock) {
			t.Error("its message was delivered")
		}
	})
}

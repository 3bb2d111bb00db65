//go:build !live

package iwarp

import (
	"errors"
	"io"
	"syscall"
	"testing"
	"time"

	"github.com/rds-go/rds/mr"
	"github.com/rds-go/rds/transport/iwarp/rdmap"
	"github.com/rds-go/rds/transport/iwarp/xctl"
)

// A peer that says nothing gets one PING, and then the connection ends: one that
// reads, and one that does not and whose PING never leaves.
func TestSilentPeerIsGivenUp(t *testing.T) {
	const silence = time.Second
	bothRoles(t, func(t *testing.T, initiator bool) {
		for _, reads := range []bool{true, false} {
			func() {
				e, x, mem := sharedPeer(t, initiator, SharedParams{Silence: silence})
				// What opens the connection may take as long as silence on a busy
				// machine. The PING that is counted follows the last word.
				before := time.Now()
				x.sync()
				has[xctl.Ping](x)
				if reads {
					await[xctl.Ping](x)
				} else {
					big := e.reg(32<<20, mr.RemoteRead)
					x.raw.send(x.read(rdmap.ReadRequest{SinkSTag: 1, Size: 32 << 20, SourceSTag: uint32(big.Key()), SourceTO: big.Base()}))
				}
				e.send(WorkRequest{ID: 1, Queue: 5, Inline: []byte("x")}, WorkRequest{ID: 2, Op: OpRead, SGE: []SGE{mem.SGE(0, 8)}, RemoteKey: 1})
				<-e.qp.Done()
				if d := time.Since(before); d < silence*3/4 {
					t.Errorf("after %v already", d)
				}
				if err := e.qp.Err(); !errors.Is(err, ErrSilent) || !errors.Is(err, syscall.ETIMEDOUT) {
					t.Fatal(err)
				}
				for range 2 {
					if c := e.next(); c.Status != Flushed {
						t.Fatalf("%+v", c)
					}
				}
				if !reads {
					return
				}
				for {
					if _, _, err := x.take(); errors.Is(err, syscall.ECONNRESET) || errors.Is(err, io.EOF) {
						break
					} else if err != nil {
						t.Fatal(err)
					}
				}
				if n := len(has[xctl.Ping](x)); n != 0 {
					t.Fatalf("%d more PINGs", n)
				}
			}()
		}
	})
}

// A connection whose peer answers, be it at the last moment, lives, however long
// nothing else is said, and PINGs take no receive request.
func TestIdleConnectionLives(t *testing.T) {
	bothRoles(t, func(t *testing.T, initiator bool) {
		e, x, mem := sharedPeer(t, initiator, SharedParams{Silence: time.Hour})
		s := x.queues.srq(e, 1, SRQConfig{})
		e.give(s, 1, mem.SGE(0, 8))
		e.post(2, mem.SGE(8, 8))
		x.sync()
		for nonce := uint64(1); nonce <= 8; nonce++ {
			e.heard()
			for range 1 + askLooks {
				e.look()
			}
			p := await[xctl.Ping](x)
			if p.Nonce != nonce {
				t.Fatalf("PING %d instead of %d", p.Nonce, nonce)
			}
			for range answerLooks - 1 {
				e.look()
			}
			if nonce%2 == 0 {
				x.raw.send(x.tell(xctl.Pong(p)))
			} else {
				x.raw.send(emptyWrite()) // as good as an answer
			}
		}
		e.heard()
		if e.qp.State() != StateRTS || s.Posted() != 1 || e.qp.rq.posted() != 1 || e.dev.Stats().AccessErrors != 0 {
			t.Fatal(e.qp.Err(), s.Posted(), e.qp.rq.posted(), e.dev.Stats().AccessErrors)
		}
		if n := e.cq.Poll(make([]Completion, 1)); n != 0 {
			t.Fatal("a PING completed something")
		}
	})
}

// A peer behind a slow path is not silent while its TCP takes what goes before the
// PING: that one arrives, later than the end of a silent one would come.
func TestSlowPathIsNoSilence(t *testing.T) {
	bubble(t, func(t *testing.T) {
		e := newEnd(t, openDevice(t, Config{EventLoops: 1, SendBuffer: 32 << 10, MaxULPDU: 8 << 10}), QPConfig{})
		x := openExtended(t, e, true, allCaps, SharedParams{Silence: time.Hour})
		must(t, x.conn.SetReadBuffer(16<<10))
		x.sync()
		mem := e.reg(1<<20, 0)
		e.send(WorkRequest{ID: 1, Queue: 5, Flags: Signaled, SGE: []SGE{mem.SGE(0, 1<<20)}})
		x.incoming(rdmap.OpSend) // the PING waits behind what the message has begun with
		for range 1 + askLooks {
			e.look()
		}
		looks := 0
		for len(has[xctl.Ping](x)) == 0 {
			if _, _, err := x.take(); err != nil {
				t.Fatalf("%v after %d looks: %v", err, looks, e.qp.Err())
			}
			if e.progress() {
				e.look()
				looks++
			}
		}
		if looks <= answerLooks { // after so many a silent one is given up
			t.Fatalf("the PING came after %d looks already", looks)
		}
	})
}

// A peer whose TCP acknowledges what comes, while its program hangs, is given up: when
// the PING has arrived it is the program that has to say something.
func TestHungPeerUnderTrafficIsGivenUp(t *testing.T) {
	bothRoles(t, func(t *testing.T, initiator bool) {
		e, x, _ := sharedPeer(t, initiator, SharedParams{Silence: time.Hour})
		x.sync()
		has[xctl.Ping](x)
		e.heard()
		for look := range 1 + askLooks + answerLooks {
			e.chatter() // which the peer's TCP takes, and nobody reads
			if state := e.qp.State(); state != StateRTS {
				t.Fatalf("after %d looks already: %v", look, state)
			}
			e.look()
		}
		if err := e.qp.Err(); !errors.Is(err, ErrSilent) {
			t.Fatalf("after %d looks: %v", 1+askLooks+answerLooks, err)
		}
	})
}

// A bit of an FPDU's length has changed on its way: the FPDU seems to have 60 KB, and what
// the peer says from then on goes into it. Its octets are no sign of life: the connection
// ends, although something comes all the time.
func TestFrameThatDoesNotEndIsSilence(t *testing.T) {
	t.Parallel()
	const silence = time.Second
	for _, crc := range []bool{false, true} {
		bothRoles(t, func(t *testing.T, initiator bool) {
			e, _ := sharedHost(t)
			x := openExtendedCRC(t, e, initiator, crc, allCaps, SharedParams{Silence: silence})
			x.sync()
			mem := make([]byte, 60_000)
			f := x.frame(x.message(5, 0, true, mem))
			x.write(f[:100])
			tick := time.NewTicker(10 * time.Millisecond)
			defer tick.Stop()
			for at := 100; ; at += 8 {
				select {
				case <-e.qp.Done():
					if err := e.qp.Err(); !errors.Is(err, ErrSilent) {
						t.Fatal(err)
					}
					return
				case <-tick.C:
				}
				if at > 100+8*1000 {
					t.Fatal("the connection lives")
				}
				x.write(f[at : at+8])
			}
		})
	}
}

// The decision at the default's 20 s. At each look a function of the time says when
// the peer was heard last and how much its TCP has acknowledged; the PING is written at
// once behind all that had been written, and ends at its place in the stream.
func TestSilenceByDefault(t *testing.T) {
	t.Parallel()
	const (
		limit = 20 * time.Second
		every = limit / silenceLooks
		slow  = 1e6 / 8 // octets a second of a link of 1 Mbit/s
	)
	if d := (&SharedParams{}).silence(); d != limit {
		t.Fatalf("the default is %v", d)
	}
	for _, tt := range []struct {
		name     string
		heard    func(at time.Duration) time.Duration
		written  func(at time.Duration) uint64 // with what the PING is written behind
		acked    func(at time.Duration) uint64
		from, to time.Duration // when it is silent; 0: never
	}{
		{"stopped, and its TCP takes 1,000 messages of 64 octets a second",
			func(at time.Duration) time.Duration { return min(at, time.Second) },
			func(at time.Duration) uint64 { return uint64(at.Milliseconds()) * 64 },
			func(at time.Duration) uint64 { return uint64(at.Milliseconds()) * 64 }, time.Second + limit*3/4, time.Second + limit},
		{"stopped, and its window closed",
			func(at time.Duration) time.Duration { return min(at, time.Second) },
			func(time.Duration) uint64 { return 8 << 20 },
			func(time.Duration) uint64 { return 4 << 20 }, time.Second + limit*3/4, time.Second + limit},
		{"8 MiB to a link of 1 Mbit/s, of which nothing is answered until all has arrived",
			func(at time.Duration) time.Duration {
				if at.Seconds() > 8<<20/slow+1 {
					return at
				}
				return 0
			},
			func(time.Duration) uint64 { return 8 << 20 },
			func(at time.Duration) uint64 { return min(8<<20+64, uint64(at.Seconds()*slow)) }, 0, 0},
		{"the same, and its program is stopped",
			func(time.Duration) time.Duration { return 0 },
			func(time.Duration) uint64 { return 8 << 20 },
			func(at time.Duration) uint64 { return min(8<<20+64, uint64(at.Seconds()*slow)) }, 67*time.Second + limit/4, 67*time.Second + limit},
		{"an answer after 9 s", func(at time.Duration) time.Duration { return at.Truncate(9 * time.Second) },
			func(time.Duration) uint64 { return 1000 }, func(time.Duration) uint64 { return 1064 }, 0, 0},
	} {
		var w watch
		last, silent, at := time.Duration(-1), false, time.Duration(0)
		for at = 0; at < 10*time.Minute && !silent; at += every {
			heard := tt.heard(at) > last
			var ask bool
			ask, silent = w.look(heard, tt.acked(at))
			if last = at; ask {
				w.out = true
				w.wroteLocked(tt.written(at) + 64)
			}
		}
		if at -= every; silent != (tt.to > 0) || silent && (at < tt.from || at > tt.to) {
			t.Errorf("%s: silent %v, after %v; expected %v to %v", tt.name, silent, at, tt.from, tt.to)
		}
	}
}

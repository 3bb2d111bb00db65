//go:build live

package daemon

import (
	"fmt"
	"net/netip"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rds-go/rds/internal/gnetloop"
	"github.com/rds-go/rds/internal/ipc"
	"github.com/rds-go/rds/internal/rdstest"
	"github.com/rds-go/rds/internal/socket"
	"github.com/rds-go/rds/rds/config"
)

// pollersOf counts the epoll instances of this process that watch a descriptor.
func pollersOf(t *testing.T, fd int) (n int) {
	t.Helper()
	var st unix.Stat_t
	rdstest.Must(t, unix.Fstat(fd, &st))
	entries, err := os.ReadDir("/proc/self/fd")
	rdstest.Must(t, err)
	for _, e := range entries {
		if at, _ := os.Readlink("/proc/self/fd/" + e.Name()); at != "anon_inode:[eventpoll]" {
			continue
		}
		info, err := os.ReadFile("/proc/self/fdinfo/" + e.Name())
		if err == nil && strings.Contains(string(info), fmt.Sprintf(" ino:%x ", st.Ino)) {
			n++
		}
	}
	return n
}

// An idle application costs the daemon one goroutine, which waits for calls. Its doorbell is in one
// epoll instance, that of an event loop: if Go's poller knew it, too, each ring would wake two threads.
func TestIdleSessionsSleepInTheEventLoop(t *testing.T) { // not in parallel: it looks at all goroutines
	const n = 20
	_, svc, path := served(t, newLab(t), config.Node{Wire: config.WireTCP}, config.Service{})
	for range n {
		dialed(t, path)
	}
	sessions := svc.all()
	for _, x := range sessions {
		rdstest.Eventually(t, "the ear in an event loop", func() bool { return pollersOf(t, x.ear.FD()) > 0 })
		if k := pollersOf(t, x.ear.FD()); k != 1 {
			t.Errorf("%d epoll instances watch an ear", k)
		}
	}
	buf := make([]byte, 4<<20)
	rdstest.Eventually(t, "one goroutine for each session", func() bool {
		k := 0
		for g := range strings.SplitSeq(string(buf[:runtime.Stack(buf, true)]), "\n\n") {
			if strings.Contains(g, "daemon.(*session).") {
				k++
			}
		}
		return len(sessions) == n && k == n
	})
}

// A ring for nothing is answered some times, then its ear is muted each time; work makes up for it.
// A session that rings a million times for nothing ends.
func TestRingsForNothingMuteTheEar(t *testing.T) {
	t.Parallel()
	_, svc, path := served(t, newLoopLab(t), config.Node{}, config.Service{})
	e := intrude(t, path)
	defer e.leave()
	here := rdstest.NewAddr()
	id, port := e.bind(rdstest.AddrOf(here, 9))
	at := e.resolve(here, here)
	x := svc.all()[0]
	rdstest.Eventually(t, "a session that listens", func() bool { return x.hearing.source.Load() != nil })
	x.deafen(false) // the test is the event loop from here on
	x.hearing.idle = 0
	want := func(what string, next gnetloop.Next, after time.Duration) {
		t.Helper()
		if got, d := x.Serve(true); got != next || d != after {
			t.Fatalf("%s: %d, %v, want %d, %v", what, got, d, next, after)
		}
	}
	for i := range idleRings {
		want(fmt.Sprint("ring ", i), gnetloop.Rest, 0)
	}
	want("one ring more", gnetloop.Mute, idlePenalty)
	e.submit(ipc.MakeEntry(ipc.OpSend, 0, port, id, at, 8, 0, 0, 0))
	want("a submission", gnetloop.Rest, 0)
	want("a ring after work", gnetloop.Rest, 0)
	x.hearing.idle = maxIdleRings
	want("the last ring", gnetloop.Mute, 0)
	<-x.done
}

// What a turn takes, and writes, is bounded, however much is on the ring.
func TestATurnIsBounded(t *testing.T) {
	t.Parallel()
	_, svc, path := served(t, newLoopLab(t), config.Node{}, config.Service{SendBudget: 1 << 30})
	e := intrude(t, path)
	defer e.leave()
	here := rdstest.NewAddr()
	id, port := e.bind(rdstest.AddrOf(here, 9))
	at := e.resolve(here, here)
	x := svc.all()[0]
	rdstest.Eventually(t, "a session that listens", func() bool { return x.hearing.source.Load() != nil })
	x.deafen(false)
	submit := func(op ipc.Op, size uint32) {
		t.Helper()
		m := ipc.MakeEntry(op, 0, port, id, at, size, 0, 0, 0)
		for range pumpEntries + ringEntries/4 {
			if e.submit(m) != 1 {
				t.Fatal("the ring is full")
			}
		}
	}
	drain := func() {
		for next := gnetloop.Again; next != gnetloop.Rest; {
			next, _ = x.Serve(true)
		}
	}
	drain()
	submit(ipc.OpSend, 8)
	n := x.sentMessages.Load()
	if next, _ := x.Serve(true); next != gnetloop.Again {
		t.Errorf("%d after a part of the submissions", next)
	}
	if n = x.sentMessages.Load() - n; n != pumpEntries {
		t.Errorf("%d submissions in a turn", n)
	}
	drain()
	submit(ipc.OpSendBlock, 64<<10)
	b := x.sentBytes.Load()
	if next, _ := x.Serve(true); next != gnetloop.Again {
		t.Errorf("%d after a part of the submissions", next)
	}
	if b = x.sentBytes.Load() - b; b != pumpBytes {
		t.Errorf("%d bytes in a turn", b)
	}
}

// While a call holds a session's lock its event loop serves others, and the submissions are taken
// when the lock is free, though nobody rings any more.
func TestLoopDoesNotWaitForASession(t *testing.T) {
	bubble(t, func(t *testing.T, l *lab) {
		_, svc, path := served(t, l, config.Node{}, config.Service{})
		a, b := rdstest.NewAddr(), rdstest.NewAddr()
		c1 := dialed(t, path)
		x := lastSession(svc)
		c2 := dialed(t, path)
		busy, other, to := bound(t, c1, rdstest.AddrOf(a, 11)), bound(t, c2, rdstest.AddrOf(a, 12)), bound(t, l.node(config.Node{}), rdstest.AddrOf(b, 9))
		rdstest.MustSend(t, busy, to.LocalAddrPort(), []byte("first"))
		rdstest.Expect(t, to, "first")
		for range 20 {
			release := rdstest.Hold(&x.mu) // as a call that takes its time
			rdstest.MustSend(t, busy, to.LocalAddrPort(), []byte("busy"))
			rdstest.Eventually(t, "the event loop at the session", x.mu.due.Load)
			rdstest.MustSend(t, other, to.LocalAddrPort(), []byte("other"))
			rdstest.Expect(t, to, "other")
			release()
			rdstest.Expect(t, to, "busy")
		}
	})
}

// No submission is left behind: senders publish at odd moments, calls of the same application hold
// the session's lock meanwhile, and each message arrives without another ring. Of several event
// loops the ears move between two.
func TestNoSubmissionIsForgotten(t *testing.T) {
	t.Parallel()
	rdstest.EachWire(t, func(t *testing.T, w config.Wire) {
		l := newLab(t)
		cfg := config.Node{Wire: w, TCP: config.TCP{EventLoops: 3}}
		_, _, path := served(t, l, cfg, config.Service{})
		far := []*socket.Socket{bound(t, l.node(config.Node{Wire: w}), rdstest.AddrOf(rdstest.NewAddr(), 9)), bound(t, l.node(config.Node{Wire: w}), rdstest.AddrOf(rdstest.NewAddr(), 9))}
		n := 600
		if testing.Short() {
			n = 300
		}
		for _, to := range far {
			go func() {
				for {
					m, err := to.Recv(rdstest.Background(t))
					if err != nil {
						return
					}
					_ = to.Send(rdstest.Background(t), m.From, m.Data)
					m.Release()
				}
			}()
		}
		here := rdstest.NewAddr()
		var wg sync.WaitGroup
		for i := range 4 {
			c := dialed(t, path)
			s := bound(t, c, rdstest.AddrOf(here, uint16(100+i)))
			var over atomic.Bool
			wg.Go(func() {
				for k := 0; !over.Load(); k++ {
					if err := s.SetReadBuffer(100_000 + k%2); err != nil { // a call
						t.Error(err)
						return
					}
				}
			})
			wg.Go(func() {
				defer over.Store(true)
				for k := range n {
					to := far[k/(2*nearTurns)%2].LocalAddrPort() // so that the ear goes from one peer to the other
					if err := s.Send(rdstest.Background(t), to, rdstest.Payload(uint64(k), 64)); err != nil {
						t.Error(err)
						return
					}
					m, err := s.Recv(rdstest.Background(t))
					if err != nil {
						t.Errorf("message %d: %v", k, err)
						return
					}
					m.Release()
				}
			})
		}
		wg.Wait()
	})
}

// Applications that ring all the time delay others by little: they are served in turn, and muted when
// they ring for nothing.
func TestRoguesDoNotStarveOthers(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	cfg := config.Node{Wire: config.WireTCP, TCP: config.TCP{EventLoops: 1}}
	_, svc, path := served(t, l, cfg, config.Service{})
	here := rdstest.NewAddr()
	echo := bound(t, l.node(config.Node{Wire: config.WireTCP}), rdstest.AddrOf(rdstest.NewAddr(), 9))
	go func() {
		for {
			m, err := echo.Recv(rdstest.Background(t))
			if err != nil {
				return
			}
			_ = echo.Send(rdstest.Background(t), m.From, m.Data)
			m.Release()
		}
	}()
	stop := make(chan struct{})
	var wg sync.WaitGroup
	defer wg.Wait()
	defer close(stop)
	for i := range 3 {
		e := intrude(t, path)
		id, port := e.bind(rdstest.AddrOf(here, uint16(200+i)))
		m := ipc.MakeEntry(ipc.OpSend, 0, port, id, e.resolve(here, here), 8, 0, 0, 0)
		wg.Go(func() {
			defer e.leave()
			for {
				select {
				case <-stop:
					return
				default:
				}
				if i == 0 { // for nothing
					e.ring()
				} else if e.submit(m, m) == 0 { // messages that it never takes
					e.ring()
				}
				runtime.Gosched()
			}
		})
	}
	good := bound(t, dialed(t, path), rdstest.AddrOf(here, 11))
	for i := range 50 {
		rdstest.MustSend(t, good, echo.LocalAddrPort(), rdstest.Payload(uint64(i), 64))
		rdstest.Drop(t, good, 1)
	}
	rdstest.Eventually(t, "the penalty", func() bool {
		for _, x := range svc.all() {
			if x.sentMessages.Load() == 0 && pollersOf(t, x.ear.FD()) == 0 {
				return true
			}
		}
		return false
	})
}

// Sessions end while their ears are ready, by the application or with the service, and leave no
// descriptor: none is closed twice, and no event loop looks at a number that is another's by then.
func TestSessionsEndWhileTheyAreRung(t *testing.T) { // not in parallel: it counts descriptors
	l := newLab(t)
	cfg := config.Node{Wire: config.WireTCP, TCP: config.TCP{EventLoops: 2}}
	_, svc, path := served(t, l, cfg, config.Service{})
	here := rdstest.NewAddr()
	round := func(stay bool) {
		var wg sync.WaitGroup
		var es []*evil
		for range 8 {
			es = append(es, intrude(t, path))
		}
		var ms []ipc.Entry
		for i, e := range es {
			id, port := e.bind(rdstest.AddrOf(here, uint16(100+i)))
			ms = append(ms, ipc.MakeEntry(ipc.OpSend, 0, port, id, e.resolve(here, here), 8, 0, 0, 0))
		}
		for i, e := range es {
			m := ms[i]
			wg.Go(func() {
				for k := range 200 {
					e.submit(m)
					if k == 100 && !stay {
						_ = e.sock.Close()
					}
					if i%4 == 0 && k == 150 && !stay {
						e.word(rawSQTail).Store(1 << 40) // a corrupt ring
						e.ring()
					}
				}
				if stay {
					_ = svc.Close() // by all at once
				}
				e.leave()
			})
		}
		wg.Wait()
		rdstest.Eventually(t, "the end of the sessions", func() bool { return len(svc.all()) == 0 })
	}
	round(false)
	base := fds(t)
	for range 5 {
		round(false)
	}
	rdstest.Eventually(t, "the descriptors to be closed", func() bool { return fds(t) <= base })
	round(true)
}

// A service on a node that is not made for it takes submissions on a loop of its own, and ends with it.
func TestServiceWithLoopsOfItsOwn(t *testing.T) { // not in parallel: it looks at all goroutines
	buf := make([]byte, 4<<20)
	loops := func() int { return strings.Count(string(buf[:runtime.Stack(buf, true)]), "gnetloop.(*loop).run(") }
	before := loops() // of services that other tests have left to successors
	l := newLoopLab(t)
	_, svc, path := served(t, l, config.Node{}, config.Service{})
	s, to := bound(t, dialed(t, path), rdstest.AddrOf(rdstest.NewAddr(), 11)), bound(t, l.node(config.Node{}), netip.AddrPortFrom(rdstest.NewAddr(), 12))
	rdstest.MustSend(t, s, to.LocalAddrPort(), []byte("x"))
	rdstest.Expect(t, to, "x")
	if !svc.ownLoops {
		t.Fatal("the loops are the node's")
	}
	_ = svc.Close() // an error if the acknowledgement is late: the node does not linger
	if n := loops(); n != before {
		t.Errorf("%d event loops before, %d after", before, n)
	}
}

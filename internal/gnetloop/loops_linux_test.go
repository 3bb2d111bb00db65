//go:build live

package gnetloop

import (
	"net/netip"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rds-go/rds/internal/streamtest"
)

// rope is a descriptor that is pulled and watched.
type rope struct {
	t     *testing.T
	fds   [2]int // the watched end, and the one to pull
	serve func(rung bool) (Next, time.Duration)

	turns atomic.Int64
	busy  atomic.Bool
}

func newRope(t *testing.T) *rope {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	streamtest.Must(t, err)
	r := &rope{t: t, fds: fds}
	t.Cleanup(func() { _ = unix.Close(fds[0]); _ = unix.Close(fds[1]) })
	return r
}

func (r *rope) pull() { _, _ = unix.Write(r.fds[1], []byte{1}) }

// Serve reads what was pulled.
func (r *rope) Serve(rung bool) (Next, time.Duration) {
	if r.busy.Swap(true) {
		r.t.Error("two turns at once")
	}
	defer r.busy.Store(false)
	if rung {
		var b [64]byte
		_, _ = unix.Read(r.fds[0], b[:])
	}
	next, after := Rest, time.Duration(0)
	if r.serve != nil {
		next, after = r.serve(rung)
	}
	r.turns.Add(1)
	return next, after
}

func (r *rope) await(n int64) {
	r.t.Helper()
	streamtest.Eventually(r.t, "turns", func() bool { return r.turns.Load() >= n })
}

// newHomes is as many loops as peers, each of which has a loop of its own.
func newHomes(t *testing.T, n int) (ls *Loops, peers []netip.Addr) {
	t.Helper()
	ls = newLoops(t, n, 0)
	for range n {
		a := newAddr().Addr()
		peers = append(peers, a)
		ls.homeOf(a)
	}
	return ls, peers
}

// A source has a turn when it begins, and one whenever its descriptor is readable.
func TestSourceHasTurns(t *testing.T) {
	t.Parallel()
	ls := newLoops(t, 2, 0)
	r := newRope(t)
	s := ls.Watch(r.fds[0], r)
	r.await(1)
	for i := range int64(100) {
		r.pull()
		r.await(i + 2)
	}
	s.Stop()
	r.pull()
	if n := r.turns.Load(); n != 101 {
		t.Errorf("%d turns", n)
	}
}

// No pull is lost while the source moves between loops: after each there is a turn.
func TestSourceMovesWithoutLosingWakeUps(t *testing.T) {
	t.Parallel()
	ls, peers := newHomes(t, 4)
	r := newRope(t)
	var pulled, seen atomic.Int64
	r.serve = func(bool) (Next, time.Duration) { seen.Store(pulled.Load()); return Rest, 0 }
	s := ls.Watch(r.fds[0], r)
	n := int64(5_000)
	if testing.Short() {
		n = 500
	}
	for i := range n {
		pulled.Store(i + 1)
		done := make(chan struct{})
		go func() {
			defer close(done)
			s.Near(peers[i%3])
			runtime.Gosched()
			s.Near(peers[i%4])
		}()
		r.pull()
		streamtest.Eventually(t, "the turn for a pull", func() bool { return seen.Load() == i+1 })
		<-done
	}
	s.Stop()
	for _, l := range ls.all {
		if l.served != 0 {
			t.Errorf("a loop counts %d sources", l.served)
		}
	}
}

// After Stop no turn is under way and none comes, wherever the source was going: its descriptor
// can be closed, and the next one with that number is nobody's.
func TestStopIsFinal(t *testing.T) {
	t.Parallel()
	ls, peers := newHomes(t, 3)
	for i := range 300 {
		r := newRope(t)
		var over atomic.Bool
		r.serve = func(bool) (Next, time.Duration) {
			if over.Load() {
				t.Error("a turn after Stop")
			}
			return []Next{Rest, Again, Yield, Mute}[i%4], time.Microsecond
		}
		s := ls.Watch(r.fds[0], r)
		done := make(chan struct{})
		go func() {
			defer close(done)
			for k := range 20 {
				s.Near(peers[(i+k)%3])
				r.pull()
			}
		}()
		if i%2 == 0 {
			<-done
		}
		s.Stop()
		over.Store(true)
		r.pull()
		<-done
	}
}

// A muted source has no turn before its time, however often its descriptor is pulled, and one
// after it. One that is muted for good has none.
func TestMutedSource(t *testing.T) {
	t.Parallel()
	ls := newLoops(t, 1, 0)
	r, dead := newRope(t), newRope(t)
	const pause = 50 * time.Millisecond
	var at []time.Time // used on the loop
	r.serve = func(bool) (Next, time.Duration) { at = append(at, time.Now()); return Mute, pause }
	dead.serve = func(bool) (Next, time.Duration) { return Mute, 0 }
	s, d := ls.Watch(r.fds[0], r), ls.Watch(dead.fds[0], dead)
	dead.await(1)
	for r.turns.Load() < 4 {
		r.pull()
		dead.pull()
		runtime.Gosched()
	}
	s.Stop()
	d.Stop()
	for i, b := range at[1:] {
		if since := b.Sub(at[i]); since < pause {
			t.Errorf("a turn after %v", since)
		}
	}
	if n := dead.turns.Load(); n != 1 {
		t.Errorf("%d turns of a source that is muted for good", n)
	}
}

// Sources that always want another turn leave the loop to connections and to the other sources.
func TestGreedySourcesStarveNobody(t *testing.T) {
	t.Parallel()
	ls := newLoops(t, 1, 0)
	e := newEngine(t, Options{EventLoops: 1, Loops: ls})
	var stop atomic.Bool
	var greedy []*Source
	for i := range 50 {
		r := newRope(t)
		r.serve = func(bool) (Next, time.Duration) {
			if stop.Load() {
				return Rest, 0
			}
			for start := time.Now(); time.Since(start) < 100*time.Microsecond; { // as a session that transmits
			}
			return []Next{Again, Yield}[i%2], 0
		}
		greedy = append(greedy, ls.Watch(r.fds[0], r))
	}
	peer, c := rawPeer(t, e)
	rec := streamtest.NewRecorder(t)
	start(t, c, rec)
	modest := newRope(t)
	m := ls.Watch(modest.fds[0], modest)
	for i := range byte(20) {
		write(t, peer, []byte{i})
		rec.Wait(t, "a byte", func(s []byte, _ []string) bool { return len(s) == int(i)+1 })
		n := modest.turns.Load()
		modest.pull()
		modest.await(n + 1)
	}
	stop.Store(true)
	for _, s := range append(greedy, m) {
		s.Stop()
	}
}

// All connections with a peer, of whichever engine, are read by one loop, and a source that goes
// near the peer is served there. Different peers are spread.
func TestOnePeerHasOneLoop(t *testing.T) {
	t.Parallel()
	ls := newLoops(t, 2, 0)
	e1, e2 := newEngine(t, Options{Loops: ls}), newEngine(t, Options{Loops: ls})
	at := func(c *Conn) *loop {
		c.mu.Lock()
		defer c.mu.Unlock()
		s, _ := c.loop.(*seat)
		if s == nil {
			return nil
		}
		return s.l
	}
	var loops []*loop
	for range 2 {
		var of []*loop
		here := newAddr() // the peer
		for _, e := range []*Engine{e1, e2, e1} {
			addr, accepted := listen(t, e)
			c, err := e.Dial(t.Context(), here, addr)
			streamtest.Must(t, err)
			defer func() { c.Close(0) }()
			b := streamtest.Receive(t, accepted)
			start(t, b, streamtest.NewRecorder(t))
			streamtest.Eventually(t, "a loop", func() bool { return at(b) != nil })
			of = append(of, at(b))
		}
		if of[0] != of[1] || of[0] != of[2] {
			t.Error("the connections with one peer are at two loops")
		}
		loops = append(loops, of[0])
		r := newRope(t)
		s := ls.Watch(r.fds[0], r)
		s.Near(here.Addr())
		streamtest.Eventually(t, "the source at its peer's loop", func() bool { return s.at.Load().l == of[0] })
		s.Stop()
	}
	if loops[0] == loops[1] {
		t.Error("two peers are at one loop of two")
	}
}

// Nothing of the package waits for a source's descriptor in Go's poller: the only goroutine that
// looks at it is the loop's.
func TestLoopsSleepInEpollWait(t *testing.T) {
	ls := newLoops(t, 1, 0)
	r := newRope(t)
	s := ls.Watch(r.fds[0], r)
	r.await(1)
	buf := make([]byte, 1<<20)
	var mine []string
	streamtest.Eventually(t, "a loop that blocks", func() bool {
		mine = slices.DeleteFunc(strings.Split(string(buf[:runtime.Stack(buf, true)]), "\n\n"), func(g string) bool { return !strings.Contains(g, "gnetloop.(*loop).run") })
		return len(mine) == 1 && strings.Contains(mine[0], "EpollWait")
	})
	s.Stop()
}

//go:build !live

package iwarp

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"runtime"
	"sync"
	"testing"
	"time"
	"weak"

	"github.com/rds-go/rds/internal/memnet"
	"github.com/rds-go/rds/mr"
)

// server accepts every connection to a listener, until it is closed; each gets a
// queue pair of its own, which accepted is told of.
func serve(ln *Listener, pd *PD, cq *CQ, accepted func(q *QP, err error)) *sync.WaitGroup {
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			in, err := ln.Accept(context.Background())
			if err != nil {
				return
			}
			wg.Go(func() {
				q, err := pd.CreateQP(QPConfig{SendCQ: cq, RecvCQ: cq, MaxSend: 16, MaxReceive: 16})
				if err == nil {
					_, err = in.Accept(context.Background(), q, ConnParams{})
				}
				accepted(q, err)
			})
		}
	})
	return &wg
}

// Queue pairs and their device may be ended at any moment, in any way, by
// anybody, while they are being used: everything returns, and every request
// completes once.
func TestEndAtAnyMoment(t *testing.T) {
	t.Parallel()
	for _, seed := range []uint64{1, 2, 3, 4} {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			r := rand.New(rand.NewPCG(seed, 0))
			for run := range 15 {
				memnet.Bubble(t, memnet.Options{Latency: 50 * time.Microsecond}, func(t *testing.T) {
					terms := ConnParams{NoCRC: run%2 == 0, Guard: -1, PeerToPeer: run%3 == 0}
					client, server := pair(t, Config{EventLoops: 1}, terms, terms)
					endAtAnyMoment(t, r, client, server)
				})
			}
		})
	}
}

// busyEnd is one of two ends that are ended while they are used.
type busyEnd struct {
	*end
	// The one region is only read, and the other is only written: nothing orders one side's
	// reads with the other's writes.
	source, sink  *MR
	mu            sync.Mutex
	posted, taken int // requests and completions; guarded by mu
}

func endAtAnyMoment(t *testing.T, r *rand.Rand, client, server *end) {
	ends := [2]*busyEnd{{end: client}, {end: server}}
	for _, e := range ends {
		e.source, e.sink = e.reg(128<<10, mr.RemoteRead), e.reg(128<<10, allRights)
	}
	var wg sync.WaitGroup
	for i, e := range ends {
		wg.Go(func() { e.postTo(ends[1-i]) })
		wg.Go(e.takeAll) // or the queue would overrun
	}
	const ways = 5
	for range 1 + r.IntN(4) {
		e, way, after := ends[r.IntN(2)], r.IntN(ways), time.Duration(r.IntN(3000))*time.Microsecond
		wg.Go(func() {
			timer := time.NewTimer(after)
			defer timer.Stop()
			<-timer.C
			switch way {
			case 0:
				e.qp.Fail()
			case 1:
				_ = e.qp.Disconnect()
			case 2:
				_ = ends[0].sink.Dereg(context.Background())
				e.qp.Fail()
			case 3:
				_ = e.qp.Disconnect()
				e.qp.Fail()
			case 4:
				_ = e.dev.Close()
			}
		})
	}
	done := make(chan struct{})
	go func() {
		wg.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(30 * time.Second):
		buf := make([]byte, 1<<20)
		t.Fatalf("not ended: %v, %v\n%s", client.qp.State(), server.qp.State(), buf[:runtime.Stack(buf, true)])
	}
	for _, e := range ends {
		e.taken += len(e.rest())
		// Closing a device takes the completions that nobody has polled away.
		if e.taken > e.posted || e.taken < e.posted && e.open() {
			t.Errorf("%d of %d requests have completed", e.taken, e.posted)
		}
		_ = e.dev.Close()
	}
}

// postTo posts requests of all kinds to the peer until the queue pair takes no more.
func (e *busyEnd) postTo(peer *busyEnd) {
	for id := range 200 {
		local, remote := e.source, peer.sink
		w := WorkRequest{ID: uint64(id), Op: []Op{OpSend, OpWrite, OpRead}[id%3], Flags: Signaled}
		if w.Op == OpRead {
			local, remote = e.sink, peer.source
		}
		w.SGE, w.RemoteKey, w.RemoteAddr = []SGE{local.SGE(0, 8+id*600)}, remote.Key(), remote.Base()
		n, err := e.qp.PostSend(w)
		k, _ := e.qp.PostReceive(ReceiveRequest{SGE: []SGE{e.sink.SGE(0, 128<<10)}})
		e.mu.Lock()
		e.posted += n + k
		e.mu.Unlock()
		if errors.Is(err, ErrState) {
			return
		}
		if err != nil {
			runtime.Gosched()
		}
	}
}

// takeAll takes completions until the queue pair ends.
func (e *busyEnd) takeAll() {
	list := make([]Completion, 64)
	for {
		n := e.cq.Poll(list)
		e.mu.Lock()
		e.taken += n
		e.mu.Unlock()
		if n > 0 {
			continue
		}
		select {
		case <-e.qp.Done():
			return
		default:
			ctx, cancel := context.WithTimeout(context.Background(), 5*time.Millisecond)
			_ = e.cq.Wait(ctx)
			cancel()
		}
	}
}

// Connect may be given up at any moment. Then the queue pair is as before and
// can be used again, or, in the last moment, in error; and nothing is left.
func TestConnectCancelledAtAnyMoment(t *testing.T) {
	bubbleOn(t, memnet.Options{Latency: 50 * time.Microsecond}, testConnectCancelledAtAnyMoment)
}

func testConnectCancelledAtAnyMoment(t *testing.T) {
	d, sd := openDevice(t, Config{EventLoops: 1}), openDevice(t, Config{EventLoops: 1})
	server := newEnd(t, sd, QPConfig{})
	ln := listen(t, sd)
	wg := serve(ln, server.pd, server.cq, func(q *QP, err error) {
		if q != nil && err != nil {
			_ = q.Close()
		}
	})
	e := newEnd(t, d, QPConfig{})
	begin := time.Now()
	if _, err := d.Connect(within(t), e.qp, ln.Addr(), ConnParams{PeerToPeer: true, Guard: time.Millisecond}); err != nil {
		t.Fatal(err)
	}
	whole := time.Since(begin) // which tells how fast the machine is
	came := map[bool]int{}
	const attempts = 300
	for i := range attempts {
		q, err := e.pd.CreateQP(QPConfig{SendCQ: e.cq, RecvCQ: e.cq})
		must(t, err)
		terms := ConnParams{PeerToPeer: i%2 == 0, Guard: time.Millisecond}
		ctx, cancel := context.WithTimeout(context.Background(), 2*whole*time.Duration(i)/attempts)
		if i == attempts-1 {
			ctx = within(t)
		}
		_, err = d.Connect(ctx, q, ln.Addr(), terms)
		cancel()
		came[err == nil]++
		switch state := q.State(); {
		case err == nil && state != StateRTS:
			t.Fatalf("connected, and in %v: %v", state, q.Err())
		case err != nil && state == StateInit:
			if i%10 == 0 {
				if _, err := d.Connect(within(t), q, ln.Addr(), terms); err != nil {
					t.Fatalf("second attempt: %v", err)
				}
			}
		case err != nil && state != StateError:
			t.Fatalf("given up (%v), and in %v", err, state)
		case err != nil && !errors.Is(err, context.DeadlineExceeded):
			t.Fatal(err)
		}
		must(t, q.Close())
	}
	if len(came) != 2 {
		t.Errorf("all the same: %v", came)
	}
	_ = ln.Close()
	_ = sd.Close()
	wg.Wait()
}

// descriptors counts those of the process.
func descriptors(t testing.TB) int {
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Skip("needs /proc/self/fd: ", err)
	}
	return len(list)
}

// Connections leave nothing behind: no goroutine, descriptor, region, reader or
// queue pair. It does not run in parallel, because it counts.
func TestConnectionsLeaveNothingBehind(t *testing.T) {
	memnet.Bubble(t, memnet.Options{}, func(t *testing.T) {
		cycles := 300
		if testing.Short() {
			cycles = 100
		}
		d, sd := openDevice(t, Config{EventLoops: 1}), openDevice(t, Config{EventLoops: 1})
		client, server := newEnd(t, d, QPConfig{}), newEnd(t, sd, QPConfig{})
		ln := listen(t, sd)
		ends := make(chan *QP, 8)
		wg := serve(ln, server.pd, server.cq, func(q *QP, err error) {
			if err != nil {
				t.Error(err)
			}
			ends <- q
		})
		var readers []weak.Pointer[mr.Reader]
		cycle := func(i int) {
			q, m := connectOnce(t, client, ln.Addr(), i%2 == 0)
			peer := <-ends
			for _, x := range []*QP{q, peer} {
				readers = append(readers, weak.Make(x.stream.rx.reader), weak.Make(x.stream.tx.reader))
			}
			switch i % 3 {
			case 0:
				_ = q.Disconnect()
				<-q.Done()
			case 1:
				peer.Fail()
			}
			must(t, errors.Join(q.Close(), peer.Close(), m.Dereg(within(t))))
		}
		settled := func() (goroutines, fds int) { return runtime.NumGoroutine(), descriptors(t) }
		for i := range 20 {
			cycle(i)
		}
		wantG, wantF := settled()
		for i := range cycles {
			cycle(i)
		}
		var goroutines, fds int
		// What ends a connection may still be on its way.
		if !holds(func() bool {
			goroutines, fds = settled()
			return goroutines <= wantG && fds <= wantF
		}) {
			t.Errorf("PROMISE: %d goroutines and %d descriptors, before %d and %d", goroutines, fds, wantG, wantF)
		}
		for _, dev := range []*Device{d, sd} {
			if s := dev.Regions().Stats(); s.Registered.Live != 0 || s.Registered.Pinned != 0 {
				t.Errorf("regions: %+v", s.Registered)
			}
		}
		d.mu.Lock()
		n := len(d.qps)
		d.mu.Unlock()
		if n != 1 {
			t.Errorf("%d queue pairs", n)
		}
		kept := 0
		if !holds(func() bool {
			runtime.GC()
			kept = 0
			for _, r := range readers {
				if r.Value() != nil {
					kept++
				}
			}
			// The runtime keeps a stopped timer, and what it refers to, until it
			// would have fired or a quarter of all timers are such.
			return kept <= len(readers)/3
		}) {
			t.Errorf("%d of %d readers are kept", kept, len(readers))
		}
		_ = ln.Close()
		wg.Wait()
	})
}

// connectOnce connects one more queue pair of client's and sends from a region that it registers.
func connectOnce(t *testing.T, client *end, to netip.AddrPort, peerToPeer bool) (*QP, *MR) {
	q, err := client.pd.CreateQP(QPConfig{SendCQ: client.cq, RecvCQ: client.cq, MaxSend: 16, MaxReceive: 16})
	must(t, err)
	m := client.reg(4096, allRights)
	if _, err := client.dev.Connect(within(t), q, to, ConnParams{Guard: -1, PeerToPeer: peerToPeer}); err != nil {
		t.Fatal(err)
	}
	if _, err := q.PostSend(WorkRequest{SGE: []SGE{m.SGE(0, 4096)}}); err != nil { // the peer has no memory for it
		t.Fatal(err)
	}
	return q, m
}

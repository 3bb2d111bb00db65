package iwarp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/rds-go/rds/internal/memnet"
	"github.com/rds-go/rds/mr"
	"github.com/rds-go/rds/transport/iwarp/xctl"
)

// end is one side of a connection under test.
type end struct {
	t   testing.TB
	dev *Device
	pd  *PD
	cq  *CQ // completion queue of both queues of qp
	qp  *QP
	est *Established
}

var loopback = netip.MustParseAddr("127.0.0.1")

// within bounds a whole test.
func within(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// bubble runs a test, beside other tests, in a bubble of testing/synctest: time is virtual, and the
// devices of the test are on a network in memory. What has to run alone calls memnet.Bubble.
//
// Whatever does not wait for a timer takes no time there. So a test that interrupts something at
// a random time has a network with a latency (bubbleOn).
func bubble(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	bubbleOn(t, memnet.Options{}, f)
}

// bubbleOn is bubble with a network that is set up by o.
func bubbleOn(t *testing.T, o memnet.Options, f func(t *testing.T)) {
	t.Helper()
	t.Parallel()
	memnet.Bubble(t, o, f)
}

// inBubble runs a subtest in a bubble.
func inBubble(t *testing.T, name string, f func(t *testing.T)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { bubble(t, f) })
}

func openDevice(t testing.TB, cfg Config) *Device {
	t.Helper()
	if n := memnet.Of(t); n != nil {
		cfg.Network = n
	}
	d, err := Open(cfg)
	must(t, err)
	t.Cleanup(func() {
		if err := d.Close(); err != nil && err != ErrClosed {
			t.Error(err)
		}
	})
	return d
}

func newEnd(t testing.TB, d *Device, cfg QPConfig) *end {
	t.Helper()
	pd, err := d.AllocPD()
	must(t, err)
	return (&end{t: t, dev: d, pd: pd}).with(cfg)
}

// listen has a device listen on a free port.
func listen(t testing.TB, d *Device) *Listener {
	t.Helper()
	ln, err := d.Listen(netip.AddrPortFrom(loopback, 0))
	must(t, err)
	return ln
}

// connectEnds makes a connection of two queue pairs in StateInit.
func connectEnds(t testing.TB, client, server *end, cp, sp ConnParams) {
	t.Helper()
	ln := listen(t, server.dev)
	defer ln.Close()
	accepted := accept(t, ln, server, sp)
	var err error
	client.est, err = client.dev.Connect(within(t), client.qp, ln.Addr(), cp)
	must(t, err)
	must(t, <-accepted)
}

// pair makes two devices and a connection between them.
func pair(t testing.TB, cfg Config, cp, sp ConnParams) (client, server *end) {
	t.Helper()
	client = newEnd(t, openDevice(t, cfg), QPConfig{})
	server = newEnd(t, openDevice(t, cfg), QPConfig{})
	connectEnds(t, client, server, cp, sp)
	return client, server
}

const allRights = mr.LocalWrite | mr.RemoteWrite | mr.RemoteRead | mr.RemoteAtomic

func (e *end) reg(n int, rights mr.Rights) *MR {
	e.t.Helper()
	m, err := e.pd.RegMR(make([]byte, n), rights, 0x10000)
	must(e.t, err)
	return m
}

func (e *end) send(reqs ...WorkRequest) {
	e.t.Helper()
	if _, err := e.qp.PostSend(reqs...); err != nil {
		e.t.Fatal(err)
	}
}

func (e *end) post(id uint64, sge ...SGE) {
	e.t.Helper()
	if _, err := e.qp.PostReceive(ReceiveRequest{ID: id, SGE: sge}); err != nil {
		e.t.Fatal(err)
	}
}

// next waits for one completion.
func (e *end) next() Completion {
	e.t.Helper()
	ctx := within(e.t)
	var c [1]Completion
	for {
		if e.cq.Poll(c[:]) == 1 {
			return c[0]
		}
		if err := e.cq.Wait(ctx); err != nil {
			e.t.Fatalf("no completion: %v (queue pair: %v, %v)", err, e.qp.State(), e.qp.Err())
		}
	}
}

// want waits for a completion with this ID, status and operation.
func (e *end) want(id uint64, status Status, op Op) Completion {
	e.t.Helper()
	c := e.next()
	if c.ID != id || c.Status != status || status == Success && c.Op != op {
		e.t.Fatalf("completion of %d: %v, %v; want that of %d: %v, %v (queue pair: %v)", c.ID, c.Op, c.Status, id, op, status, e.qp.Err())
	}
	return c
}

// drain waits for n completions, all good.
func (e *end) drain(ctx context.Context, comps []Completion, n int) int {
	for got := 0; ; {
		k := e.cq.Poll(comps)
		for i := range comps[:k] {
			if c := &comps[i]; c.Status != Success {
				e.t.Fatalf("%v: %v (queue pair: %v)", c.Op, c.Status, e.qp.Err())
			}
		}
		if got += k; got >= n {
			return got
		}
		must(e.t, e.cq.Wait(ctx))
	}
}

// flood posts n sends of the whole region.
func (e *end) flood(m *MR, n int) {
	e.t.Helper()
	for i := range n {
		e.send(WorkRequest{ID: uint64(i), Flags: Signaled, SGE: []SGE{m.SGE(0, len(m.Bytes()))}})
	}
}

// open tells whether the device is.
func (e *end) open() bool {
	_, err := e.dev.AllocPD()
	return err == nil
}

// eventually waits until f holds.
func eventually(t testing.TB, what string, f func() bool) {
	t.Helper()
	if !holds(f) {
		t.Fatalf("not in time: %s", what)
	}
}

// holds looks again until f does, for at most 10 s: less than the time-outs of connections that
// are set up (mpa.DecideTimeout), so that none of them hides that something lasts.
func holds(f func() bool) bool {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(10 * time.Second); !f(); <-tick.C {
		if time.Now().After(end) {
			return false
		}
	}
	return true
}

// silent expects that nothing comes for a while.
func (p *raw) silent(d time.Duration) {
	p.t.Helper()
	_ = p.conn.SetReadDeadline(time.Now().Add(d))
	if u, err := p.next(); !errors.Is(err, os.ErrDeadlineExceeded) {
		p.t.Fatalf("% x came (%v)", u, err)
	}
	_ = p.conn.SetReadDeadline(time.Now().Add(30 * time.Second))
}

// victim is what the bad segments of a test are sent to: memory with all sorts
// of rights, receive requests, and reads under way.
type victim struct {
	*end
	open, readOnly, writeOnly, foreign *MR
	sink                               *MR // memory that reads go to
	recv                               *MR // memory of receive requests
	watched                            []*MR
}

// Bytes that must stay as they are have this value.
const untouched = 0xa5

// pristine is a region of them. It is only read.
var pristine = bytes.Repeat([]byte{untouched}, 1<<20)

func newVictim(t testing.TB, cfg Config) *victim {
	v := &victim{end: newEnd(t, openDevice(t, cfg), QPConfig{})}
	other, err := v.dev.AllocPD()
	must(t, err)
	region := func(pd *PD, n int, rights mr.Rights) *MR {
		m, err := pd.RegMR(bytes.Clone(pristine[:n]), rights, 0x10000)
		must(t, err)
		v.watched = append(v.watched, m)
		return m
	}
	v.open = region(v.pd, 1<<20, allRights)
	v.readOnly = region(v.pd, 8192, mr.RemoteRead)
	v.writeOnly = region(v.pd, 8192, mr.LocalWrite|mr.RemoteWrite)
	v.foreign = region(other, 8192, allRights)
	v.sink = region(v.pd, 8192, mr.LocalWrite)
	v.recv = region(v.pd, 8192, mr.LocalWrite)
	return v
}

func (d *sinkRecorder) Refused(first uint64, count uint32, why Refusal) {
	d.enter("Refused")
	d.news = append(d.news, fmt.Sprintf("%d from %d refused: %d", count, first, why))
	d.mu.Unlock()
}

func (d *sinkRecorder) Heard(n uint64) {
	d.enter("Heard")
	d.news = append(d.news, fmt.Sprintf("%d refusals heard", n))
	d.mu.Unlock()
}

// refusing has the sink refuse what it is given: each octet is the number of a message.
func (e *end) refusing(d *sinkRecorder) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.fed = func(b []byte) {
		for _, n := range b {
			if ok, err := e.qp.Refuse(uint64(n), RefusedPort); !ok || err != nil {
				d.t.Errorf("message %d cannot be refused: %v", n, err)
			}
		}
	}
}

// of is the same end for another test.
func (e *end) of(t testing.TB) *end {
	h := *e
	h.t = t
	return &h
}

// with makes one more queue pair in the domain of e.
func (e *end) with(cfg QPConfig) *end {
	e.t.Helper()
	cq, err := e.dev.CreateCQ(4096)
	must(e.t, err)
	cfg.SendCQ, cfg.RecvCQ = cq, cq
	q, err := e.pd.CreateQP(cfg)
	must(e.t, err)
	return &end{t: e.t, dev: e.dev, pd: e.pd, cq: cq, qp: q}
}

// reads gives what a peer finds by a key.
func (e *end) reads(sink *MR, key mr.Key, addr uint64, n int) ([]byte, Status) {
	e.t.Helper()
	e.send(WorkRequest{ID: 77, Op: OpRead, Flags: Signaled, SGE: []SGE{sink.SGE(0, n)}, RemoteKey: key, RemoteAddr: addr})
	c := e.next()
	return sink.Bytes()[:n], c.Status
}

// accepting has e accept the first connection to an address of its own.
func accepting(t testing.TB, e *end, sp ConnParams) (netip.AddrPort, <-chan error) {
	t.Helper()
	ln := listen(t, e.dev)
	t.Cleanup(func() { _ = ln.Close() })
	return ln.Addr(), accept(t, ln, e, sp)
}

// accept has e accept the first connection to a listener.
func accept(t testing.TB, ln *Listener, e *end, sp ConnParams) <-chan error {
	t.Helper()
	ctx := within(t)
	done := make(chan error, 1)
	go func() {
		in, err := ln.Accept(ctx)
		if err == nil {
			e.est, err = in.Accept(ctx, e.qp, sp)
		}
		done <- err
	}()
	return done
}

// queueMap is the Queues of a test.
type queueMap struct {
	mu sync.Mutex
	m  map[uint32]*SRQ // guarded by mu
}

func (q *queueMap) Find(n uint32) *SRQ {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.m[n]
}

func (q *queueMap) remove(n uint32) {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.m, n)
}

// end removes a queue and closes it.
func (q *queueMap) end(t testing.TB, s *SRQ) {
	t.Helper()
	q.remove(s.Num())
	must(t, s.Close())
}

// srq makes a shared receive queue with a completion queue of its own.
func (q *queueMap) srq(e *end, n uint32, cfg SRQConfig) *SRQ {
	e.t.Helper()
	if cfg.CQ == nil && !cfg.Sink {
		cfg.CQ = e.cq
	}
	cfg.Number = n
	s, err := e.pd.CreateSRQ(cfg)
	must(e.t, err)
	q.mu.Lock()
	if q.m == nil {
		q.m = make(map[uint32]*SRQ)
	}
	q.m[n] = s
	q.mu.Unlock()
	return s
}

func (e *end) give(s *SRQ, id uint64, sge ...SGE) {
	e.t.Helper()
	if _, err := s.PostReceive(ReceiveRequest{ID: id, SGE: sge}); err != nil {
		e.t.Fatal(err)
	}
}

// sharedPair connects a client to a server whose shared queues it may name.
func sharedPair(t testing.TB, cfg Config, cp, sp ConnParams) (client, server *end, queues *queueMap) {
	t.Helper()
	queues = &queueMap{}
	if cp.Shared == nil {
		cp.Shared = &SharedParams{Send: true}
	}
	cp.Shared.Require = true
	sp.Shared = &SharedParams{Queues: queues}
	client, server = pair(t, cfg, cp, sp)
	if !client.est.Shared || !server.est.Shared {
		t.Fatal("the two sides did not agree")
	}
	return client, server, queues
}

// inUse is how much memory is in use.
func inUse() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// flood sends until the connection ends, and tells how much memory that took.
func (x *extended) flood(ulpdus func(i int) []byte) {
	x.t.Helper()
	before := inUse()
	for i := 0; ; i++ {
		select {
		case <-x.e.qp.Done():
			if after := inUse(); after > before+64<<20 {
				x.t.Errorf("%d MiB more", (after-before)>>20)
			}
			return
		default:
		}
		if i > 1_000_000 {
			x.t.Fatal("no end")
		}
		x.write(ulpdus(i))
	}
}

func records(list ...xctl.Record) func(*extended) [][]byte {
	return func(x *extended) [][]byte { return [][]byte{x.tell(list...)} }
}

// must fails the test on an error.
func must(t testing.TB, err error) {
	if err != nil {
		t.Helper()
		t.Fatal(err)
	}
}

// same fails the test if what it got is not what it wants.
func same[V comparable](t testing.TB, what string, got, want V) {
	if got != want {
		t.Helper()
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

// wantErr fails the test if an error is not the one that it wants.
func wantErr(t testing.TB, what string, err, want error) {
	if !errors.Is(err, want) {
		t.Helper()
		t.Errorf("%s: %v, want %v", what, err, want)
	}
}

package driver

import (
	"context"
	"math/rand/v2"
	"net/netip"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rds-go/rds/conn"
	"github.com/rds-go/rds/internal/buf"
	"github.com/rds-go/rds/internal/wire"
	"github.com/rds-go/rds/transport"
	"github.com/rds-go/rds/transport/loop"
)

// patience is how long tests wait for something that must happen.
const patience = 10 * time.Second

// nobody is an owner without sockets.
type nobody struct {
	d     *Driver
	fates chan conn.Fate
	down  func() // what Serve does once, when a link has ended
	lost  bool
}

func (*nobody) Needed() bool                      { return true }
func (*nobody) Deadline() (t time.Time)           { return t }
func (*nobody) Tick(time.Time)                    {}
func (*nobody) LinkUp(int, transport.Link)        {}
func (o *nobody) LinkDown(int)                    { o.lost = true }
func (*nobody) Begins(int, *conn.Operation) bool  { return true }
func (*nobody) Takes(transport.Link) error        { return nil }
func (*nobody) Committing() bool                  { return false }
func (*nobody) Dial(context.Context, int)         {}
func (*nobody) Started(int, transport.Link, bool) {}
func (*nobody) Ended(int, error)                  {}
func (*nobody) Idle()                             {}
func (*nobody) NotBegun(*conn.Operation)          {}
func (*nobody) Begun(*conn.Operation)             {}
func (*nobody) Freed(*conn.Account)               {}
func (o *nobody) Fate(f conn.Fate, _ bool)        { o.fates <- f }
func (*nobody) WakeAll()                          {}
func (*nobody) PortsChanged()                     {}
func (*nobody) Met(_, _ State)                    {}
func (*nobody) Committed()                        {}
func (*nobody) Sink(*Receiver) Sink               { return void{} }

func (o *nobody) Serve() {
	if f := o.down; f != nil && o.lost {
		o.down = nil
		f()
	}
}

// void is a sink for ports that nobody is bound to.
type void struct{}

func (void) Begin()                                          {}
func (void) End()                                            {}
func (void) Proved()                                         {}
func (void) Stated(uint32)                                   {}
func (void) Take(*wire.Header, []byte, *buf.Buf) (v Verdict) { return NoPort }
func (void) Leave()                                          {}
func (void) Whole(*buf.Buf)                                  {}
func (void) Place(*wire.Header) *buf.Buf                     { return nil }
func (void) Acquainted() bool                                { return false }
func (void) Queue(uint32)                                    {}
func (void) Retry()                                          {}
func (void) Reading()                                        {}
func (void) Closed()                                         {}

var near, far = netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2")

// newDriver makes the driver of the side that takes links.
func newDriver(t *testing.T, paths int) (*Driver, *nobody, *sync.WaitGroup) {
	o, pool, work := &nobody{fates: make(chan conn.Fate, 16)}, new(buf.Pool), new(sync.WaitGroup)
	o.d = New(Config{Owner: o, Runtime: System{Work: work}, Pool: pool, Burst: 1 << 20, Core: conn.Config{
		Local: far, Remote: near, Paths: paths, Generation: 1, FirstSequence: 1, Pool: pool, Rand: rand.New(rand.NewPCG(1, 1)),
	}})
	t.Cleanup(func() {
		o.d.Close()
		work.Wait() // whatever has happened, no goroutine of the driver is left
	})
	return o.d, o, work
}

// links are two ends of connections to far, whose other ends nobody reads.
func links(t *testing.T, n int) (out []transport.Link) {
	t.Helper()
	net := loop.NewNetwork()
	a, b := net.Transport(), net.Transport()
	t.Cleanup(func() { _ = a.Close(); _ = b.Close() })
	accepted := make(chan transport.Link, n)
	if err := b.Listen(far, func(l transport.Link) { accepted <- l }); err != nil {
		t.Fatal(err)
	}
	for range n {
		if _, err := a.Dial(t.Context(), near, far, 0); err != nil {
			t.Fatal(err)
		}
		out = append(out, <-accepted)
	}
	return out
}

// A peer that lost its connection right after the set-up, and was back before the
// accepting goroutine had come to start the first link, once found a path that waited for
// the end of that link for ever: nobody had a handler to hear it.
func TestALinkIsReplacedBeforeItHasStarted(t *testing.T) {
	t.Parallel()
	d, _, _ := newDriver(t, 1)
	two := links(t, 2)
	d.Lock()
	now := d.rt.Now()
	d.Core.HandleControl(now, 0, &wire.Header{Dport: wire.PortProbe}, nil) // of a link before: there is one path
	d.Core.Accepted(now, d.registerLocked(two[0]), 1)
	late := d.Core.TakeActions(nil)
	d.Core.Accepted(now, d.registerLocked(two[1]), 1)
	d.Core.Tick(now.Add(2 * time.Second)) // the first link does not answer
	d.Commit()
	for _, a := range late {
		d.perform(a)
	}
	d.Lock()
	defer d.Unlock()
	if state := d.Core.State(0); state != conn.Up || d.Link(0) != two[1] {
		t.Errorf("the path is %v, with the second link %t", state, d.Link(0) == two[1])
	}
	if d.Linked() != 1 {
		t.Errorf("%d links are known", d.Linked())
	}
}

// What a stream has left to the flusher is the flusher's to write; a link that is lost
// meanwhile leaves it nothing to do, and Close ends it (see newDriver).
func TestFlusherOutlivesItsLink(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d, o, _ := newDriver(t, 1)
		l := links(t, 1)[0]
		d.Accepted(l, 1)
		a := new(conn.Account)
		a.SetLimit(1 << 20)
		for token := range uint64(3) { // close enough to be a stream
			a.Charge(1)
			d.Lock()
			err := d.Enqueue(&conn.Message{Sport: 1, Dport: 2, Payload: []byte{1}, Account: a, Token: token, Notify: true})
			d.Commit()
			if err != nil {
				t.Fatal(err)
			}
		}
		l.Close(transport.Abort)
		late := make(chan struct{})
		defer time.AfterFunc(patience, func() { close(late) }).Stop()
		if !d.Await(late, nil, func() bool { return d.Linked() == 0 }) {
			t.Fatal("the link does not end")
		}
		d.Lock()
		d.Core.Cancel(a, 0, true)
		d.Commit()
		for range 3 {
			if f := <-o.fates; f.Status != conn.Canceled {
				t.Errorf("told %v", f.Status)
			}
		}
	})
}

// keeping is a sink that keeps the lock of a socket until it is told to leave.
type keeping struct {
	void
	locked bool
}

func (k *keeping) Leave() { k.locked = false }

// What the peer has not delivered may come in the middle of a burst, behind messages to a
// socket. Two goroutines once could wait for each other for ever: the event loop with the lock
// of the socket's queue for that of the driver, and who completed a message of the same
// application the other way round.
func TestTheSinkLeavesBeforeARefusalIsFollowed(t *testing.T) {
	t.Parallel()
	d, _, _ := newDriver(t, 1)
	k := &keeping{locked: true}
	h := &handler{newReceiver(d, 0, 0, links(t, 1)[0])}
	h.sink, h.caps.Queues = k, true
	h.Refused(1, 1, transport.RefusedPort)
	if k.locked {
		t.Error("the sink still has the socket's lock")
	}
}

// A burst that an error has cut short leaves its socket when the link ends.
func TestTheSinkLeavesWithItsLink(t *testing.T) {
	t.Parallel()
	d, _, _ := newDriver(t, 1)
	k := &keeping{locked: true}
	h := &handler{newReceiver(d, 0, 9, links(t, 1)[0])}
	h.sink = k
	h.Closed(nil, 0)
	if k.locked {
		t.Error("the sink still has the socket's lock")
	}
}

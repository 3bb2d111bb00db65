package daemon

import (
	"context"
	"net"
	"os"
	"sync"
	"sync/atomic"

	"github.com/rds-go/rds/internal/ipc"
	"github.com/rds-go/rds/internal/lockorder"
	"github.com/rds-go/rds/internal/node"
	"github.com/rds-go/rds/internal/socket"
	"github.com/rds-go/rds/rds/config"
	"github.com/rds-go/rds/rds/datagram"
	"github.com/rds-go/rds/xrc/objects"
)

// OwnObjects is what package xrc needs for objects of the node's own process: xrc.Host without a
// socket and without shared memory. Calls and queues are those of an attached application; a
// goroutine takes from the queues, where an application has an event loop.
type OwnObjects struct {
	node *node.Node
	xrc  atomic.Pointer[xrcSession] // nil before the first call
	work chan struct{}              // cap 1: something was posted, or the owner is to be told something
	cqs  sync.Map                   // WaitQueues of completion queues, by number of the object

	ending  atomic.Bool // calls that fail do so because the session ends
	endOnce sync.Once
	gone    chan struct{} // closed when there are no objects any more
	cause   error         // set before gone is closed

	mu     lockorder.Mutex[OwnObjects] // guards the fields below; a leaf
	arena  *ipc.Arena                  // gives out addresses
	pieces map[uint32][]byte           // memory by its address
}

// ownArena is how much memory a session can have. It takes memory when it has it.
const ownArena = 1 << 30

// NewOwnObjects begins objects of XRC of the node's own process. They end with the node.
func NewOwnObjects(n *node.Node) (*OwnObjects, error) {
	if n.Xrc == nil {
		return nil, datagram.ErrNotSupported
	}
	o := &OwnObjects{node: n, work: make(chan struct{}, 1), gone: make(chan struct{}), arena: ipc.NewArena(ownArena), pieces: make(map[uint32][]byte)}
	if err := n.AddSession(o); err != nil {
		return nil, err
	}
	return o, nil
}

// objectUser is for xrcOwner: the user of this process, which has no share of itself.
func (o *OwnObjects) objectUser() (u objects.User, bound bool) {
	return objects.User{UID: uint32(os.Geteuid())}, false
}

// mayAdvertise is for xrcOwner.
func (o *OwnObjects) mayAdvertise(service uint64) error { return o.node.MayAdvertise(service, nil) }

// advertised is for xrcOwner.
func (o *OwnObjects) advertised(service uint64) (withdrawn func()) {
	return o.node.Advertised(service, nil)
}

// Close ends the objects.
func (o *OwnObjects) Close() { o.end(net.ErrClosed) }

func (o *OwnObjects) end(cause error) {
	o.endOnce.Do(func() {
		o.ending.Store(true)
		o.node.DropSession(o)
		if xs := o.xrc.Swap(ownEnded); xs != nil {
			xs.end()
		}
		o.cause = cause
		close(o.gone)
		o.cqs.Range(func(_, q any) bool {
			q.(*socket.WaitQueue).Wake(-1)
			return true
		})
	})
}

// ownEnded is in OwnObjects.xrc when nothing can be begun there any more.
var ownEnded = new(xrcSession)

// serve takes what is posted, until the objects end.
func (o *OwnObjects) serve(xs *xrcSession) {
	for more := false; ; {
		if !more {
			select {
			case <-o.work:
			case <-o.gone:
				return
			}
		}
		var err error
		if _, more, err = xs.turn(pumpEntries); err != nil { // the process has written to a queue itself
			o.end(err)
			return
		}
		xs.tell()
	}
}

// Call does what a call asks for. If ctx ends first the call goes on.
func (o *OwnObjects) Call(ctx context.Context, c *ipc.XRCCall, files ...*os.File) (*ipc.XRCReply, error) {
	var file *os.File
	if len(files) > 0 {
		file = files[0]
	}
	if ctx.Done() == nil {
		return o.call(c, file)
	}
	type answer struct {
		r   *ipc.XRCReply
		err error
	}
	answers := make(chan answer, 1)
	go func() {
		r, err := o.call(c, file)
		answers <- answer{r, err}
	}()
	select {
	case a := <-answers:
		return a.r, a.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (o *OwnObjects) call(c *ipc.XRCCall, file *os.File) (*ipc.XRCReply, error) {
	r, err := new(ipc.XRCReply), errNoObject
	switch xs := o.xrc.Load(); {
	case c.Op == ipc.XRCPosts:
		err = o.open(c)
	case c.Op == ipc.XRCClose:
		o.Close()
		err = nil
	case xs != nil && xs != ownEnded:
		err = xs.call(c, file, r)
	}
	if err != nil && o.ending.Load() {
		<-o.gone
		err = o.cause
	}
	return r, err
}

// open is the first call.
func (o *OwnObjects) open(c *ipc.XRCCall) error {
	xs, err := newXRCSession(o, o.node.Xrc, "own", c)
	if err != nil {
		return err
	}
	if !o.xrc.CompareAndSwap(nil, xs) { // the node has ended
		xs.end()
		return net.ErrClosed
	}
	go o.serve(xs)
	return nil
}

// Alloc returns n bytes, and their address.
func (o *OwnObjects) Alloc(n int) (*datagram.Memory, uint32, error) {
	switch {
	case n <= 0:
		return nil, 0, datagram.ErrInvalid
	case n > config.MaxMessage:
		return nil, 0, datagram.ErrMessageTooLong
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	off, size, ok := o.arena.Alloc(n)
	if !ok {
		return nil, 0, datagram.ErrWouldBlock
	}
	at := uint32(off)
	b := make([]byte, size)[:n:n]
	o.pieces[at] = b
	return datagram.NewMemory(b, func() {
		o.mu.Lock()
		delete(o.pieces, at)
		o.arena.Release(off)
		o.mu.Unlock()
	}), at, nil
}

// piece is for xrcOwner: the first n bytes of what begins at off.
func (o *OwnObjects) piece(off, n uint32) []byte {
	o.mu.Lock()
	defer o.mu.Unlock()
	b := o.pieces[off]
	if uint64(n) > uint64(len(b)) {
		return nil
	}
	return b[:n:n]
}

// poke is for xrcOwner.
func (o *OwnObjects) poke() {
	select {
	case o.work <- struct{}{}:
	default:
	}
}

// Wake has what was posted looked at.
func (o *OwnObjects) Wake() { o.poke() }

// drop is for xrcOwner: the garbage collector has the memory.
func (o *OwnObjects) drop() {}

// Watch has q woken when the completion queue that is an object has completions; nil: no more.
func (o *OwnObjects) Watch(object uint32, q *socket.WaitQueue) {
	if q == nil {
		o.cqs.Delete(object)
		return
	}
	o.cqs.Store(object, q)
}

// tellWork is for xrcOwner.
func (o *OwnObjects) tellWork(cq uint32) {
	if q, ok := o.cqs.Load(cq); ok {
		q.(*socket.WaitQueue).Wake(-1)
	}
}

// Wait waits for such a wake-up.
func (o *OwnObjects) Wait(ctx context.Context, w *socket.Waiter) error { return w.Wait(ctx) }

// Gone is closed when there are no objects any more.
func (o *OwnObjects) Gone() <-chan struct{} { return o.gone }

// Err is why there are none.
func (o *OwnObjects) Err() error {
	select {
	case <-o.gone:
		return o.cause
	default:
		return net.ErrClosed
	}
}

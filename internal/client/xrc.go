package client

import (
	"context"
	"net"
	"os"
	"slices"
	"sync"

	"github.com/rds-go/rds/internal/ipc"
	"github.com/rds-go/rds/internal/lockorder"
	"github.com/rds-go/rds/internal/socket"
	"github.com/rds-go/rds/rds/datagram"
)

// Objects is what an application's objects of XRC need of its attachment.
type Objects struct {
	t    *attachment
	gone chan struct{}
}

// objectsOf are the Objects of an attachment that are in use.
type objectsOf struct {
	mu    lockorder.Mutex[objectsOf] // a leaf
	now   *Objects                   // guarded by mu; nil: there are none
	queue sync.Map                   // WaitQueues of completion queues, by number of the object
}

// Objects begins objects of XRC: one at a time for a Client. They end with the attachment, and
// when another process takes the daemon's place.
func (c *Client) Objects() (*Objects, error) {
	t, err := c.current()
	switch {
	case err != nil:
		return nil, err
	case !slices.Contains(t.welcome.Features, ipc.FeatureObjects):
		return nil, datagram.ErrNotSupported
	}
	t.objects.mu.Lock()
	defer t.objects.mu.Unlock()
	select {
	case <-t.gone:
		return nil, t.lossError()
	default:
	}
	if t.objects.now != nil {
		return nil, datagram.ErrBusy
	}
	t.objects.now = &Objects{t, make(chan struct{})}
	return t.objects.now, nil
}

// end tells those who have objects that they have ended.
func (q *objectsOf) end() {
	q.mu.Lock()
	if q.now != nil {
		close(q.now.gone)
		q.now = nil
	}
	q.mu.Unlock()
	q.queue.Range(func(_, w any) bool {
		w.(*socket.WaitQueue).Wake(-1)
		return true
	})
}

// Close ends their use: Objects can be begun again.
func (o *Objects) Close() {
	q := &o.t.objects
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.now == o {
		close(o.gone)
		q.now = nil
	}
}

// Gone is closed when the daemon has none of the objects any more.
func (o *Objects) Gone() <-chan struct{} { return o.gone }

// Call makes a call, with a file if one is given.
func (o *Objects) Call(ctx context.Context, c *ipc.XRCCall, files ...*os.File) (*ipc.XRCReply, error) {
	select {
	case <-o.gone:
		return nil, datagram.ErrDaemonLost
	default:
	}
	answers, id, err := o.t.ask(&ipc.Request{Op: ipc.CallXRC, XRC: c}, files...)
	if err != nil {
		return nil, err
	}
	defer o.t.forgetCall(id)
	var r *ipc.Reply
	select {
	case r = <-answers:
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-o.gone:
		return nil, datagram.ErrDaemonLost
	}
	switch {
	case r.Error != "":
		return nil, socket.RemoteError(r.Errno, r.Error)
	case r.XRC == nil:
		return new(ipc.XRCReply), nil
	}
	return r.XRC, nil
}

// Alloc returns n bytes of the memory area, and where they are.
func (o *Objects) Alloc(n int) (*datagram.Memory, uint32, error) {
	m, err := o.t.exposable.alloc(n)
	if err != nil {
		return nil, 0, err
	}
	at, err := o.t.exposable.locate(m.B)
	return m, at.Offset, err
}

// Wake has the daemon look for what was posted.
func (o *Objects) Wake() { o.t.submission.wake() }

// Watch has q woken when the completion queue that is an object has completions; nil: no more.
func (o *Objects) Watch(object uint32, q *socket.WaitQueue) {
	if q == nil {
		o.t.objects.queue.Delete(object)
		return
	}
	o.t.objects.queue.Store(object, q)
}

// Wait waits for such a wake-up.
func (o *Objects) Wait(ctx context.Context, w *socket.Waiter) error { return o.t.wait(ctx, w, true) }

// worked is for OpWork.
func (q *objectsOf) worked(object uint32) {
	if w, ok := q.queue.Load(object); ok {
		w.(*socket.WaitQueue).Wake(-1)
	}
}

// Err is why nothing is done any more.
func (o *Objects) Err() error {
	select {
	case <-o.t.gone:
		return o.t.lossError()
	case <-o.gone:
		return datagram.ErrDaemonLost
	default:
		return net.ErrClosed
	}
}

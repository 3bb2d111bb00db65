package daemon

import (
	"context"
	"errors"
	"net"

	"go.uber.org/zap"

	"github.com/rds-go/rds/internal/ipc"
	"github.com/rds-go/rds/internal/node"
)

// end ends the session, whoever's idea it is: what was submitted is taken, the
// sockets are unbound at once and linger for what they have sent.
//
// The end of the connection tells the application that its operations were lost, and
// so that their memory is its own again. If it goes on, because only the service ends,
// it hears that no sooner than it is true.
func (x *session) end(cause error) {
	x.endOnce.Do(func() {
		goesOn := errors.Is(cause, net.ErrClosed)
		x.ending.Store(true)
		x.leaving.Store(goesOn)
		x.mu.Lock()
		x.last = true
		x.overBudget.Store(false)
		if !errors.Is(cause, errViolation) && !errors.Is(cause, ipc.ErrCorrupt) && !x.left {
			_ = x.takeAll()
		}
		if goesOn && x.again && x.bad == nil {
			x.seg.Left().Set()
		}
		x.ended = true
		socks := x.sockets
		x.sockets = nil
		for _, a := range socks {
			if a != nil {
				x.svc.linger(a)
			}
		}
		x.mu.Unlock()
		x.out.end()
		if !goesOn { // only now: what is on the ring from now on is the application's
			x.hangUp()
		}
		x.svc.work.Go(func() {
			if xs := x.xrc.Load(); xs != nil {
				xs.end()
			}
			x.regions.end(x.log)
			if goesOn {
				x.awaitOperations()
				x.hangUp()
			}
		})
		for _, a := range socks {
			if a != nil {
				a.leave()
				x.beginWork(func() { _, _ = a.finish() })
			}
		}
		x.seg.spare.Store(goesOn)
		x.mem.end()
		x.svc.release(x)
		x.seg.drop()
		x.logEnd(cause)
		close(x.done)
	})
}

// hangUp has the application hear of the session's end.
func (x *session) hangUp() {
	_ = x.conn.Close()
	x.deafen(true)
	_ = x.ear.Close() // only now: another descriptor may have the ear's number from here on
	_ = x.self.Close()
	_ = x.out.bell.Close()
	_ = x.segFile.Close()
}

// awaitOperations returns when all operations of the session, whose sockets are being
// finished, have ended. Nothing touches their memory any more then.
func (x *session) awaitOperations() {
	ctx, cancel := context.WithTimeout(context.Background(), max(0, x.node.Config.Linger)+3*node.MemoryWait)
	defer cancel()
	for x.operations.Load() > 0 {
		w := x.quiet.Add()
		var err error
		if x.operations.Load() > 0 {
			err = w.Wait(ctx)
		}
		x.quiet.Done(w)
		if err != nil {
			x.log.Warn("memory of an application may be in use", zap.Int64("operations", x.operations.Load()), zap.Error(err))
			return
		}
	}
}

// endOperation follows the end of an operation, whose memory nothing has any more.
func (x *session) endOperation(l *lentOperation) {
	x.credit(l.cost)
	x.seg.drop()
	if x.operations.Add(-1) == 0 {
		x.quiet.Wake(-1)
	}
}

package daemon

import (
	"time"

	"github.com/rds-go/rds/internal/ipc"
	"github.com/rds-go/rds/internal/lockorder"
)

// answers are what the application is told of its calls.
type answers struct {
	mu     lockorder.Mutex[answers] // one answer at a time; a leaf
	broken error                    // guarded by mu: error of the first answer that failed
}

// answer answers a call.
func (x *session) answer(r *ipc.Reply) {
	if x.leaving.Load() || x.conn == nil { // the end of the connection is the answer
		return
	}
	x.answers.mu.Lock()
	defer x.answers.mu.Unlock()
	_ = x.conn.SetWriteDeadline(time.Now().Add(callTimeout))
	if err := x.conn.Send(r); err != nil && x.answers.broken == nil {
		x.answers.broken = err
		x.beginWork(func() { x.end(err) }) // which closes the connection when it takes nothing more
	}
}

// reply answers a call that a report shows.
func (x *session) reply(r *ipc.Reply) {
	x.changed.Store(time.Now().UnixNano())
	x.answer(r)
}

// broken is the error of the first answer that failed.
func (x *session) broken() error {
	x.answers.mu.Lock()
	defer x.answers.mu.Unlock()
	return x.answers.broken
}

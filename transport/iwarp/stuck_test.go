//go:build !live

package iwarp

import (
	"syscall"
	"testing"
	"time"

	"github.com/rds-go/rds/mr"
)

// A half of a connection that hangs in a section costs its connection, of which the peer hears, and no other one. The
// region that an invalidation cannot end is never reported as gone.
func TestMRREQ22StuckSectionEndsItsConnection(t *testing.T) {
	bubble(t, func(t *testing.T) {
		a, b := pair(t, Config{Memory: mr.Config{Stuck: 50 * time.Millisecond}}, ConnParams{}, ConnParams{})
		other, far := newEnd(t, a.dev, QPConfig{}), newEnd(t, b.dev, QPConfig{})
		connectEnds(t, other, far, ConnParams{}, ConnParams{})
		m := a.reg(64, mr.LocalWrite|mr.RemoteWrite)
		s := a.qp.stream
		for begun := false; !begun; { // this goroutine is the transmitter then
			a.qp.mu.Lock()
			begun = s.kickLocked()
			a.qp.mu.Unlock()
		}
		s.tx.enter()
		wantErr(t, "Dereg in a section", m.Dereg(within(t)), syscall.EBUSY)
		<-b.qp.Done()
		wantErr(t, "the connection ended with", a.qp.Err(), errStuck)
		s.tx.leave()
		s.transmit() // the transmitter's part of the end
		<-a.qp.Done()
		same(t, "readers were stuck", a.dev.regions.Stats().StuckReaders, 1)
		far.post(7)
		other.send(WorkRequest{ID: 1, Flags: Signaled})
		other.want(1, Success, OpSend)
	})
}

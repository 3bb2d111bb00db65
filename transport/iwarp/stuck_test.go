package iwarp

import (
	"errors"
	"syscall"
	"testing"
	"time"

	"github.com/rds-go/rds/mr"
)

// A half of a connection that hangs in a section costs its connection, of which the peer hears, and no other one. The
// region that an invalidation cannot end is never reported as gone.
func TestMRREQ22StuckSectionEndsItsConnection(t *testing.T) {
	t.Parallel()
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
		if err := m.Dereg(within(t)); !errors.Is(err, syscall.EBUSY) {
			t.Errorf("Dereg in a section: %v", err)
		}
		<-b.qp.Done()
		if err := a.qp.Err(); !errors.Is(err, errStuck) {
			t.Errorf("the connection ended with %v", err)
		}
		s.tx.leave()
		s.transmit() // the transmitter's part of the end
		<-a.qp.Done()
		if n := a.dev.regions.Stats().StuckReaders; n != 1 {
			t.Errorf("%d readers were stuck", n)
		}
		far.post(7)
		other.send(WorkRequest{ID: 1, Flags: Signaled})
		other.want(1, Success, OpSend)
	})
}

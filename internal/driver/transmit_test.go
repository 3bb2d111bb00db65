package driver

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/rds-go/rds/conn"
	"github.com/rds-go/rds/internal/wire"
	"github.com/rds-go/rds/transport"
)

// spy tells of each Send of a link.
type spy struct {
	transport.Link
	sends chan int // numbers of frames
}

func (s *spy) Send(frames []transport.Frame) (transport.Taken, error) {
	s.sends <- len(frames)
	return s.Link.Send(frames)
}

// still is a Runtime whose timers do not go off.
type still struct{ Runtime }

func (s still) AfterFunc(_ time.Duration, f func()) Timer { return s.Runtime.AfterFunc(time.Hour, f) }

// A message that the owner lets in while a path's link ends may be for another path, which
// is up: that path's flusher writes it, though nobody commits anything there.
func TestWhatALinksEndLetsInIsWritten(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d, o, _ := newDriver(t, conn.MaxPaths)
		d.rt = still{d.rt}
		both := links(t, 2)
		second := &spy{Link: both[1], sends: make(chan int, 16)}
		d.Accepted(both[0], 2) // the port says which path it is
		d.Lock()
		h := wire.Header{Dport: wire.PortProbe}
		wire.Handshake{HasPaths: true, Paths: 2, Generation: 1, SourceIndex: true}.Put(&h.Extensions)
		d.Core.Proved(d.rt.Now(), 0)
		d.Core.HandleControl(d.rt.Now(), 0, &h, nil)
		d.Commit()
		d.Accepted(second, 3)
		d.Lock()
		up := d.Link(0) == both[0] && d.Link(1) == second && d.Core.State(1) == conn.Up
		a := new(conn.Account)
		a.SetLimit(1 << 20)
		sport := uint16(1)
		for sport < 64 && d.Core.PathFor(sport) != 1 {
			sport++
		}
		up = up && sport < 64
		o.down = func() {
			a.Charge(1)
			if err := d.Enqueue(&conn.Message{Sport: sport, Dport: 2, Payload: []byte{1}, Account: a}); err != nil {
				t.Error(err)
			}
		}
		d.Commit()
		if !up {
			t.Fatal("the paths are not up")
		}
		for len(second.sends) > 0 {
			<-second.sends
		}
		both[0].Close(transport.Abort)
		select {
		case <-second.sends:
		case <-time.After(patience):
			t.Error("the message is not written")
		}
	})
}

// A flusher that pauses is not woken by what is left to it meanwhile, so that a sender that
// leaves something has to go on filling whole writes by itself.
func TestAPauseOutlastsTheSendersWrite(t *testing.T) {
	t.Parallel()
	d, _, _ := newDriver(t, 1)
	p := &d.path[0]
	d.Lock()
	defer d.Unlock()
	for _, resting := range []bool{false, true} {
		p.tx.phase, p.tx.resting = writing, resting
		p.tx.to(stepDone)
		d.leaveLocked(0)
		if pauses := p.tx.phase == pausing; pauses != resting {
			t.Errorf("left to a flusher that pauses (%t): the transmitter is %v", resting, p.tx.phase)
		}
	}
	p.tx.phase = idle
}

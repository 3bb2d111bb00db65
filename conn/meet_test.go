package conn

import (
	"testing"

	"github.com/rds-go/rds/internal/wire"
)

// What an earlier generation of the peer was sent and has not acknowledged is not sent to
// the next one, though this is the first link to that: a message that both had delivered
// would reach a program that outlives the peer's node twice.
func TestMeetsNewGeneration(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		told, generation uint32
		dropped          bool
	}{{0, 1, false}, {1, 1, false}, {2, 2, true}} {
		o := newOpBench(t)
		o.theirGen = 1
		op := &Operation{}
		o.send(nil)
		o.send(nil)
		o.fill(2 * opSize)
		o.wrote(opSize + 1) // the second in part
		o.send(op)          // not begun
		epoch := o.Epoch()
		o.lose()
		o.Meets(epochTime, 0, c.told)
		o.check()
		if c.dropped {
			o.fates(Fate{Token: 1, Status: Dropped}, Fate{Token: 2, Status: Dropped})
		} else {
			o.fates()
			o.write(2)
		}
		if changed := o.Epoch() != epoch; o.PeerGeneration() != c.generation || changed != c.dropped || o.Counters().DroppedFlush > 0 != c.dropped {
			t.Errorf("told %d: generation %d, epoch %d, %d dropped", c.told, o.PeerGeneration(), o.Epoch(), o.Counters().DroppedFlush)
		}
		o.probe()
		if c.dropped { // its key was the last generation's
			next := &Operation{Epoch: o.Epoch()}
			o.paths[0].opsMost = 8
			o.send(next)
			o.send(&Operation{})
			o.begin(next)
			o.fates(Fate{Token: 3, Status: RemoteError}, Fate{Token: 5, Status: RemoteError})
			o.idle()
			o.done(next, Success)
			o.end(4)
			continue
		}
		o.begin(op)
		o.done(op, Success)
		o.end(1, 2, 3)
	}
}

// What waits for a generation goes to whichever is met, and is resent to that alone.
func TestMeetsBeforeAnythingWasSent(t *testing.T) {
	t.Parallel()
	o := newOpBench(t)
	o.theirGen = 1
	o.send(nil)
	o.lose()
	o.Meets(epochTime, 0, 2)
	o.probe()
	o.fill(opSize)
	o.wrote(1)
	o.lose()
	o.Meets(epochTime, 0, 2)
	o.write(1)
	o.probe()
	o.end(1)
}

// A link that knows whom it connects names another generation while a link of the known one
// is up. Nothing is written on it until that link has shown whether it lives.
func TestMeetsBesideAnotherGeneration(t *testing.T) {
	t.Parallel()
	for _, lives := range []bool{true, false} {
		o := &opBench{Conn: newConn(t, Config{Paths: MaxPaths, Role: Acceptor}), t: t, link: 1}
		o.acct.SetLimit(1 << 30)
		o.Accepted(epochTime, 1, 0)
		o.Meets(epochTime, 0, 7)
		o.shake(MaxPaths, 7)
		o.Accepted(epochTime, 2, 5)
		o.Meets(epochTime, 5, 7)
		o.wrotePorts(5)
		o.queue(5, Message{Dport: 5000})
		o.wrotePorts(5, 5000)
		o.LinkClosed(epochTime, 2, 0)
		epoch := o.Epoch()

		o.Accepted(epochTime, 3, 5)
		o.Meets(epochTime, 5, 8)
		if o.Fill(5, &o.b) {
			t.Error("something is written for a generation that may be an impostor's")
		}
		o.wrotePorts(0)
		o.TakeActions(nil)
		if lives {
			o.shake(MaxPaths, 7)
			o.acts(Action{Kind: CloseLink, Link: 3})
			if o.PeerGeneration() != 7 || o.Epoch() != epoch {
				t.Errorf("generation %d, epoch %d", o.PeerGeneration(), o.Epoch())
			}
			o.fates()
			o.LinkClosed(epochTime, 3, 0)
			o.Accepted(epochTime, 4, 5)
			o.Meets(epochTime, 5, 7)
			o.wrotePorts(5, 5000)
			continue
		}
		o.LinkClosed(epochTime, 1, 0)
		if o.PeerGeneration() != 8 || o.Epoch() == epoch {
			t.Errorf("generation %d, epoch %d", o.PeerGeneration(), o.Epoch())
		}
		o.fates(Fate{Token: 1, Status: Dropped}) // the last generation may have had it
		o.wrotePorts(5)
	}
}

// Two links of the peer's next process, each of which has named its generation: what one of
// them states is what the other one states.
func TestMeetsTwice(t *testing.T) {
	t.Parallel()
	o := &opBench{Conn: newConn(t, Config{Paths: MaxPaths, Role: Acceptor}), t: t}
	o.Accepted(epochTime, 1, 0)
	o.shake(MaxPaths, 7)
	for i := range 2 {
		o.Accepted(epochTime, LinkID(2+i), uint16(5+i))
		o.Meets(epochTime, 5+i, 8)
	}
	h := wire.Header{Sport: wire.PortProbe}
	wire.Handshake{HasPaths: true, Paths: MaxPaths, Generation: 8, SourceIndex: true}.Put(&h.Extensions)
	o.HandleControl(epochTime, 5, &h, nil)
	o.LinkClosed(epochTime, 1, 0)
	if o.PeerGeneration() != 8 || !o.Ready(5) {
		t.Errorf("generation %d", o.PeerGeneration())
	}
	o.HandleControl(epochTime, 6, &h, nil)
	o.TakeActions(nil)
	if !o.Ready(6) {
		t.Error("the second link waits")
	}
}

// The peer's restart becomes known while a write is under way. What was picked for that
// write and not written has been seen by no incarnation: it goes out to the new one, and
// when the new one's link is lost it is sent again like any other message. Only what was
// written before the restart was known is dropped.
func TestNewGenerationKeepsWhatWasPicked(t *testing.T) {
	t.Parallel()
	for _, first := range []int{0, 1, opSize} { // bytes of the first message that the write took
		o := newPathsBench(t)
		o.shake(1, 7)
		o.drain(0)
		o.send(nil)
		o.send(nil)
		o.fill(2 * opSize)
		o.wrote(first)
		o.fill(2*opSize - first)
		o.shake(1, 8) // the new incarnation says so on this link
		o.wrote(0)
		o.fill(2*opSize - first)
		o.wrote(2*opSize - first)
		o.lose()
		if first > 0 {
			o.fates(Fate{Token: 1, Status: Dropped})
			o.wrotePorts(0, 5000)
		} else {
			o.fates()
			o.wrotePorts(0, 5000, 5000)
		}
		o.lose() // sent to the new incarnation alone: repeated, not dropped
		o.fates()
		o.drain(0)
		o.ack()
		if first == 0 {
			o.fates(Fate{Token: 1}, Fate{Token: 2})
		} else {
			o.fates(Fate{Token: 2})
		}
		o.rest()
	}
}

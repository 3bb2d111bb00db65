package conn

import (
	"testing"

	"github.com/rds-go/rds/internal/wire"
)

// What a peer's TCP has acknowledged counts when it has acknowledged more than had been written before
// the peer's first word, or the peer has answered a probe.
func TestAcknowledgedBeforeThePeerReads(t *testing.T) {
	t.Parallel()
	begin := func(t *testing.T) *opBench {
		o := newOpBench(t)
		o.send(nil)
		o.fill(opSize)
		o.wrote(opSize)
		o.LinkClosed(epochTime, o.link, 0)
		o.link, o.invited = o.link+1, true
		o.Tick(epochTime.Add(2 * o.cfg.ReconnectMax))
		o.Dialed(epochTime, 0, o.link)
		o.ByTCP(0)
		o.fill(wire.HeaderSize + wire.CongestionMapSize)
		o.wrote(o.b.Bytes)
		o.fill(opSize)
		o.wrote(opSize)
		o.probe()
		o.ack()
		o.Proved(epochTime, 0)
		o.fates()
		return o
	}
	answer := func(o *opBench, generation uint32) {
		h := wire.Header{Sport: wire.PortHost, Dport: wire.PortProbe}
		wire.Handshake{HasPaths: true, Paths: 1, Generation: generation}.Put(&h.Extensions)
		o.HandleControl(epochTime, 0, &h, nil)
	}
	t.Run("more", func(t *testing.T) {
		t.Parallel()
		o := begin(t)
		answer(o, 0) // Linux': it may have answered a probe of the link before
		o.fates()
		o.probe()
		o.ack()
		o.fates(Fate{Token: 1})
		o.rest()
	})
	t.Run("answer", func(t *testing.T) {
		t.Parallel()
		o := begin(t)
		answer(o, 7)
		o.fates(Fate{Token: 1})
		o.rest()
	})
	t.Run("while it is being written", func(t *testing.T) {
		t.Parallel()
		o := newOpBench(t)
		o.ByTCP(0)
		o.paths[0].proved = false
		o.send(nil)
		o.fill(opSize)
		o.Proved(epochTime, 0) // what is being written may have come before
		o.wrote(opSize)
		o.ack()
		o.fates()
		o.send(nil)
		o.fill(opSize)
		o.wrote(opSize)
		o.ack()
		o.fates(Fate{Token: 1}, Fate{Token: 2})
	})
	t.Run("lost", func(t *testing.T) {
		t.Parallel()
		o := begin(t)
		o.LinkClosed(epochTime, o.link, o.paths[0].written)
		o.fates()
		if o.Queued() == 0 {
			t.Error("the message is not sent again")
		}
	})
}

// A closed node's peers count what it has acknowledged once it has answered their probes.
func TestAnswersAreAnIntroduction(t *testing.T) {
	t.Parallel()
	o := newOpBench(t)
	if !o.Introduced(0) {
		t.Error("nobody has asked")
	}
	h := wire.Header{Sport: wire.PortProbe}
	o.HandleControl(epochTime, 0, &h, nil)
	if o.Introduced(0) {
		t.Error("the probe is not answered")
	}
	o.probe() // a pong is as long
	if !o.Introduced(0) {
		t.Error("the probe is answered")
	}
}

package conn

import (
	"errors"
	"testing"
	"time"

	"github.com/rds-go/rds/internal/buf"
	"github.com/rds-go/rds/internal/wire"
)

// A peer that takes 64 KiB, and a message that is longer.
const (
	limited  = wire.Limit(16)
	tooLong  = 64<<10 + 1
	longSize = wire.HeaderSize + tooLong
)

// newLongBench is newOpBench on a link that tells by probes what the peer takes, if mute is set.
func newLongBench(t *testing.T, mute bool) *opBench {
	o := newOpBench(t)
	if mute {
		o.mute()
	}
	return o
}

// mute has the link be one by TCP, whose peer has read what had come.
func (o *opBench) mute() {
	o.ByTCP(0)
	o.paths[0].unread = false
}

// offer offers a message of n bytes, which may be admitted already.
func (o *opBench) offer(n int, admitted bool) error {
	o.t.Helper()
	o.last++
	m := Message{Sport: 4000, Dport: 5000, Account: &o.acct, Token: o.last, Notify: true, Admitted: admitted, Body: new(buf.Pool).Get(n)}
	o.acct.Charge(n)
	_, err := o.Enqueue(epochTime, 0, &m)
	if err != nil {
		o.acct.Refund(n, 1)
	}
	o.check()
	return err
}

func (o *opBench) sendLong() {
	o.t.Helper()
	if err := o.offer(tooLong, false); err != nil {
		o.t.Fatal(err)
	}
}

// told has the peer answer a probe and say what it takes.
func (o *opBench) told(l wire.Limit) {
	o.t.Helper()
	h := wire.Header{Sport: wire.PortHost, Dport: wire.PortProbe}
	wire.Handshake{HasPaths: true, Paths: 1, Generation: 7, Limit: l}.Put(&h.Extensions)
	o.HandleControl(epochTime, 0, &h, nil)
	o.check()
}

// What is longer than the peer takes is refused, or ends at once if it was admitted.
func TestLongerThanThePeerTakes(t *testing.T) {
	t.Parallel()
	o := newLongBench(t, false)
	o.Takes(0, limited)
	if err := o.offer(tooLong, false); !errors.Is(err, ErrTooLong) {
		t.Errorf("too long: %v", err)
	}
	if err := o.offer(tooLong, true); err != nil {
		t.Errorf("too long, and admitted: %v", err)
	}
	o.fates(Fate{Token: 2, Status: TooLong})
	if err := o.offer(tooLong-1, false); err != nil {
		t.Errorf("as long as may be: %v", err)
	}
	if n := o.Counters().SendTooLong; n != 1 || o.Longest() != limited {
		t.Errorf("%d are counted, the peer takes %d", n, o.Longest())
	}
	o.fill(longSize - 1)
	o.wrote(longSize - 1)
	o.end(3)
}

// What was queued when the peer says what it takes ends if it is too long, wherever it is, and the rest goes on.
func TestQueuedMessagesThatAreTooLong(t *testing.T) {
	t.Parallel()
	for _, held := range []bool{false, true} {
		o := newLongBench(t, false)
		o.send(nil)
		o.sendLong()
		o.held(held, 5000)
		o.told(limited)
		o.fates(Fate{Token: 2, Status: TooLong})
		o.held(false, 5000)
		o.write(1)
		o.end(1)
	}
}

// Messages that wait without a link, or are held back, end when the next link says what the peer takes.
func TestParkedMessagesThatAreTooLong(t *testing.T) {
	t.Parallel()
	o := newLongBench(t, false)
	o.LinkClosed(epochTime, o.link, 0)
	o.sendLong()
	o.link++
	o.Tick(epochTime.Add(2 * o.cfg.ReconnectMax))
	o.Dialed(epochTime, 0, o.link)
	o.Takes(0, limited)
	o.fates(Fate{Token: 1, Status: TooLong})
	o.rest()
	if o.Takes(0, 0); o.offer(tooLong, false) != nil {
		t.Error("the next process of the peer takes everything")
	}
}

// A peer that cannot refuse a message, and acknowledges it before it has said what it takes: messages that
// not every node takes, and those behind them, have no end before.
func TestAcknowledgedBeforeThePeerHasSpoken(t *testing.T) {
	t.Parallel()
	written := func(t *testing.T) *opBench {
		o := newLongBench(t, true)
		o.send(nil)
		o.sendLong()
		o.send(nil)
		o.fill(2*opSize + longSize)
		o.wrote(2*opSize + longSize)
		o.ack()
		o.fates(Fate{Token: 1})
		return o
	}
	o := written(t)
	o.told(limited)
	o.fates(Fate{Token: 2, Status: TooLong}, Fate{Token: 3})
	o.rest()

	o = written(t)
	o.told(0)
	o.fates(Fate{Token: 2}, Fate{Token: 3})
	o.rest()

	o = written(t) // Linux, where pings are turned off
	o.tickUntil(o.cfg.ProofTimeout - time.Millisecond)
	o.fates()
	o.tickUntil(o.cfg.ProofTimeout)
	o.fates(Fate{Token: 2}, Fate{Token: 3})
	o.rest()
}

// The peer speaks while its message is being written: it is shown to the link, or begun.
func TestPeerSpeaksDuringAWrite(t *testing.T) {
	t.Parallel()
	for _, n := range []int{0, 1, longSize} {
		o := newLongBench(t, true)
		o.sendLong()
		o.send(nil)
		o.fill(longSize + opSize)
		o.told(limited)
		o.fates()
		o.wrote(n)
		switch n {
		case 0:
			o.fates(Fate{Token: 1, Status: TooLong})
			o.write(1)
		case 1:
			o.fill(longSize - 1 + opSize)
			o.wrote(longSize - 1 + opSize)
		default:
			o.write(1)
		}
		o.ack()
		if n == 0 {
			o.end(2)
			continue
		}
		o.fates(Fate{Token: 1, Status: TooLong}, Fate{Token: 2})
		o.rest()
	}
	o := newLongBench(t, true)
	o.sendLong()
	o.fill(longSize)
	o.wrote(1)
	o.told(limited)
	o.fates()
	o.fill(longSize - 1)
	o.wrote(longSize - 1)
	o.ack()
	o.fates(Fate{Token: 1, Status: TooLong})
	o.rest()
}

// A message that an earlier link has carried may have been taken by the process that had that link: it is not
// known what became of it when the next one does not take it.
func TestResentMessagesThatAreTooLong(t *testing.T) {
	t.Parallel()
	for _, resent := range []bool{false, true} {
		o := newLongBench(t, true)
		o.told(0)
		o.sendLong()
		o.fill(longSize)
		o.wrote(longSize)
		o.lose()
		if o.Longest() != 0 {
			t.Error("what the peer takes outlives the last link")
		}
		o.mute()
		if resent {
			o.fill(longSize)
			o.wrote(longSize)
			o.ack()
			o.fates()
		}
		o.told(limited)
		o.fates(Fate{Token: 1, Status: Dropped})
		o.probe()
		o.ack()
		o.rest()
	}
}

// A peer that refuses a message for its length.
func TestRefusedForItsLength(t *testing.T) {
	t.Parallel()
	o := newLongBench(t, false)
	o.sendLong()
	o.send(nil)
	o.fill(longSize + opSize)
	o.wrote(longSize + opSize)
	o.RefusedBy(0, o.seqOf(1), 1, TooLong)
	o.ack()
	o.fates(Fate{Token: 1, Status: TooLong}, Fate{Token: 2})
	o.rest()
	if n := o.Counters().SendTooLong; n != 1 {
		t.Errorf("%d are counted", n)
	}
}

// What the set-up of a link says is not believed where another link has stated what is known: anybody can connect.
func TestLengthsOfAnImpostor(t *testing.T) {
	t.Parallel()
	o := newPathsBench(t)
	o.shake(MaxPaths, 7)
	o.open(3)
	o.Takes(3, 2)
	if err := o.offer(tooLong, false); err != nil || o.Longest() != 0 {
		t.Errorf("limit %d: %v", o.Longest(), err)
	}
}

// A link that is older than the one that has spoken last says nothing new.
func TestOldLinkSaysNothingNew(t *testing.T) {
	t.Parallel()
	o := newPathsBench(t)
	o.shake(MaxPaths, 7)
	o.open(3)
	o.paths[0].born, o.paths[3].born = 5, 4
	o.takes(&o.paths[0], limited)
	o.takes(&o.paths[3], 0)
	if o.Longest() != limited {
		t.Errorf("limit %d", o.Longest())
	}
}

// A link that is not read is no silence of the peer, whose word may wait in it.
func TestPausedLinkIsNotSilent(t *testing.T) {
	t.Parallel()
	o := newLongBench(t, true)
	o.sendLong()
	o.fill(longSize)
	o.wrote(longSize)
	o.ack()
	o.Paused(0, o.link, true)
	o.tickUntil(3*o.cfg.ProofTimeout - time.Millisecond)
	o.fates()
	o.Paused(0, o.link, false)
	o.told(limited)
	o.fates(Fate{Token: 1, Status: TooLong})
}

package conn

import (
	"slices"
	"testing"

	"github.com/rds-go/rds/internal/wire"
	"github.com/rds-go/rds/transport"
)

// The link takes what is written next for the operation's message: neither a
// map nor a probe goes before it.
func TestOperationAndItsMessageStayTogether(t *testing.T) {
	t.Parallel()
	o := newOpBench(t)
	op := &Operation{}
	o.send(op)
	o.fill(opSize, op)
	o.took()
	o.wrote(0)
	o.MapChanged()
	o.paths[0].probe = true
	o.write(1)
	o.fill(wire.HeaderSize + wire.CongestionMapSize)
	o.wrote(o.b.Bytes)
	o.fill(wire.HeaderSize)
	o.wrote(o.b.Bytes)
	o.done(op, Success)
	o.fates()
	o.end(1)
}

// On a new link messages go at once, an operation when the peer's RDS has shown that
// it took the link, and so has done with the one before.
func TestOperationWaitsForProof(t *testing.T) {
	t.Parallel()
	o := newOpBench(t)
	lost, next, silent := &Operation{}, &Operation{}, &Operation{Silent: true}
	o.send(lost)
	o.begin(lost)
	o.LinkClosed(epochTime, o.link, 0)
	o.fates(Fate{Token: 1, Status: Dropped})
	o.send(nil)
	o.send(next)
	o.send(silent)
	o.link++
	o.invited = true
	o.Tick(epochTime.Add(2 * o.cfg.ReconnectMax))
	o.Dialed(epochTime, 0, o.link)
	o.fill(wire.HeaderSize + wire.CongestionMapSize)
	o.wrote(o.b.Bytes)
	o.probe()
	o.write(1)
	o.idle()
	o.TakeActions(nil)
	o.Proved(epochTime, 0)
	if a := o.TakeActions(nil); !slices.Contains(a, Action{Kind: Transmit, Path: 0}) {
		t.Errorf("actions %v do not have the operations begin", a)
	}
	o.begin(next)
	o.begin(silent)
	o.done(next, Success)
	o.done(silent, Success)
	o.end(4, 2, 3)
}

// Of a sender that wants to hear of failures only.
func TestOperationFailureIsReported(t *testing.T) {
	t.Parallel()
	o := newOpBench(t)
	for _, s := range []Status{Success, RemoteError} {
		op := &Operation{}
		o.acct.Charge(0)
		mustEnqueue(t, o.Conn, 0, &Message{Account: &o.acct, Token: 7, Failure: true, Op: op})
		o.begin(op)
		o.ack()
		o.done(op, s)
	}
	o.fates(Fate{Token: 7, Status: RemoteError})
	o.rest()
}

// With Fence nothing is written between the operation's begin and its end.
func TestFenceHoldsThePath(t *testing.T) {
	t.Parallel()
	o := newOpBench(t)
	op := &Operation{Fence: true}
	o.send(op)
	o.send(nil)
	o.fill(0, op)
	o.took()
	o.wrote(0)
	o.MapChanged()
	o.idle()
	o.TakeActions(nil)
	o.done(op, Success)
	if acts := o.TakeActions(nil); !slices.Equal(acts, []Action{{Kind: Transmit}}) {
		t.Fatalf("actions %v", acts)
	}
	o.fill(wire.HeaderSize + wire.CongestionMapSize)
	o.wrote(o.b.Bytes)
	for i := range 2 {
		if o.fill(2*opSize - i*opSize); o.b.Frames[0].Ops != nil {
			t.Fatal("a message whose operation is done is bound to it")
		}
		o.wrote(opSize)
	}
	o.end(1, 2)
}

// A fenced message whose operation has failed is never written.
func TestFencedMessageOfAFailedOperation(t *testing.T) {
	t.Parallel()
	for _, early := range []bool{false, true} {
		o := newOpBench(t)
		op := &Operation{Fence: true}
		o.send(op)
		o.send(nil)
		o.fill(0, op)
		if early { // the link was quicker than the owner
			o.done(op, RemoteError)
			o.fates()
		}
		o.took()
		o.wrote(0)
		if !early {
			o.idle()
			o.done(op, RemoteError)
		}
		o.fates(Fate{Token: 1, Status: RemoteError})
		o.write(1)
		o.end(2)
	}
}

// An operation may be done before its owner has come to say that it was begun.
func TestOperationDoneBeforeBegan(t *testing.T) {
	t.Parallel()
	for _, op := range []*Operation{{}, {Fence: true}, {Silent: true}, {Silent: true, Fence: true}} {
		o := newOpBench(t)
		o.send(op)
		o.send(nil)
		o.show(op)
		o.done(op, Success)
		for ok := true; ok; ok = o.Fill(0, &o.b) {
			o.Wrote(0, all(&o.b))
		}
		if op.Silent {
			o.fates(Fate{Token: 1})
			o.ack()
			o.fates(Fate{Token: 2})
		} else {
			o.ack()
			o.fates(Fate{Token: 1}, Fate{Token: 2})
		}
		o.rest()
	}
}

// A silent operation takes no bytes and no sequence number, and ends when it is
// done, acknowledged or not.
func TestSilentOperation(t *testing.T) {
	t.Parallel()
	o := newOpBench(t)
	a, b := &Operation{Silent: true}, &Operation{Silent: true}
	o.paths[0].opsMost = 8
	o.send(nil)
	o.write(1)
	next := o.PathInfos()[0].NextTX
	o.send(a)
	o.send(b)
	o.send(nil)
	o.fill(opSize, a, b)
	o.wrote(0)
	o.begin(a)
	o.begin(b)
	o.write(1)
	info := o.PathInfos()[0]
	if info.NextTX != next+1 || info.LastStart != info.Written-opSize {
		t.Fatalf("%+v, number %d was next", info, next)
	}
	o.done(b, Success)
	o.fates(Fate{Token: 3})
	o.ack()
	o.fates(Fate{Token: 1}, Fate{Token: 4})
	if o.Unacked(0) != 0 {
		t.Error("bytes are waited for where only an operation is")
	}
	o.done(a, RemoteError)
	o.fates(Fate{Token: 2, Status: RemoteError})
	o.rest()
}

// What Extensions holds is the header's last 16 bytes.
func TestExtensionsAreCopied(t *testing.T) {
	t.Parallel()
	o := newOpBench(t)
	area := [wire.ExtensionSize]byte{wire.ExtRDMADest, 1, 2, 3, 4, 5, 6, 7, 8}
	o.acct.Charge(3)
	mustEnqueue(t, o.Conn, 0, &Message{Account: &o.acct, Payload: []byte("abc"), Extensions: area})
	o.fill(wire.HeaderSize + 3)
	var h wire.Header
	if err := h.Decode(o.b.Frames[0].Head); err != nil || h.Extensions != area {
		t.Fatalf("%v, %v", h.Extensions, err)
	}
	if string(o.b.Frames[0].Head[wire.HeaderSize:]) != "abc" {
		t.Error("the payload is not behind the header")
	}
	o.wrote(o.b.Bytes)
}

// A large message behind its operation is written in whatever pieces the link
// takes, and it alone.
func TestOperationBeforeALargeMessage(t *testing.T) {
	t.Parallel()
	o := newOpBench(t)
	op := &Operation{List: []*transport.Operation{{}}}
	body := o.cfg.Pool.Get(InlineMax + 1)
	o.acct.Charge(len(body.B))
	mustEnqueue(t, o.Conn, 0, &Message{Account: &o.acct, Body: body, Token: 1, Notify: true, Op: op})
	o.last = 1
	o.send(nil)
	left := wire.HeaderSize + InlineMax + 1
	for i, n := range []int{20, 28, 1, InlineMax} {
		o.paths[0].opsMost = 8
		o.fill(left+opSize, []*Operation{op}[:1-min(i, 1)]...)
		if len(o.b.Frames[0].Ops) != 1 || o.b.Frames[1].Ops != nil {
			t.Fatal("a frame does not say that an operation precedes it, or the next one does")
		}
		o.took()
		o.wrote(n)
		left -= n
	}
	o.fill(opSize)
	o.wrote(opSize)
	o.done(op, Success)
	o.end(1, 2)
}

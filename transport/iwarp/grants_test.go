//go:build !live

package iwarp

import (
	"math"
	"slices"
	"testing"

	"github.com/rds-go/rds/transport/iwarp/rdmap"
	"github.com/rds-go/rds/transport/iwarp/xctl"
)

// octetMost is the longest message of these tests, octetTotal their Reservation's total.
const octetMost, octetTotal = 1000, 4000

// openOctets opens a connection with queues with a sink on which octets are granted, to a raw
// peer that does it too if caps say so.
func openOctets(t testing.TB, caps xctl.Caps) (*end, *extended, *sinkRecorder, *Reservation) {
	t.Helper()
	e := newEnd(t, openDevice(t, Config{EventLoops: 1}), QPConfig{})
	d, r := newSinkRecorder(t), NewReservation(octetTotal, octetMost)
	x := openExtendedCRC(t, e, true, true, caps,
		SharedParams{Sink: d, Reservation: r})
	x.sync()
	return e, x, d, r
}

// A peer is granted half of all when the program takes messages, and more when it has
// taken them; what is told of full tags goes before. When the peer is gone the octets
// are free.
func TestOctetsAreGranted(t *testing.T) {
	bubble(t, func(t *testing.T) {
		e, x, d, r := openOctets(t, allCaps|xctl.CapOctets)
		if g := has[xctl.Grant](x); len(g) > 0 || r.Granted() != 0 {
			t.Errorf("%+v, %d octets granted before anybody takes messages", g, r.Granted())
		}
		if !e.qp.Reserves() {
			t.Fatal("octets are not granted")
		}
		if n, err := e.qp.TellFull(7, true); n != 0 || err != nil {
			t.Error(n, err)
		}
		e.qp.SinkReady()
		if f := await[xctl.Full](x); f != (xctl.Full{Tag: 7, On: true}) {
			t.Errorf("%+v", f)
		}
		if g := await[xctl.Grant](x); g != (xctl.Grant{Granted: octetTotal / 2, Keep: xctl.KeepAll}) {
			t.Errorf("%+v", g)
		}
		if n, err := e.qp.TellFull(8, true); n != octetTotal/2 || err != nil {
			t.Error(n, err)
		}
		x.raw.send(x.message(sinkNum, 0, false, make([]byte, 900)), x.message(sinkNum, 900, true, make([]byte, 100)),
			x.message(sinkNum+1, 0, true, make([]byte, 1000)))
		if f := await[xctl.Full](x); f != (xctl.Full{Tag: 8, On: true}) {
			t.Errorf("%+v", f)
		}
		g := await[xctl.Grant](x)
		for g.Granted < octetTotal { // the messages came in more than one read
			g = await[xctl.Grant](x)
		}
		if g != (xctl.Grant{Granted: octetTotal, Keep: xctl.KeepAll}) {
			t.Errorf("%+v", g)
		}
		_ = x.conn.Close()
		_ = d.ended()
		eventually(t, "no octets granted to nobody", func() bool { return r.Granted() == 0 })
		if _, err := e.qp.TellFull(7, false); err == nil {
			t.Error("news of a connection that has ended")
		}
	})
}

// Octets beyond the grant end the connection with a Terminate, and so does a RETURN of
// octets that were used; what was taken before stays.
func TestOctetsAreBounds(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		ready bool
		send  func(x *extended)
	}{
		"before a grant": {false, func(x *extended) { x.raw.send(x.message(sinkNum, 0, true, []byte("early"))) }},
		// Both messages come by one read: nothing is granted again in between.
		"a message too many": {true, func(x *extended) {
			first := x.raw.frame(x.message(sinkNum, 0, true, make([]byte, octetTotal/2)))
			x.raw.write(append(first, x.raw.frame(x.message(sinkNum, 0, true, []byte{1}))...))
		}},
		"a segment too long": {true, func(x *extended) {
			x.raw.send(x.message(sinkNum+2, 0, false, make([]byte, octetTotal/2-1)), x.message(sinkNum+2, octetTotal/2-1, false, make([]byte, 2)))
		}},
		"used octets returned": {true, func(x *extended) {
			x.raw.send(x.message(sinkNum, 0, false, make([]byte, 100)), x.tell(xctl.Return{Returned: octetTotal/2 - 99}))
		}},
		"a want longer than any message": {true, func(x *extended) { x.raw.send(x.tell(xctl.Return{Want: octetMost + 1})) }},
	} {
		inBubble(t, name, func(t *testing.T) {
			e, x, d, r := openOctets(t, allCaps|xctl.CapOctets)
			if c.ready {
				e.qp.SinkReady()
				await[xctl.Grant](x)
			}
			c.send(x)
			x.terminated(rdmap.CauseDDPNoBuffer)
			_ = x.conn.Close()
			_ = d.ended()
			eventually(t, "no octets granted to nobody", func() bool { return r.Granted() == 0 })
		})
	}
}

// The program claims octets that were granted; where it wants more than there are the
// peer is told, and Writable follows when they are there. What is asked back is returned,
// but for what is claimed.
func TestOctetsAreClaimed(t *testing.T) {
	bubble(t, func(t *testing.T) {
		e, x, d, _ := openOctets(t, allCaps|xctl.CapOctets)
		x.raw.send(x.tell(xctl.Grant{Granted: 100, Keep: xctl.KeepAll}))
		x.sync()
		same(t, "octets claimed before the sink has heard what is full", e.qp.Claim(), 0)
		e.qp.SinkReady()
		eventually(t, "the octets are there", func() bool { n := e.qp.Claim(); e.qp.Unclaim(n); return n == 100 })
		if !e.qp.Want(100) {
			t.Error("octets that are there are not enough")
		}
		if e.qp.Want(101) {
			t.Error("octets that are not there are enough")
		}
		if r := await[xctl.Return](x); r != (xctl.Return{Returned: 100, Want: 101}) {
			t.Errorf("%+v", r)
		}
		// Too few: they go back, and with enough of them Writable comes.
		x.raw.send(x.tell(xctl.Grant{Granted: 150, Keep: xctl.KeepAll}))
		if r := await[xctl.Return](x); r != (xctl.Return{Returned: 150, Want: 101}) {
			t.Errorf("%+v", r)
		}
		x.raw.send(x.tell(xctl.Full{Tag: 9, On: true}, xctl.Grant{Granted: 400, Keep: xctl.KeepAll}))
		wait(t, d.writable, "Writable")
		same(t, "octets", e.qp.Claim(), 250)
		if got := d.heard(); len(got) != 1 || got[0] != "tag 0x9 is full: true" {
			t.Errorf("%q", got)
		}
		e.qp.Unclaim(200)
		x.raw.send(x.tell(xctl.Grant{Granted: 400, Keep: 60}))
		if r := await[xctl.Return](x); r != (xctl.Return{Returned: 290}) {
			t.Errorf("%+v", r)
		}
		e.qp.Unclaim(50)
		if r := await[xctl.Return](x); r != (xctl.Return{Returned: 340}) {
			t.Errorf("%+v", r)
		}
		same(t, "octets", e.qp.Claim(), 60)
		x.raw.send(x.tell(xctl.Grant{Granted: 399, Keep: xctl.KeepAll}))
		x.terminated(rdmap.CauseDDPMSNRange)
	})
}

// With a peer that does not grant octets there is no bound but that peer's.
func TestOctetsWithAnOlderPeer(t *testing.T) {
	bubble(t, func(t *testing.T) {
		e, x, d, r := openOctets(t, allCaps)
		e.qp.SinkReady()
		if e.qp.Reserves() || e.qp.Claim() != math.MaxInt || !e.qp.Want(1<<30) {
			t.Error("octets are granted")
		}
		e.qp.Unclaim(5)
		if _, err := e.qp.TellFull(1, true); err == nil {
			t.Error("the peer was told of a full tag")
		}
		x.raw.send(x.tell(xctl.Grant{Granted: 1}, xctl.Return{Returned: 9, Want: 9}, xctl.Full{Tag: 1, On: true}),
			x.message(sinkNum, 0, true, make([]byte, 3*octetTotal)))
		x.sync()
		if n := len(d.taken()); n != 3*octetTotal || r.Granted() != 0 || !slices.Equal(d.heard(), []string{"9 from 0"}) {
			t.Errorf("%d octets came, %d are granted", n, r.Granted())
		}
		if g := has[xctl.Grant](x); len(g) != 0 {
			t.Errorf("%+v", g)
		}
	})
}

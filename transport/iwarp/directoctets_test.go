package iwarp

import (
	"math"
	"testing"
	"time"

	"github.com/rds-go/rds/transport/iwarp/rdmap"
	"github.com/rds-go/rds/transport/iwarp/xctl"
)

// octetMost is the longest message of these tests, octetTotal their Reservation's total.
const octetMost, octetTotal = 1000, 4000

// openOctets opens a connection with direct queues on which octets are granted, to a raw
// peer that does it too if caps say so.
func openOctets(t testing.TB, caps xctl.Caps) (*end, *extended, *directRecorder, *Reservation) {
	t.Helper()
	e := newEnd(t, openDevice(t, Config{EventLoops: 1}), QPConfig{})
	d, r := newDirectRecorder(t), NewReservation(octetTotal, octetMost)
	x := openExtendedCRC(t, e, true, true, caps,
		SharedParams{Direct: &DirectParams{Number: directNum, Others: directOthers, Sink: d, Reservation: r}})
	x.sync()
	return e, x, d, r
}

// A peer is granted half of all when the program takes messages, and more when it has
// taken them; what is told of full tags goes before. When the peer is gone the octets
// are free.
func TestDirectOctetsAreGranted(t *testing.T) {
	t.Parallel()
	e, x, d, r := openOctets(t, allCaps|xctl.CapOctets)
	if g := has[xctl.Grant](x); len(g) > 0 || r.Granted() != 0 {
		t.Errorf("%+v, %d octets granted before anybody takes messages", g, r.Granted())
	}
	if !e.qp.DirectReserves() {
		t.Fatal("octets are not granted")
	}
	if n, err := e.qp.DirectFull(7, true); n != 0 || err != nil {
		t.Error(n, err)
	}
	e.qp.DirectReady()
	if f := await[xctl.Full](x); f != (xctl.Full{Tag: 7, On: true}) {
		t.Errorf("%+v", f)
	}
	if g := await[xctl.Grant](x); g != (xctl.Grant{Granted: octetTotal / 2, Keep: xctl.KeepAll}) {
		t.Errorf("%+v", g)
	}
	if n, err := e.qp.DirectFull(8, true); n != octetTotal/2 || err != nil {
		t.Error(n, err)
	}
	x.raw.send(x.message(directNum, 0, false, make([]byte, 900)), x.message(directNum, 900, true, make([]byte, 100)),
		x.message(directNum+1, 0, true, make([]byte, 1000)))
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
	if !eventually(10*time.Second, func() bool { return r.Granted() == 0 }) {
		t.Errorf("%d octets granted to nobody", r.Granted())
	}
	if _, err := e.qp.DirectFull(7, false); err == nil {
		t.Error("news of a connection that has ended")
	}
}

// Octets beyond the grant end the connection with a Terminate, and so does a RETURN of
// octets that were used; what was taken before stays.
func TestDirectOctetsAreBounds(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		ready bool
		send  func(x *extended)
	}{
		"before a grant": {false, func(x *extended) { x.raw.send(x.message(directNum, 0, true, []byte("early"))) }},
		// Both messages come by one read: nothing is granted again in between.
		"a message too many": {true, func(x *extended) {
			first := x.raw.frame(x.message(directNum, 0, true, make([]byte, octetTotal/2)))
			x.raw.write(append(first, x.raw.frame(x.message(directNum, 0, true, []byte{1}))...))
		}},
		"a segment too long": {true, func(x *extended) {
			x.raw.send(x.message(directNum+2, 0, false, make([]byte, octetTotal/2-1)), x.message(directNum+2, octetTotal/2-1, false, make([]byte, 2)))
		}},
		"used octets returned": {true, func(x *extended) {
			x.raw.send(x.message(directNum, 0, false, make([]byte, 100)), x.tell(xctl.Return{Returned: octetTotal/2 - 99}))
		}},
		"a want longer than any message": {true, func(x *extended) { x.raw.send(x.tell(xctl.Return{Want: octetMost + 1})) }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e, x, d, r := openOctets(t, allCaps|xctl.CapOctets)
			if c.ready {
				e.qp.DirectReady()
				await[xctl.Grant](x)
			}
			c.send(x)
			x.terminated(rdmap.CauseDDPNoBuffer)
			_ = x.conn.Close()
			_ = d.ended()
			if !eventually(10*time.Second, func() bool { return r.Granted() == 0 }) {
				t.Errorf("%d octets granted to nobody", r.Granted())
			}
		})
	}
}

// The program claims octets that were granted; where it wants more than there are the
// peer is told, and Writable follows when they are there. What is asked back is returned,
// but for what is claimed.
func TestDirectOctetsAreClaimed(t *testing.T) {
	t.Parallel()
	e, x, d, _ := openOctets(t, allCaps|xctl.CapOctets)
	x.raw.send(x.tell(xctl.Grant{Granted: 100, Keep: xctl.KeepAll}))
	x.sync()
	if n := e.qp.DirectClaim(); n != 0 {
		t.Errorf("%d octets claimed before the sink has heard what is full", n)
	}
	e.qp.DirectReady()
	if !eventually(10*time.Second, func() bool { n := e.qp.DirectClaim(); e.qp.DirectUnclaim(n); return n == 100 }) {
		t.Fatal("the octets are not there")
	}
	if !e.qp.DirectWant(100) {
		t.Error("octets that are there are not enough")
	}
	if e.qp.DirectWant(101) {
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
	if n := e.qp.DirectClaim(); n != 250 {
		t.Errorf("%d octets", n)
	}
	if got := d.heard(); len(got) != 1 || got[0] != "tag 0x9 is full: true" {
		t.Errorf("%q", got)
	}
	e.qp.DirectUnclaim(200)
	x.raw.send(x.tell(xctl.Grant{Granted: 400, Keep: 60}))
	if r := await[xctl.Return](x); r != (xctl.Return{Returned: 290}) {
		t.Errorf("%+v", r)
	}
	e.qp.DirectUnclaim(50)
	if r := await[xctl.Return](x); r != (xctl.Return{Returned: 340}) {
		t.Errorf("%+v", r)
	}
	if n := e.qp.DirectClaim(); n != 60 {
		t.Errorf("%d octets", n)
	}
	x.raw.send(x.tell(xctl.Grant{Granted: 399, Keep: xctl.KeepAll}))
	x.terminated(rdmap.CauseDDPMSNRange)
}

// With a peer that does not grant octets there is no bound but that peer's.
func TestDirectOctetsWithAnOlderPeer(t *testing.T) {
	t.Parallel()
	e, x, d, r := openOctets(t, allCaps)
	e.qp.DirectReady()
	if e.qp.DirectReserves() || e.qp.DirectClaim() != math.MaxInt || !e.qp.DirectWant(1<<30) {
		t.Error("octets are granted")
	}
	e.qp.DirectUnclaim(5)
	if _, err := e.qp.DirectFull(1, true); err == nil {
		t.Error("the peer was told of a full tag")
	}
	x.raw.send(x.tell(xctl.Grant{Granted: 1}, xctl.Return{Returned: 9, Want: 9}, xctl.Full{Tag: 1, On: true}),
		x.message(directNum, 0, true, make([]byte, 3*octetTotal)))
	x.sync()
	if n := len(d.taken()); n != 3*octetTotal || r.Granted() != 0 || len(d.heard()) != 0 {
		t.Errorf("%d octets came, %d are granted", n, r.Granted())
	}
	if g := has[xctl.Grant](x); len(g) != 0 {
		t.Errorf("%+v", g)
	}
}

package conn

import (
	"testing"
	"time"

	"github.com/rds-go/rds/internal/wire"
)

// Messages that say something about memory do not reach a peer that has come
// back without operations. The others do, and those written before stay flagged.
func TestPlainLinkGetsNoExtensions(t *testing.T) {
	t.Parallel()
	o := newOpBench(t)
	o.Plain(0) // nothing of the kind has been sent
	var dest [wire.ExtensionSize]byte
	wire.Memory{HasDest: true, Dest: 7}.Put(&dest)
	extended := func() {
		o.last++
		o.acct.Charge(0)
		m := Message{Sport: 4000, Dport: 5000, Account: &o.acct, Token: o.last, Notify: true, Extensions: dest}
		mustEnqueue(t, o.Conn, 0, &m)
	}
	o.send(nil)
	extended()
	o.fill(opSize + wire.HeaderSize)
	o.wrote(o.b.Bytes) // to a link that may say such things, and is lost
	o.send(&Operation{Silent: true})
	extended()
	o.send(nil)
	o.LinkClosed(epochTime, 1, 0)
	o.fates()
	o.Tick(epochTime.Add(time.Hour))
	o.Dialed(epochTime, 0, 2)
	o.Plain(0)
	o.check()
	o.fates(Fate{Token: 2, Status: OtherError}, Fate{Token: 3, Status: OtherError}, Fate{Token: 4, Status: OtherError})
	o.Proved(epochTime, 0)
	o.fill(wire.HeaderSize + wire.CongestionMapSize)
	o.wrote(o.b.Bytes)
	o.fill(opSize) // repeated
	o.wrote(opSize)
	o.fill(wire.HeaderSize) // a probe
	o.wrote(o.b.Bytes)
	o.write(1)
	o.ack()
	o.fates(Fate{Token: 1}, Fate{Token: 5})
	if o.acct.Messages() != 0 {
		t.Errorf("%d messages charged", o.acct.Messages())
	}
	o.check()
}

// Connect asks for a link without a message, and goes on until there is one.
func TestConnectWithoutMessages(t *testing.T) {
	t.Parallel()
	for _, role := range []Role{Connector, Acceptor} {
		c := newConn(t, Config{Role: role})
		now := epochTime
		c.Connect(now)
		for range 3 {
			as := c.TakeActions(nil)
			if len(as) != 1 || as[0].Kind != Dial {
				t.Fatalf("role %v: %v", role, as)
			}
			c.DialFailed(now, 0)
			c.Connect(now) // another one asks: the back-off is not disturbed
			if as := c.TakeActions(nil); len(as) > 0 {
				t.Fatalf("role %v: %v in the back-off", role, as)
			}
			if now = c.Deadline(); now.IsZero() {
				t.Fatalf("role %v: gave up", role)
			}
			c.Tick(now)
		}
		checkConn(t, c)
	}
	c := newConn(t, Config{})
	up(t, c, 1)
	c.Connect(epochTime)
	if as := c.TakeActions(nil); len(as) > 0 || c.asked {
		t.Errorf("%v with a link", as)
	}
}

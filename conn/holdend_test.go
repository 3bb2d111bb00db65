package conn

import "testing"

// Cancel ends what is held back at once, of one port or of all, written to or
// not, operations and all.
func TestCancelOfHeld(t *testing.T) {
	t.Parallel()
	for _, filling := range []bool{false, true} {
		o := newOpBench(t)
		o.sendTo(5002, nil)
		if filling {
			o.fill(opSize)
		}
		o.held(true, 5000, 5001)
		op := &Operation{Fence: true}
		o.sendTo(5000, op)
		o.sendTo(5001, nil)
		o.sendTo(5000, nil)
		if n, b := o.Cancel(&o.acct, 5000, false); n != 2 || b != 20 || o.acct.Messages() != 2 {
			t.Fatalf("%d messages, %d bytes canceled, %d left", n, b, o.acct.Messages())
		}
		o.fates(Fate{Token: 2, Status: Canceled}, Fate{Token: 4, Status: Canceled})
		if n, _ := o.Cancel(&o.acct, 0, true); n != 2 || o.acct.Messages() != 0 || o.HeldBytes(0) != 0 {
			t.Fatalf("%d messages canceled, %d left", n, o.acct.Messages())
		}
		o.fates(Fate{Token: 1, Status: Canceled}, Fate{Token: 3, Status: Canceled})
		if filling {
			o.wrote(opSize)
		}
		o.held(false, 5000, 5001)
		o.idle()
		o.ack()
		o.rest()
	}
}

// What was canceled while a write is under way is not held back: it ends after
// the write.
func TestHoldOfCanceled(t *testing.T) {
	t.Parallel()
	o := newOpBench(t)
	o.sendTo(5001, nil)
	o.fill(opSize)
	o.sendTo(5000, nil)
	o.Cancel(&o.acct, 5000, false)
	o.held(true, 5000)
	o.fates(Fate{Token: 2, Status: Canceled})
	o.wrote(opSize)
	o.end(1)
}

// Close cancels what is held back.
func TestCloseOfHeld(t *testing.T) {
	t.Parallel()
	o := newOpBench(t)
	o.held(true, 5000)
	o.sendTo(5000, &Operation{})
	o.sendTo(5000, nil)
	o.Close()
	o.fates(Fate{Token: 1, Status: Canceled}, Fate{Token: 2, Status: Canceled})
	o.rest()
}

// A link without operations ends those that are held back, too.
func TestPlainLinkOfHeld(t *testing.T) {
	t.Parallel()
	o := newOpBench(t)
	o.held(true, 5000)
	o.sendTo(5000, nil)
	o.sendTo(5000, &Operation{})
	o.Plain(0)
	o.check()
	o.fates(Fate{Token: 2, Status: OtherError})
	o.held(false, 5000)
	o.wrotePorts(0, 5000)
	o.end(1)
}

package conn

import "testing"

// Close in the middle of a message: a peer that reads slowly leaves one partly written.
// Close cancels the message and its link takes no more, so nothing of it counts as
// begun any more, neither with a write under way nor without one.
func TestCloseWithAMessagePartlyWritten(t *testing.T) {
	t.Parallel()
	for _, writing := range []bool{false, true} {
		o := newOpBench(t)
		o.send(nil)
		o.send(nil)
		o.fill(2 * opSize)
		o.wrote(opSize + 7) // the link is full within the second message
		if writing {
			o.fill(opSize - 7)
		}
		o.Close()
		if writing {
			o.fates()
			o.wrote(3)
		}
		o.check()
		o.fates(Fate{Token: 1, Status: Canceled}, Fate{Token: 2, Status: Canceled})
		if n, bytes := o.Cancel(&o.acct, 0, true); n != 0 || bytes != 0 {
			t.Errorf("%d messages, %d bytes canceled after Close", n, bytes)
		}
		o.check()
		o.LinkClosed(epochTime, o.link, 0)
		o.check()
		o.rest()
	}
}

package conn

import "testing"

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

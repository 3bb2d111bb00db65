//go:build interop

package interop

import "testing"

// testVerbMessages sends messages of all sizes, empty ones and those that fill
// their receive to the last octet, and one that asks for attention. There are no
// more than there are receives: iWARP has nothing that makes a sender wait.
func testVerbMessages(t *testing.T, sender, target verbs) {
	s := target.serve(t, 16, faultRegions...)
	lengths := []int{100, 0, 1, 1423, 1424, 1425, receiveLength, receiveLength, 3, 4}
	var ops []operation
	for _, n := range lengths {
		ops = append(ops, operation{op: "send", length: n})
	}
	a := sender.startAttack(t, s, append(ops, operation{op: "se", length: 17})...)
	for i, n := range lengths {
		if m := s.awaitMessage(t, n); m.Solicited {
			t.Errorf("message %d: %+v", i, m)
		}
	}
	if m := s.awaitMessage(t, 17); m.Solicited != target.ours {
		t.Errorf("the solicited one: %+v", m)
	}
	if got := a.finish(t, target.ours); got.refusal != none {
		t.Errorf("the sender was told %v", got.refusal)
	}
	s.awaitEnd(t)
	s.quit(t)
}

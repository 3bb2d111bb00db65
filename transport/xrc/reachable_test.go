package xrc

import (
	"math/rand/v2"
	"testing"
)

// A peer's targets are found by their numbers as long as they live, in whatever order they come and go, and a domain
// without targets is none that the peer reaches.
func TestTargetsAreFoundWhileTheyLive(t *testing.T) {
	t.Parallel()
	n := newNet(t, hostOptions{})
	a, b := n.host(1), n.host(2)
	for service := range uint64(3) { // three domains
		b.app("").serve(1+service, 1, 64)
	}
	client := a.app("")
	var live []*Channel
	for k := range uint64(30) {
		live = append(live, client.connect(2, 1+k%3))
	}
	p := b.allPeers()[0]
	rand.Shuffle(len(live), func(i, k int) { live[i], live[k] = live[k], live[i] })
	for len(live) > 0 {
		for _, ch := range live {
			if c := p.reach.target(ch.Target().Number); c == nil || c.ref != ch.Target() {
				t.Fatalf("%v is not found among %d", ch.Target(), len(live))
			}
		}
		last := live[len(live)-1]
		live = live[:len(live)-1]
		if err := last.Close(within(t)); err != nil {
			t.Fatal(err)
		}
		n.until("the target to be gone", func() bool { return p.reach.target(last.Target().Number) == nil })
	}
	if list := p.reach.all(); len(list) != 0 {
		t.Errorf("%d domains are left", len(list))
	}
}

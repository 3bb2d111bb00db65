//go:build !live

package xrc

import (
	"math/rand/v2"
	"testing"

	"github.com/rds-go/rds/xrc/objects"
)

// A peer's targets are found by their numbers as long as they live, in whatever order they come and go, and a domain
// without targets is none that the peer reaches. Looking for a queue in all of them is no request that a target counts.
func TestTargetsAreFoundWhileTheyLive(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n, a, b := twoHosts(t, hostOptions{})
		var queues []*objects.SRQ
		for service := range uint64(3) { // three domains
			q, _ := b.app("").serve(1+service, 1, 64)
			queues = append(queues, q)
		}
		client := a.app("")
		var live []*Channel
		for k := range uint64(30) {
			live = append(live, client.connect(2, 1+k%3))
		}
		p := b.allPeers()[0]
		rand.Shuffle(len(live), func(i, k int) { live[i], live[k] = live[k], live[i] })
		p.mu.Lock() // in a random order, as when numbers are used again
		var carriers []*carrier
		for _, ch := range live {
			c := p.reach.target(ch.Target().Number)
			p.reach.removeLocked(c)
			carriers = append(carriers, c)
		}
		for _, c := range carriers {
			p.reach.addLocked(c)
		}
		p.mu.Unlock()
		for _, q := range queues {
			if found, _ := p.reach.find(b.objects, q.Num()); found != q {
				t.Errorf("queue %#x is not found", q.Num())
			}
		}
		for len(live) > 0 {
			for _, ch := range live {
				c := p.reach.target(ch.Target().Number)
				if c == nil || c.ref != ch.Target() {
					t.Fatalf("%v is not found among %d", ch.Target(), len(live))
				}
				if n := c.target.Info().UnknownSRQ; n != 0 {
					t.Fatalf("%v has counted %d requests", c.ref, n)
				}
			}
			last := live[len(live)-1]
			live = live[:len(live)-1]
			must(t, last.Close(within(t)))
			n.until("the target to be gone", func() bool { return p.reach.target(last.Target().Number) == nil })
		}
		if list := p.reach.all(); len(list) != 0 {
			t.Errorf("%d domains are left", len(list))
		}
	})
}

//go:build !live

package xrc

import (
	"slices"
	"testing"

	"github.com/rds-go/rds/transport/iwarp"
)

// A channel that finds the send queue full of messages to a queue without receives goes on when they have had their turn,
// though none of them completes.
func TestFullSendQueueTellsThoseWhoWait(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n, a, b := twoHosts(t, hostOptions{})
		server, client := b.app(""), a.app("")
		server.serve(7, 16, 8)
		good := client.connect(2, 7)
		client.says(good, 1) // the peer has told that the channel reaches the queue
		l := a.theLink(0)
		for service, waits := uint64(100), false; !waits; service++ { // what was due before Cork may yet leave, and leaves places
			empty, _ := server.serve(service, 0, 8)
			dry := client.connectAs(2, ChannelAttr{Service: service, MaxSend: 1024})
			toEmpty := aMessage(dry, 2)
			toEmpty.Queue = empty.Num()
			client.send(dry, toEmpty)
			n.until("the peer to tell of the empty queue", when(&dry.mu, func() bool { return dry.started == 1 }))
			l.qp.Cork()
			client.send(dry, slices.Repeat([]iwarp.WorkRequest{toEmpty}, 600)...)
			client.send(good, aMessage(good, 3))
			good.mu.Lock()
			waits = good.waiting.Len() == 1
			good.mu.Unlock()
			l.qp.Uncork()
			client.want(3, iwarp.Success, iwarp.OpSend)
			must(t, dry.Close(within(t)))
		}
	})
}

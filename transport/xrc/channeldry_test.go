//go:build !live

package xrc

import (
	"slices"
	"testing"

	"github.com/rds-go/rds/transport"
	"github.com/rds-go/rds/transport/iwarp"
	"github.com/rds-go/rds/transport/transporttest"
)

// A channel that has more for each of many dry queues than the connection may carry
// still reaches the others. It once looked past eight such queues only, and once eleven
// of them had all places.
func TestManyDryQueuesHoldUpNobodyElse(t *testing.T) {
	bubble(t, func(t *testing.T) {
		_, a, b := twoHosts(t, hostOptions{})
		server, client := b.app("many-dry"), a.app("")
		const dry, each = 40, 200
		var queues []uint32
		for i := range dry {
			srq, _ := server.serve(uint64(100+i), 0, 8)
			number := srq.Num()
			queues = append(queues, number)
		}
		server.serve(7, 16, 8)
		ch := client.connectAs(2, ChannelAttr{Service: 7, MaxSend: 8192})
		for _, q := range queues {
			client.send(ch, slices.Repeat([]iwarp.WorkRequest{{ID: 1, Flags: iwarp.Signaled, Queue: q}}, each)...)
		}
		for i := range 16 {
			id := uint64(1000 + i)
			client.send(ch, iwarp.WorkRequest{ID: id, Flags: iwarp.Signaled, Queue: ch.Queue().SRQN})
			client.want(id, iwarp.Success, iwarp.OpSend)
		}
	})
}

// Queues of applications that are dry, with as much for them as the connection takes, do not
// hold up RDS, whose messages go by the same connection.
func TestDryQueuesDoNotHoldUpRDS(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n, a, b := twoHosts(t, hostOptions{fabric: Options{MaxSend: 64}})
		server, client := b.app("dry-rds"), a.app("")
		var queues []uint32
		for i := range 8 {
			srq, _ := server.serve(uint64(100+i), 0, 8)
			queues = append(queues, srq.Num())
		}
		ch := client.connect(2, 100)
		for _, q := range queues {
			client.send(ch, slices.Repeat([]iwarp.WorkRequest{{ID: 1, Flags: iwarp.Signaled, Queue: q}}, 60)...)
		}
		l, from := a.theLink(0), new(transporttest.Sender)
		for sent := uint64(0); sent < 1000*8240; { // octets of messages with their headers
			taken, err := l.Send([]transport.Frame{from.Next(8192)})
			if err != nil || taken.Frames != 1 {
				n.until("RDS has room", func() bool { return l.Acked() == sent })
				continue
			}
			sent += 8240
		}
		n.until("RDS's messages have come", func() bool { return l.Acked() == 1000*8240 })
	})
}

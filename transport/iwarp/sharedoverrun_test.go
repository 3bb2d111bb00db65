//go:build !live

package iwarp

import (
	"testing"

	"github.com/rds-go/rds/mr"
)

// A message that finds its queue's completion queue full is lost, and its sender
// hears so, however many there are; the program hears of it once; other queues and the connection go on.
func TestMessageLostToAnOverrunIsRefused(t *testing.T) {
	bubble(t, func(t *testing.T) {
		events := make(chan Event, 1000)
		t.Cleanup(func() { // after the device's own end, when nobody is left to say more
			if n := len(events); n > 0 {
				t.Errorf("told of it %d times more", n)
			}
		})
		queues := &queueMap{}
		client := newEnd(t, openDevice(t, Config{}), QPConfig{})
		server := newEnd(t, openDevice(t, Config{OnEvent: func(e Event) { events <- e }}), QPConfig{})
		connectEnds(t, client, server, ConnParams{Shared: &SharedParams{Send: true, Require: true}},
			ConnParams{Shared: &SharedParams{Queues: queues, Errors: 1}})
		dst := server.reg(64, mr.LocalWrite)
		small, err := server.dev.CreateCQ(2)
		must(t, err)
		full, other := queues.srq(server, 1, SRQConfig{CQ: small}), queues.srq(server, 2, SRQConfig{})
		const messages = 100
		for i := range uint64(messages) {
			server.give(full, i, dst.SGE(0, 64))
		}
		for i := range uint64(messages) {
			client.send(WorkRequest{ID: i, Flags: Signaled, Queue: 1, Inline: []byte("x")})
			want := Success
			if i >= 2 {
				want = RemoteInvalidRD
			}
			client.want(i, want, OpSend)
		}
		if e := <-events; e.Kind != EventCQError || e.CQ != small {
			t.Fatalf("%+v", e)
		}
		server.give(other, 7, dst.SGE(0, 64))
		client.send(WorkRequest{ID: 8, Flags: Signaled, Queue: 2, Inline: []byte("x")})
		server.want(7, Success, OpReceive)
		client.want(8, Success, OpSend)
	})
}

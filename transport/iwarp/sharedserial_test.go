//go:build !live

package iwarp

import "testing"

// After a connection is lost both sides can tell by the numbers of messages which
// of those that were flushed have come.
func TestNumbersTellWhichMessagesCame(t *testing.T) {
	bubble(t, func(t *testing.T) {
		client, server, queues := sharedPair(t, Config{}, ConnParams{}, ConnParams{})
		s := queues.srq(server, 1, SRQConfig{})
		queues.srq(server, 2, SRQConfig{})
		for i := range 3 {
			server.give(s, uint64(i))
			client.send(WorkRequest{ID: uint64(i), Flags: Signaled, Queue: 1})
			client.want(uint64(i), Success, OpSend)
			if c := server.want(uint64(i), Success, OpReceive); c.Serial != uint32(i+1) {
				t.Fatalf("message %d has number %d", i, c.Serial)
			}
		}
		if s.Posted() != 0 {
			t.Fatal(s.Posted(), "requests are left")
		}
		// The credit lets 16 leave; the peer has no memory for them.
		for i := range 40 {
			client.send(WorkRequest{ID: uint64(i), Queue: 2})
		}
		_ = server.qp.Close()
		<-client.qp.Done()
		for range 40 {
			switch c := client.next(); {
			case c.Status != Flushed || c.Queue != 2:
				t.Fatalf("%+v", c)
			case c.Sent && (c.Serial == 0 || c.ID >= 16):
				t.Fatalf("message %d was sent as %d", c.ID, c.Serial)
			}
		}
	})
}

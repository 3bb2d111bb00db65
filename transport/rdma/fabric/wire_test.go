package fabric

import (
	"testing"

	"github.com/rds-go/rds/transport/iwarp"
)

func TestXRCREQ15ApplicationsOnlyAdvertiseOnTheWire(t *testing.T) {
	t.Parallel()
	n := newNet(t, hostOptions{})
	a, b := n.host(1), n.host(2)
	server := b.app("")
	srq, _ := server.serve(7, 4, 100)
	client := a.app("")
	ch := client.connect(2, 7)
	if num, _ := srq.Number(); ch.Queue().SRQN != num {
		t.Fatalf("queue %+v, want %#x", ch.Queue(), num)
	}
	if sent := a.Stats().ControlSent + b.Stats().ControlSent; sent != 0 {
		t.Errorf("%d control messages: set-up took more than one round trip", sent)
	}
	client.send(ch, iwarp.WorkRequest{ID: 9, Flags: iwarp.Signaled, Queue: ch.Queue().SRQN, Inline: []byte("hello")})
	if c := server.want(0, iwarp.Success, iwarp.OpReceive); c.Len != 5 || c.Peer != a.addr {
		t.Fatalf("%+v", c)
	}
	client.want(9, iwarp.Success, iwarp.OpSend)
}

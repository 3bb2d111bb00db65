//go:build live

package gnetloop

import (
	"testing"
	"time"

	"github.com/rds-go/rds/transport"
)

func TestTCPInfoIsTheKernels(t *testing.T) {
	t.Parallel()
	peer, c, r := startedPeer(t, newEngine(t, Options{}))
	if n, err := c.Writev([][]byte{pattern(1000)}); n != 1000 || err != nil {
		t.Fatal(n, err)
	}
	eventually(t, "all is acknowledged", func() bool { return c.Acked() == 1000 })
	i, ok := c.TCPInfo()
	switch {
	case !ok:
		t.Fatal("no TCP_INFO")
	case i.RTT <= 0 || i.RTT > patience || i.RTO < 100*time.Millisecond || i.Cwnd == 0 || int(i.MSS) != c.MSS():
		t.Errorf("%+v", i)
	case i.Unacked != 0 || i.NotSent != 0 || i.Probes != 0 || i.LastAckRecv > patience:
		t.Errorf("all is acknowledged, and: %+v", i)
	}

	// The peer's window closes: what it does not take is not sent.
	full := pattern(1 << 20)
	eventually(t, "the socket is full", func() bool { n, err := c.Writev([][]byte{full}); return n < len(full) && err == nil })
	eventually(t, "the peer's window limits", func() bool {
		i, _ := c.TCPInfo()
		return i.NotSent > 0 && i.ReceiveLimited > 0 && i.Busy >= i.ReceiveLimited
	})
	_ = peer.Close()
	receive(t, r.closed)
	if i, ok := c.TCPInfo(); ok || i != (transport.TCPInfo{}) {
		t.Errorf("after the end: %+v", i)
	}
	c.Close(transport.Abort)
}

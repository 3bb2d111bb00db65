//go:build live

package client

import (
	"testing"

	"github.com/rds-go/rds/internal/ipc"
	"github.com/rds-go/rds/internal/rdstest"
	"github.com/rds-go/rds/rds/config"
)

// Numbers of peers, and so slots of the table that applications share, are given again
// when strangers have ended, while an application is attached: however many strangers come,
// the application reaches a new peer. A number that an application was told stays.
func TestSlotsOfStrangersAreUsedAgain(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	strangers := make([]*rdstest.RawPeer, 100)
	for i := range strangers {
		strangers[i] = l.Raw()
	}
	n, _, path := served(t, l, config.Node{}, config.Service{})
	s := bound(t, dialed(t, path), rdstest.AddrOf(rdstest.NewAddr(), 4000))
	known := l.bind(l.node(config.Node{}))
	rdstest.MustSend(t, known, s.LocalAddrPort(), []byte("hello"))
	rdstest.Expect(t, s, "hello")
	n.SkipTo(ipc.MaxPeers - 4)
	for _, p := range strangers {
		r := p.Dial(s.LocalAddrPort().Addr())
		rdstest.Eventually(t, "the stranger", func() bool { return rdstest.Peers(n) == 2 })
		r.Reset()
		rdstest.Eventually(t, "the end of the stranger", func() bool { return rdstest.Peers(n) == 1 })
	}
	_ = nodeOf(known).Close() // its number is on the application's ring, or was
	fresh := l.bind(l.node(config.Node{}))
	rdstest.MustSend(t, s, fresh.LocalAddrPort(), []byte("to a new peer"))
	m := rdstest.MustRecv(t, fresh)
	if m.From != s.LocalAddrPort() {
		t.Errorf("from %v", m.From)
	}
	m.Release()
	rdstest.MustSend(t, fresh, s.LocalAddrPort(), []byte("back"))
	if m = rdstest.MustRecv(t, s); m.From != fresh.LocalAddrPort() {
		t.Errorf("from %v", m.From)
	}
	m.Release()
	if !n.SkipTo(ipc.MaxPeers) {
		t.Error("strangers were given more numbers than the table has slots")
	}
}

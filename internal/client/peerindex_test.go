//go:build !live

package client

import (
	"fmt"
	"net/netip"
	"os"
	"testing"
	"time"

	"github.com/rds-go/rds/internal/ipc"
	"github.com/rds-go/rds/internal/node"
	"github.com/rds-go/rds/internal/rdstest"
	"github.com/rds-go/rds/rds/config"
	"github.com/rds-go/rds/rds/datagram"
)

// The numbers of peers that applications have looked up are given again when all others
// were, and their applications have gone.
func TestNumbersOfPeersAreGivenAgain(t *testing.T) {
	bubble(t, func(t *testing.T, l *lab) {
		n, svc, path := served(t, l, config.Node{Linger: -1}, config.Service{Users: config.UserShares{Peers: ipc.MaxPeers}})
		n.SkipTo(ipc.MaxPeers - 4)
		restBriefly(n)
		here := rdstest.NewAddr()
		first, second := dialed(t, path), dialed(t, path)
		a, b := bound(t, first, rdstest.AddrOf(here, 5)), bound(t, second, rdstest.AddrOf(here, 6))
		last := netip.MustParseAddr("10.68.0.1")
		next := func() netip.AddrPort { last = last.Next(); return rdstest.AddrOf(last, 9) }
		for range 2 {
			rdstest.MustSend(t, a, next(), []byte("x"))
			rdstest.MustSend(t, b, next(), []byte("x"))
		}
		rdstest.WantErr(t, "one more", b.TrySend(next(), []byte("x")), datagram.ErrTooMany)
		_ = first.Close()
		rdstest.Eventually(t, "the end of peers", func() bool { return len(svc.Users()) == 1 && rdstest.SharesOf(svc).Sessions == 1 })
		third := dialed(t, path)
		c := bound(t, third, rdstest.AddrOf(here, 7))
		rdstest.Eventually(t, "two numbers to be free", func() bool { return c.TrySend(next(), []byte("x")) == nil })
		rdstest.Eventually(t, "the other one", func() bool { return c.TrySend(next(), []byte("x")) == nil })
		att, err := third.current()
		rdstest.Must(t, err)
		for at, i := range att.resolved {
			if local, remote, ok := att.table.Peer(int(i)); !ok || local != at[0] || remote != at[1] || i >= ipc.MaxPeers || !att.table.Down(int(i)) {
				t.Errorf("slot %d is of %v and %v, want %v", i, local, remote, at)
			}
		}
		rdstest.WantErr(t, "one more", c.TrySend(next(), []byte("x")), datagram.ErrTooMany)
	})
}

// restBriefly has a node give numbers again soon that applications were told of.
func restBriefly(n *node.Node) {
	n.Mu.Lock()
	n.Index.Rest = 20 * time.Millisecond
	n.Mu.Unlock()
}

// An application receives a message each from more addresses than the table has slots, one
// after the other, and reaches the last one as it does the first one. Slots are used again
// meanwhile, but no message comes from another address than its sender's, and none is sent
// to another one than the program says. RDS_LONG=1 has the whole table.
func TestSlotsOfSendersAreUsedAgain(t *testing.T) {
	bubble(t, func(t *testing.T, l *lab) {
		n, _, path := served(t, l, config.Node{}, config.Service{})
		s := bound(t, dialed(t, path), rdstest.AddrOf(rdstest.NewAddr(), 5))
		senders, slots := 40, uint32(8)
		if os.Getenv("RDS_LONG") != "" {
			senders, slots = ipc.MaxPeers+100, ipc.MaxPeers
		}
		n.SkipTo(ipc.MaxPeers - slots)
		restBriefly(n)
		var held datagram.Message // the first sender's, kept over the use of its slot by others
		for i := range senders {
			far := l.bindOne(config.Node{})
			text := fmt.Sprint("from ", i)
			rdstest.MustSend(t, far, s.LocalAddrPort(), []byte(text))
			m := rdstest.MustRecv(t, s)
			if m.From != far.LocalAddrPort() || string(m.Data) != text {
				t.Fatalf("%q from %v, want %q from %v", m.Data, m.From, text, far.LocalAddrPort())
			}
			if i == 0 {
				held = m
			} else {
				m.Release()
			}
			if i == senders-1 {
				rdstest.MustSend(t, s, far.LocalAddrPort(), []byte("to the last one"))
				rdstest.Expect(t, far, "to the last one")
			}
			_ = nodeOf(far).Close()
			if i < senders-1 {
				rdstest.Eventually(t, "the end of the sender", func() bool { return rdstest.Peers(n) == 0 })
				if senders <= 40 || i%1000 == 999 {
					rdstest.Eventually(t, "its slot to be free", func() bool {
						n.Mu.RLock()
						defer n.Mu.RUnlock()
						return len(n.Index.Told) == 0
					})
				}
			}
		}
		if string(held.Data) != "from 0" {
			t.Errorf("the message held is %q", held.Data)
		}
		first := l.bind(l.node(config.Node{}), held.From)
		rdstest.MustSend(t, s, held.From, []byte("to the first one"))
		rdstest.Expect(t, first, "to the first one")
		held.Release()
		if !n.SkipTo(ipc.MaxPeers) {
			t.Error("more numbers were given than the table has slots")
		}
	})
}

//go:build live

package node

import (
	"context"
	"errors"
	"net/netip"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/rds-go/rds/internal/rdstest"
	"github.com/rds-go/rds/transport/iwarp"
)

// hellos are what peers of earlier versions answer, with the generation 7. Version 1 has none.
var hellos = map[string]string{"version 1": "RDSx\x01\x00\x00\x00", "version 2": "RDSx\x02\x00\x00\x00\x00\x00\x00\x07"}

func chosenFor(n *Node, local, remote netip.Addr) string {
	return n.choice.Chosen(local, remote)
}

// A peer of an earlier version is served over TCP at once, with one warning, however often it is
// asked, and over XRC when it has been upgraded, with another one. Patience would be a minute.
func TestPeerOfAnEarlierVersion(t *testing.T) {
	t.Parallel()
	for name, hello := range hellos {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t)
			core, log := observer.New(zap.DebugLevel)
			node := l.quick(zap.New(core), rdstest.Patience)
			near := l.bind(node)
			far := rdstest.AddrOf(rdstest.NewAddr(), 4000)
			old := l.oldPeer(far, hello)
			start := time.Now()
			rdstest.MustSend(t, near, far, []byte("first"))
			rdstest.Expect(t, old.Socket, "first")
			if d := time.Since(start); d > rdstest.Patience/2 {
				t.Errorf("the first message took %v", d)
			}
			rdstest.MustSend(t, old.Socket, near.LocalAddrPort(), []byte("back"))
			rdstest.Expect(t, near, "back")
			by := func() string { return chosenFor(node, near.LocalAddrPort().Addr(), far.Addr()) }
			if by() != "tcp" {
				t.Errorf("served by %q", by())
			}
			rdstest.Eventually(t, "three questions", func() bool { return log.FilterMessage("peer was asked").Len() >= 3 })
			if by() != "tcp" {
				t.Errorf("served by %q", by())
			}
			warned := log.FilterLevelExact(zap.WarnLevel).TakeAll()
			if len(warned) != 1 || warned[0].Message != "peer is not served by the preferred transport" {
				t.Errorf("%d warnings: %v", len(warned), warned)
			}
			log.TakeAll()
			old.end()
			upgraded := l.bind(l.quick(zap.NewNop(), rdstest.Patience), far)
			rdstest.Eventually(t, "XRC", func() bool {
				ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
				defer cancel()
				err := near.Send(ctx, far, []byte("second"))
				return by() == "xrc" && (err == nil || errors.Is(err, context.DeadlineExceeded))
			})
			rdstest.Expect(t, upgraded, "second")
			var moved []observer.LoggedEntry
			for _, e := range log.FilterLevelExact(zap.WarnLevel).All() {
				if e.Message == "peer is served by another transport" {
					moved = append(moved, e)
				}
			}
			if len(moved) > 1 {
				t.Errorf("%d warnings: %v", len(moved), moved)
			}
		})
	}
}

// The same where the old peer is the side that connects: it is rejected on XRC, by no hello, so
// that it takes TCP at once, and a question of its does not make it come back before it is upgraded.
func TestPeerOfAnEarlierVersionConnects(t *testing.T) {
	t.Parallel()
	for name, hello := range hellos {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t)
			at := rdstest.AddrOf(rdstest.NewAddr(), 4000)
			core, log := observer.New(zap.InfoLevel)
			node := l.quick(zap.New(core), rdstest.Patience)
			far := l.bind(node)
			to := netip.AddrPortFrom(far.LocalAddrPort().Addr(), l.Port^1)
			old := l.oldPeer(at, hello)
			for _, private := range []string{hello, "RDSx\x00\x00\x02\x00\x00\x00\x00\x07"} { // a link, and a question
				q, err := old.qp()
				rdstest.Must(t, err)
				_, err = old.dev.ConnectFrom(rdstest.Background(t), q, rdstest.AddrOf(at.Addr(), 0), to, iwarp.ConnParams{Rev: 2, PeerToPeer: true, Seal: true, Private: []byte(private), Shared: sharedOf()})
				var rejected *iwarp.RejectedError
				if !errors.As(err, &rejected) || len(rejected.Private) != 0 {
					t.Errorf("%q: %v, %+v", private, err, rejected)
				}
			}
			rdstest.MustSend(t, old.Socket, far.LocalAddrPort(), []byte("first"))
			rdstest.Expect(t, far, "first")
			if by := chosenFor(node, far.LocalAddrPort().Addr(), at.Addr()); by != "tcp" {
				t.Errorf("served by %q", by)
			}
			old.end()
			upgraded := l.bind(l.quick(zap.NewNop(), rdstest.Patience), at)
			rdstest.Eventually(t, "XRC", func() bool {
				rdstest.MustSend(t, upgraded, far.LocalAddrPort(), []byte("second"))
				rdstest.Expect(t, far, "second")
				return chosenFor(node, far.LocalAddrPort().Addr(), at.Addr()) == "xrc"
			})
			warned := log.FilterLevelExact(zap.WarnLevel).FilterMessage("peer is served by another transport").All()
			if len(warned) != 1 {
				t.Errorf("%d warnings: %v", len(warned), warned)
			}
		})
	}
}

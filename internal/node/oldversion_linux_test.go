package node

import (
	"context"
	"errors"
	"net/netip"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/rds-go/rds/internal/rdstest"
	"github.com/rds-go/rds/internal/socket"
	"github.com/rds-go/rds/rds/config"
	"github.com/rds-go/rds/transport"
	"github.com/rds-go/rds/transport/iwarp"
)

// hellos are what peers of earlier versions answer, with the generation 7. Version 1 has none.
var hellos = map[string]string{"version 1": "RDSx\x01\x00\x00\x00", "version 2": "RDSx\x02\x00\x00\x00\x00\x00\x00\x07"}

// oldPeer is a node of an earlier version as others see it: it takes links on XRC that it
// says its hello on, and answers questions with it, beside RDS over TCP.
type oldPeer struct {
	*socket.Socket
	dev  *iwarp.Device
	pd   *iwarp.PD
	cq   *iwarp.CQ
	node *Node
	work sync.WaitGroup
	stop context.CancelFunc
}

// deafSink is the sink of a link of an oldPeer, on which no message comes.
type deafSink struct{ iwarp.Sink }

func (deafSink) Feed([]byte) error                     { return transport.ErrBadHeader }
func (deafSink) Space() ([]byte, bool)                 { return nil, false }
func (deafSink) Flush()                                {}
func (deafSink) Begun() (uint64, int)                  { return 0, 0 }
func (deafSink) Queue(uint32)                          {}
func (deafSink) Home(uint32, uint32)                   {}
func (deafSink) State(uint32, iwarp.QueueState)        {}
func (deafSink) Full(uint32, bool)                     {}
func (deafSink) Refused(uint64, uint32, iwarp.Refusal) {}
func (deafSink) Heard(uint64)                          {}
func (deafSink) Acked()                                {}
func (deafSink) Writable()                             {}
func (deafSink) Closed(error)                          {}

type noQueues struct{}

func (noQueues) Find(uint32) *iwarp.SRQ { return nil }

func sharedOf() *iwarp.SharedParams {
	return &iwarp.SharedParams{Queues: noQueues{}, Send: true, Incarnation: 5, Sink: deafSink{}, Errors: -1, Require: true}
}

// oldPeer starts one. Its node has only TCP.
func (l *lab) oldPeer(at netip.AddrPort, hello string) *oldPeer {
	l.Helper()
	o := &oldPeer{node: l.node(config.Node{Wire: config.WireTCP, ReconnectMax: 20 * time.Millisecond})}
	o.Socket = l.bind(o.node, at)
	var err error
	o.dev, err = iwarp.Open(iwarp.Config{EventLoops: 1})
	if err == nil {
		o.pd, err = o.dev.AllocPD()
	}
	if err == nil {
		o.cq, err = o.dev.CreateCQ(16)
	}
	if err != nil {
		l.Fatal(err)
	}
	ln, err := o.dev.Listen(netip.AddrPortFrom(at.Addr(), l.Port^1))
	if err != nil {
		l.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	o.stop = stop
	o.work.Go(func() {
		for {
			in, err := ln.Accept(ctx)
			if err != nil {
				return
			}
			if b := in.Upper(); len(b) > 4 && b[4] == 0 {
				_ = in.Reject([]byte(hello))
				continue
			}
			q, err := o.qp()
			if err != nil {
				l.Error(err)
				return
			}
			_, err = in.Accept(ctx, q, iwarp.ConnParams{Rev: 2, PeerToPeer: true, Seal: true, Private: []byte(hello), Shared: sharedOf()})
			if err != nil {
				_ = in.Reject(nil)
			}
		}
	})
	l.Cleanup(o.end)
	return o
}

func (o *oldPeer) qp() (*iwarp.QP, error) {
	return o.pd.CreateQP(iwarp.QPConfig{SendCQ: o.cq, RecvCQ: o.cq, MaxSend: 16, MaxReceive: 1})
}

// end is that of the process.
func (o *oldPeer) end() {
	o.stop()
	_ = o.dev.Close()
	o.work.Wait()
	_ = o.node.Close()
}

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
				if err != nil {
					t.Fatal(err)
				}
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

package node

import (
	"context"
	"net/netip"
	"sync"
	"time"

	"github.com/rds-go/rds/internal/rdstest"
	"github.com/rds-go/rds/internal/socket"
	"github.com/rds-go/rds/rds/config"
	"github.com/rds-go/rds/transport"
	"github.com/rds-go/rds/transport/iwarp"
)

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
	rdstest.Must(l, err)
	ln, err := o.dev.Listen(netip.AddrPortFrom(at.Addr(), l.Port^1))
	rdstest.Must(l, err)
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

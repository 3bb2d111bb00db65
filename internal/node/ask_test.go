//go:build !live

package node

import (
	"context"
	"net/netip"
	"testing"

	"github.com/rds-go/rds/internal/rdstest"
	"github.com/rds-go/rds/rds/config"
	"github.com/rds-go/rds/transport"
	"github.com/rds-go/rds/transport/xrc"
)

// askedLink is a link that tells when it is asked for acknowledgements.
type askedLink struct {
	transport.Link
	asked chan struct{}
}

func (l *askedLink) Ask() {
	select {
	case l.asked <- struct{}{}:
	default:
	}
	l.Link.Ask()
}

// askedTransport makes links that tell when they are asked.
type askedTransport struct {
	*xrc.Transport
	asked chan struct{}
}

func (t askedTransport) Dial(ctx context.Context, local, remote netip.Addr, path int) (transport.Link, error) {
	l, err := t.Transport.Dial(ctx, local, remote, path)
	if err != nil {
		return nil, err
	}
	return &askedLink{l, t.asked}, nil
}

func (t askedTransport) Listen(local netip.Addr, accept func(transport.Link)) error {
	return t.Transport.Listen(local, func(l transport.Link) { accept(&askedLink{l, t.asked}) })
}

// A sender that waits for room has the peer asked for what it has taken, each time.
func TestWaitingSenderAsksForAcknowledgements(t *testing.T) {
	bubble(t, newMemLab, func(t *testing.T, l *lab) {
		cfg := config.Node{Port: l.Port}
		cfg.SetDefaults()
		o := xrcOptions(&cfg, 0, nil, nil, nil)
		o.Network = l.Sockets
		tr, err := xrc.New(o)
		rdstest.Must(t, err)
		asked := make(chan struct{}, 1)
		a, b := l.bind(l.node(config.Node{Wire: config.WireAuto, Transport: askedTransport{tr, asked}, Domain: tr.Domain()})), l.bind(l.node(config.Node{Wire: config.WireXRC}))
		ctx := rdstest.Background(t)
		rdstest.Must(t, rdstest.Converse(ctx, a, b, 3))
		rdstest.Must(t, a.SetWriteBuffer(16<<10))
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		go rdstest.Discard(ctx, b)
		for range 3 {
			for n := 0; len(asked) == 0; n++ {
				if err := a.Send(ctx, b.LocalAddrPort(), make([]byte, 8<<10)); err != nil {
					t.Fatalf("message %d, and nobody has asked: %v", n, err)
				}
			}
			<-asked
		}
	})
}

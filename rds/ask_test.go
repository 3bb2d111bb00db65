package rds

import (
	"context"
	"testing"

	"github.com/rds-go/rds/transport"
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

// A sender that waits for room has the peer asked for what it has taken, each time.
func TestWaitingSenderAsksForAcknowledgements(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	a, b := l.bind(l.node(Config{Wire: WireXRC})), l.bind(l.node(Config{Wire: WireXRC}))
	ctx := background(t)
	if err := converse(ctx, a, b, 3); err != nil {
		t.Fatal(err)
	}
	asked := make(chan struct{}, 1)
	a.node.node.eachPeer(func(p *peer) {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.path[0].link != nil {
			p.path[0].link = &askedLink{p.path[0].link, asked}
		}
	})
	mustSet(t, a.SetWriteBuffer(16<<10))
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go discard(ctx, b)
	for range 3 {
		for n := 0; len(asked) == 0; n++ {
			if err := a.Send(ctx, b.LocalAddrPort(), make([]byte, 8<<10)); err != nil {
				t.Fatalf("message %d, and nobody has asked: %v", n, err)
			}
		}
		<-asked
	}
}

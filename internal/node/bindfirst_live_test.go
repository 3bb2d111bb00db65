//go:build live

package node

import (
	"errors"
	"net/netip"
	"testing"
	"time"

	"github.com/rds-go/rds/internal/rdstest"
	"github.com/rds-go/rds/rds/config"
	"github.com/rds-go/rds/transport"
)

var errDeaf = errors.New("cannot listen")

// deafTransport cannot listen, and says so when it is let.
type deafTransport struct {
	transport.Transport
	listens, let chan struct{}
}

func (d *deafTransport) Listen(netip.Addr, func(transport.Link)) error {
	d.listens <- struct{}{}
	<-d.let
	return errDeaf
}

// A socket that is bound to an address while another one has the node listen there waits for
// what comes of it: none is left on an address where nothing listens.
func TestNoSocketIsBoundWhereNothingListens(t *testing.T) {
	t.Parallel()
	l := newLoopLab(t)
	d := &deafTransport{l.Net.Transport(), make(chan struct{}, 2), make(chan struct{})}
	n := l.node(config.Node{Transport: d})
	at := rdstest.NewAddr()
	results := make(chan error, 2)
	bind := func(port uint16) { _, err := n.Bind(netip.AddrPortFrom(at, port)); results <- err }
	go bind(4000)
	<-d.listens
	go bind(4001)
	early := time.AfterFunc(20*time.Millisecond, func() { close(d.let) })
	defer early.Stop()
	for range 2 {
		if err := <-results; !errors.Is(err, errDeaf) {
			t.Errorf("bound with %v", err)
		}
	}
	n.Mu.RLock()
	defer n.Mu.RUnlock()
	if n.locals[at] != nil || len(n.socks) != 0 {
		t.Errorf("%d sockets are left, at %v", len(n.socks), n.locals[at])
	}
}

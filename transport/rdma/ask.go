package rdma

import (
	"context"
	"errors"
	"net/netip"

	"github.com/rds-go/rds/transport/iwarp"
)

// Ask asks remote whether it would give local a link on XRC, and returns nil if it
// would. The peer makes no link of the question, and the paths that it has with local
// are not touched: a Dial would have its RDS end the link that it has. See hello.
func (t *Transport) Ask(ctx context.Context, local, remote netip.Addr) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(t.ctx, cancel)()
	l, err := t.newLink() // link of the question, never given to anybody
	if err != nil {
		return err
	}
	defer l.finish()
	params := l.params(0)
	params.Private = hello{generation: t.opts.Generation}.say(helloAsks)
	est, err := t.dev.ConnectFrom(ctx, l.qp, netip.AddrPortFrom(local, 0), netip.AddrPortFrom(remote, t.opts.Port), params)
	if err == nil { // the peer does not know questions and took this for a link
		_, err = parseHello(est.Private)
		return err
	}
	var rejected *iwarp.RejectedError
	if errors.As(err, &rejected) {
		if _, said := parseHello(rejected.Private); said == nil {
			return nil
		}
	}
	return err
}

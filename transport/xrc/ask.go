package xrc

import (
	"context"
	"errors"
	"net/netip"

	"github.com/rds-go/rds/transport/iwarp"
	"github.com/rds-go/rds/transport/iwarp/xctl"
)

// A question is a Request that the peer rejects, with what it would have said: whether it
// would give a link, and which queue is behind a service. It leaves no connection, and the
// paths that the peer has with local are not touched: a Dial would have its RDS end the link
// that it has. See hello.

// Ask asks remote whether it would give local a link on XRC, and returns nil if it would.
func (t *Transport) Ask(ctx context.Context, local, remote netip.Addr) error {
	_, err := t.question(ctx, hosts{local.Unmap(), remote.Unmap()}, nil)
	return err
}

// question asks, with a request that may be nil, and returns the answer to it.
func (t *Transport) question(ctx context.Context, h hosts, request message) (message, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(t.ctx, cancel)()
	l, err := t.newLink(h, -1, 0) // link of the question, never given to anybody
	if err != nil {
		return nil, err
	}
	defer l.finish()
	params := l.params(hello{})
	params.Private = hello{generation: t.opts.Generation}.question()
	if request != nil {
		params.Private = appendMessage(params.Private, 0, request)
	}
	_, err = t.dev.ConnectFrom(ctx, l.qp, netip.AddrPortFrom(h.local, 0), netip.AddrPortFrom(h.remote, t.opts.Port), params)
	var rejected *iwarp.RejectedError
	switch {
	case err == nil: // the peer does not know questions, which are older than our version
		return nil, errOldVersion
	case !errors.As(err, &rejected):
		return nil, err
	}
	_, rest, said := parseHello(rejected.Private)
	switch {
	case said == errOldVersion:
		return nil, said
	case said != nil:
		return nil, err
	case request == nil:
		return nil, nil
	}
	_, answer, _, err := decodeMessage(rest)
	return answer, err
}

// answerQuestion is the private data of the Reply to a question, which rejects; nil if the
// answer is no. A peer of version 2 would take any hello for a yes, and dial in vain.
func (t *Transport) answerQuestion(h hosts, asker uint8, question []byte) []byte {
	if asker < helloVersion {
		return nil
	}
	b := hello{generation: t.opts.Generation, queue: t.rds.number}.bytes()
	if len(question) <= helloSize {
		return b
	}
	id, request, _, err := decodeMessage(question[helloSize:])
	r, ok := request.(*resolve)
	if err != nil || !ok {
		return nil
	}
	a, status := t.objects.Lookup(r.service, h.remote)
	return appendMessage(b, id, &resolved{service: r.service, status: status, queue: a})
}

// incarnation is that of the peer which a Request comes from, 0 if it tells none.
func incarnation(in *iwarp.Incoming) uint64 {
	var block xctl.Block // only for reading the peer's block
	offer, _, err := block.Negotiate(in.Private)
	if err != nil || !offer.Extended {
		return 0
	}
	return offer.Peer.Incarnation
}

package rdma

import (
	"sync/atomic"

	"github.com/rds-go/rds/internal/buf"
	"github.com/rds-go/rds/internal/frame"
	"github.com/rds-go/rds/internal/wire"
	"github.com/rds-go/rds/transport"
	"github.com/rds-go/rds/transport/iwarp"
	"github.com/rds-go/rds/transport/iwarp/mpa"
)

// input is a link as its queue pair sees it: what arrives goes into a parser, and
// the parser's messages to the link's handler.
type input struct {
	frame.Parser // the event loop's, from started
	link         *link
	listener     transport.AckListener // from started; nil: none
	started      atomic.Bool
	early        []byte // the event loop's: what came before
}

var _ iwarp.Sink = (*input)(nil)

func (in *input) start(h transport.Handler, pool *buf.Pool, max uint32) {
	in.Init(h, pool, max, false)
	in.listener, _ = h.(transport.AckListener)
	in.started.Store(true)
}

// Feed takes bytes of messages. Before Start they are kept.
func (in *input) Feed(b []byte) error {
	if in.started.Load() {
		return in.begin(b)
	}
	if len(in.early)+len(b) > iwarp.DirectEarly+mpa.MaxULPDU+wire.HeaderSize+in.link.t.opts.MaxMessage {
		return transport.ErrTooLong
	}
	in.early = append(in.early, b...)
	return nil
}

func (in *input) begin(b []byte) error {
	if in.early == nil {
		return in.Parser.Feed(b)
	}
	early := in.early
	in.early = nil
	if err := in.Parser.Feed(early); err != nil {
		return err
	}
	return in.Parser.Feed(b)
}

// Space reads the rest of a large payload to where it belongs.
func (in *input) Space() ([]byte, bool) {
	if !in.started.Load() || in.early != nil {
		return nil, false
	}
	return in.Parser.Space()
}

// Flush ends a burst.
func (in *input) Flush() {
	if !in.started.Load() {
		return
	}
	if in.early != nil {
		if err := in.begin(nil); err != nil {
			in.link.Close(transport.Abort)
			return
		}
	}
	in.Parser.Flush()
}

// Acked tells the handler if it wants to hear.
func (in *input) Acked() {
	if in.started.Load() && in.listener != nil {
		in.listener.Acked()
	}
}

func (in *input) Writable() { in.link.writable() }

// Closed is the end of the queue pair.
func (in *input) Closed(cause error) { in.link.ended(cause) }

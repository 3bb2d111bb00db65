package xrc

import (
	"math"
	"sync/atomic"

	"github.com/rds-go/rds/internal/buf"
	"github.com/rds-go/rds/internal/frame"
	"github.com/rds-go/rds/internal/wire"
	"github.com/rds-go/rds/transport"
	"github.com/rds-go/rds/transport/iwarp"
	"github.com/rds-go/rds/transport/iwarp/mpa"
	"github.com/rds-go/rds/xrc/objects"
)

// input is a link as its queue pair sees it: what arrives goes into a parser, and
// the parser's messages to the link's handler.
type input struct {
	frame.Parser // the event loop's, from started
	link         *link
	h            transport.Handler // set by started
	started      atomic.Bool
	early        []byte // the event loop's: bytes that came before started

	full map[uint16]struct{} // the event loop's: ports without room of which the handler was to hear before started; nil: none
}

var _ iwarp.Sink = (*input)(nil)

func (in *input) start(h transport.Handler, pool *buf.Pool, max uint32) {
	in.Init(h, pool, max, false)
	in.h = h
	in.started.Store(true)
}

// Feed takes bytes of messages. Before Start they are kept.
func (in *input) Feed(b []byte) error {
	if in.started.Load() {
		return in.begin(b)
	}
	if len(in.early)+len(b) > iwarp.SinkEarly+mpa.MaxULPDU+wire.HeaderSize+in.link.t.opts.MaxMessage {
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
	in.fulls()
	if in.early != nil {
		if err := in.begin(nil); err != nil {
			in.link.Close(transport.Abort)
			in.Parser.Flush() // of what came before
			return
		}
	}
	hold, free := in.link.routes.apply()
	if len(hold) > 0 {
		in.h.Hold(hold, true)
	}
	if len(free) > 0 {
		in.h.Hold(free, false)
	}
	in.Parser.Flush()
}

// Begun tells what is missing of the message at hand.
func (in *input) Begun() (number uint64, left int) {
	if !in.started.Load() {
		return 0, 0
	}
	return in.Parser.Begun()
}

// Queue passes on whose the messages are that follow. Before Start there are only the
// first queue's: nobody has been told of others.
func (in *input) Queue(n uint32) {
	if !in.started.Load() {
		return
	}
	if n == in.link.t.rds.number {
		n = transport.FirstQueue
	}
	in.h.Queue(n)
}

// Home takes whose a port of the peer's is.
func (in *input) Home(tag, queue uint32) {
	if tag > math.MaxUint16 || !objects.HasSink(queue) || !in.started.Load() {
		return
	}
	in.link.routes.home(uint16(tag), queue)
}

// State takes the state of a queue of the peer's.
func (in *input) State(queue uint32, s iwarp.QueueState) {
	if !objects.HasSink(queue) || !in.started.Load() {
		return
	}
	in.link.routes.state(queue, s)
}

// Full takes whether a port of the peer's has room. Before Start that is kept for fulls.
func (in *input) Full(tag uint32, full bool) {
	if tag > math.MaxUint16 {
		return
	}
	port := uint16(tag)
	if in.started.Load() {
		in.fulls()
		in.hold(port, full)
		return
	}
	if !full {
		delete(in.full, port)
		return
	}
	if in.full == nil {
		in.full = make(map[uint16]struct{})
	}
	in.full[port] = struct{}{}
}

// fulls passes on what came before Start: octets that the peer has granted since are not
// for these ports.
func (in *input) fulls() {
	for port := range in.full {
		in.hold(port, true)
	}
	in.full = nil
}

// hold tells the handler that a port of the peer's is full or has room, if that is news.
func (in *input) hold(port uint16, full bool) {
	if in.link.routes.fill(port, full) {
		in.h.Hold([]uint16{port}, full)
	}
}

// Refused passes on what the peer has not delivered.
func (in *input) Refused(first uint64, count uint32, why iwarp.Refusal) {
	if in.started.Load() {
		in.h.Refused(first, count, transport.Refusal(why))
	}
}

// Heard passes on what the peer knows of that we have not delivered.
func (in *input) Heard(n uint64) {
	if in.started.Load() {
		in.h.RefusalsHeard(n)
	}
}

// Refuse tells the peer that a message was not delivered. A peer that does not know limits hears that
// it is not known whether the message is.
func (l *link) Refuse(number uint64, why transport.Refusal) bool {
	if why == transport.RefusedLength && l.hello.limit == 0 {
		why = transport.RefusedUnknown
	}
	ok, err := l.qp.Refuse(number, iwarp.Refusal(why))
	if err != nil {
		l.Close(transport.Abort)
	}
	return ok
}

// Acked tells the handler.
func (in *input) Acked() {
	if in.started.Load() {
		in.h.Acked()
	}
}

func (in *input) Writable() { in.link.writable() }

// Closed is the end of the queue pair.
func (in *input) Closed(cause error) { in.link.ended(cause) }

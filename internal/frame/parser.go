package frame

import (
	"math"
	"sync/atomic"

	"github.com/rds-go/rds/internal/buf"
	"github.com/rds-go/rds/internal/wire"
	"github.com/rds-go/rds/transport"
)

// Sink receives what a Parser finds; a transport.Handler is one.
type Sink interface {
	Begin()
	Message(h *wire.Header, payload []byte, owned *buf.Buf)
	End()
	Place(h *wire.Header) *buf.Buf
}

// Parser turns a stream into messages. Init makes it ready.
type Parser struct {
	sink   Sink
	pool   *buf.Pool
	max    uint32
	lax    bool
	skips  bool // the payload of hdr is longer than max, and is thrown away
	began  bool // Begin was called and End is due
	inBody bool // hdr is whole, its payload is not

	have int                   // bytes of raw in use
	raw  [wire.HeaderSize]byte // a header that arrived in parts
	hdr  wire.Header

	seen uint64   // payload bytes of all earlier messages
	need int      // payload bytes of hdr
	got  int      // payload bytes of hdr that are in body
	body *buf.Buf // nil, or the first bytes of a partial payload
	err  error    // error that ended the stream

	messages uint64 // whole messages so far

	left  atomic.Uint64 // missing bytes as of the last Flush: header bytes << 32 | payload bytes
	begun atomic.Uint64 // number of the message at hand as of the last Flush << 1 | whether some of it has come
}

// Init prepares p for a new stream to sink. Of messages with payloads longer than max, and not
// longer than any of RDS, the sink gets the header alone. Longer payloads end the stream with
// transport.ErrTooLong; unless lax, so does a header with padding, with transport.ErrBadHeader.
func (p *Parser) Init(sink Sink, pool *buf.Pool, max uint32, lax bool) {
	p.Reset()
	p.sink, p.pool, p.max, p.lax = sink, pool, max, lax
	p.began, p.inBody, p.skips, p.have, p.seen, p.need, p.got, p.err = false, false, false, 0, 0, 0, 0, nil
	p.messages = 0
	p.begun.Store(0)
	p.left.Store(wire.HeaderSize << 32)
}

// Feed parses the next bytes of the stream, all of them. Messages found before
// an error are delivered; an error is final. The sink is told Begin before the
// first message; End comes with Flush.
func (p *Parser) Feed(b []byte) error {
	if p.err != nil {
		return p.err
	}
	for len(b) > 0 {
		if !p.inBody {
			if b = p.header(b); !p.inBody {
				return p.err
			}
		}
		switch {
		case p.skips:
			n := min(len(b), p.need-p.got)
			b = b[n:]
			if p.got += n; p.got == p.need {
				p.deliver(nil, nil)
			}
		case p.got == 0 && p.need <= len(b):
			// Whole and in one piece, the common case: no copy here. A stage
			// made by Space and never filled is given back.
			p.Reset()
			payload := b[:p.need:p.need]
			b = b[p.need:]
			p.deliver(payload, nil)
		case len(b) > 0:
			n := min(len(b), p.need-p.got)
			p.reserve(n)
			copy(p.body.B[p.got:], b[:n])
			b = b[n:]
			p.Filled(n)
		}
	}
	return nil
}

// header takes bytes of b into the header. Afterwards inBody tells that it is
// whole and good.
func (p *Parser) header(b []byte) []byte {
	if p.have == 0 && len(b) >= wire.HeaderSize {
		_ = p.hdr.Decode(b) // cannot be short
		b = b[wire.HeaderSize:]
	} else {
		n := copy(p.raw[p.have:], b)
		p.have += n
		b = b[n:]
		if p.have < wire.HeaderSize {
			return nil
		}
		_ = p.hdr.Decode(p.raw[:])
		p.have = 0
	}
	// TCP has no other way to notice a stream that lost its framing: there is
	// no magic number and no checksum, and Linux, which checks neither field
	// (net/rds/tcp_recv.c), would wait for the rest for ever.
	switch {
	case p.hdr.Length > max(p.max, wire.MaxPayload):
		p.err = transport.ErrTooLong
		return nil
	case p.hdr.Padding != 0 && !p.lax:
		p.err = transport.ErrBadHeader
		return nil
	}
	p.need, p.got, p.inBody, p.skips = int(p.hdr.Length), 0, true, p.hdr.Length > p.max
	return b
}

func (p *Parser) deliver(payload []byte, owned *buf.Buf) {
	p.seen += uint64(p.need)
	p.messages++
	p.inBody, p.skips, p.got = false, false, 0
	if !p.began {
		p.began = true
		p.sink.Begin()
	}
	p.sink.Message(&p.hdr, payload, owned)
}

// Flush ends a batch: the sink is told End if it was told Begin, and Remaining
// is brought up to date.
func (p *Parser) Flush() {
	header, payload, begun := uint64(wire.HeaderSize-p.have), uint64(0), p.messages<<1
	if p.inBody {
		header, payload = 0, uint64(p.need-p.got)
	}
	if p.inBody || p.have > 0 {
		begun |= 1
	}
	p.left.Store(header<<32 | payload)
	p.begun.Store(begun)
	if p.began {
		p.began = false
		p.sink.End()
	}
}

// Remaining returns how many bytes of header and payload the message being
// received lacked at the last Flush, as rds-info -T shows them
// (net/rds/tcp.c, rds_tcp_tc_info). Any goroutine may call it.
func (p *Parser) Remaining() (header, payload uint64) {
	v := p.left.Load()
	return v >> 32, v & 0xffffffff
}

// Messages is how many messages were whole so far. It is for who calls Feed.
func (p *Parser) Messages() uint64 { return p.messages }

// Begun tells, as of the last Flush, how many bytes the message has missed that has come in
// part, and its number. Without such a message left is 0. Any goroutine may call it.
func (p *Parser) Begun() (number uint64, left int) {
	begun, v := p.begun.Load(), p.left.Load()
	if begun&1 == 0 {
		return begun >> 1, 0
	}
	return begun >> 1, int(v>>32) + int(v&math.MaxUint32)
}

// Reset gives a partial payload's buffer back. The stream cannot go on
// afterwards, except with Init.
func (p *Parser) Reset() {
	if p.body != nil {
		p.body.Release()
		p.body = nil
	}
}

package frame

import (
	"math/bits"

	"github.com/rds-go/rds/internal/buf"
)

const (
	// stageMin is how many bytes a partial payload may always take.
	stageMin = 64 << 10
	// stageFactor bounds what a longer one takes: so many times the bytes of
	// payload that the stream has brought, ever. There is one partial payload at
	// a time, so whoever has us hold memory has sent a sixteenth of it. Only the
	// first large messages of a stream are collected in steps, each of which
	// copies what has come.
	stageFactor = 16
	// directMin is the smallest remainder worth reading straight to its place:
	// below it the extra system call costs more than the copy it saves.
	directMin = 16 << 10
)

// Space returns where the next bytes of a partial payload belong, for a reader
// that can put them there itself and then calls Filled. last tells that
// nothing of this message remains behind it. It returns nil when less than
// directMin bytes are missing.
func (p *Parser) Space() (dst []byte, last bool) {
	if !p.inBody || p.skips || p.err != nil || p.need-p.got < directMin {
		return nil, false
	}
	p.reserve(1)
	return p.body.B[p.got:], len(p.body.B) == p.need
}

// Filled says that n bytes were put into Space. A message that is complete now
// is delivered.
func (p *Parser) Filled(n int) {
	p.got += n
	if p.got < p.need {
		return
	}
	owned := p.body
	p.body = nil
	p.deliver(owned.B, owned)
}

// reserve makes room for n more payload bytes, which have arrived.
func (p *Parser) reserve(n int) {
	if p.body != nil && p.got+n <= len(p.body.B) {
		return
	}
	if p.body == nil && p.mayPlace() {
		if p.body = p.sink.Place(&p.hdr); p.body != nil {
			return
		}
	}
	b := p.pool.Get(stage(p.need, p.seen+uint64(p.got+n)))
	if p.body != nil {
		copy(b.B, p.body.B[:p.got])
		p.body.Release()
	}
	p.body = b
}

// mayPlace tells whether the message at hand may have its place before all of it has come:
// the sink's memory for a whole message is not for a peer that has sent nothing yet.
func (p *Parser) mayPlace() bool { return uint64(p.need) <= max(stageMin, stageFactor*p.seen) }

// stage sizes the buffer of a payload of need bytes when the stream has brought
// seen, those of it included. Pools round up to a power of two, and that counts too.
func stage(need int, seen uint64) int {
	allowed := max(stageMin, stageFactor*seen)
	if cost := uint64(need); need <= buf.MaxPooled {
		if cost = 1 << bits.Len64(cost-1); cost <= allowed {
			return need
		}
	} else if cost <= allowed {
		return need
	}
	return min(need, 1<<(bits.Len64(allowed)-1))
}

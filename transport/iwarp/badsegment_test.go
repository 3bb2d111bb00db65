package iwarp

import (
	"math"

	"github.com/rds-go/rds/mr"
	"github.com/rds-go/rds/transport/iwarp/ddp"
	"github.com/rds-go/rds/transport/iwarp/rdmap"
)

func flushedStatus(n int) []Status {
	s := make([]Status, n)
	for i := range s {
		s[i] = Flushed
	}
	return s
}

// sends sends segments as they are.
func sends(ulpdus ...[]byte) func(*victim, *raw, []rdmap.Segment) {
	return func(_ *victim, p *raw, _ []rdmap.Segment) { p.send(ulpdus...) }
}

// badSend sends a Send with another header.
func badSend(change func(h *ddp.Untagged)) func(*victim, *raw, []rdmap.Segment) {
	return func(_ *victim, p *raw, _ []rdmap.Segment) {
		h := ddp.Untagged{Last: true, ULP: rdmap.OpSend.Control(), MSN: 1}
		change(&h)
		p.send(append(h.AppendTo(nil), "payload of a send"...))
	}
}

// control sends a good Send or Write with another control octet of DDP (at 0)
// or RDMAP (at 1).
func control(isTagged bool, at int, value byte) func(*victim, *raw, []rdmap.Segment) {
	return func(v *victim, p *raw, _ []rdmap.Segment) {
		u := p.sendMessage([]byte("payload!"))
		if isTagged {
			u = write(uint32(v.open.Key()), v.open.Base(), []byte("payload!"))
		}
		u[at] = value
		p.send(u)
	}
}

// badRead sends a Read Request of 64 bytes with something changed.
func badRead(change func(v *victim, r *rdmap.ReadRequest)) func(*victim, *raw, []rdmap.Segment) {
	return func(v *victim, p *raw, _ []rdmap.Segment) {
		r := rdmap.ReadRequest{SinkSTag: 0x100, SinkTO: 0x2000, Size: 64, SourceSTag: uint32(v.open.Key()), SourceTO: v.open.Base()}
		change(v, &r)
		p.send(p.read(r))
	}
}

// badWrite sends a Write of 64 bytes.
func badWrite(stag func(v *victim) mr.Key, to uint64) func(*victim, *raw, []rdmap.Segment) {
	return func(v *victim, p *raw, _ []rdmap.Segment) {
		p.send(write(uint32(stag(v)), to, make([]byte, 64)))
	}
}

func openKey(v *victim) mr.Key { return v.open.Key() }

// ulpduOf sends an FPDU of n octets of a Send.
func ulpduOf(n int) func(*victim, *raw, []rdmap.Segment) {
	return func(_ *victim, p *raw, _ []rdmap.Segment) {
		p.send(p.sendMessage(nil)[:n])
	}
}

// badResponse answers the first read, of the victim's sink, with n bytes.
func badResponse(n int, change func(h *ddp.Tagged)) func(*victim, *raw, []rdmap.Segment) {
	return func(v *victim, p *raw, _ []rdmap.Segment) {
		h := ddp.Tagged{Last: true, ULP: rdmap.OpReadResponse.Control(), STag: uint32(v.sink.Key()), TO: v.sink.Base()}
		if change != nil {
			change(&h)
		}
		p.send(append(h.AppendTo(nil), make([]byte, n)...))
	}
}

func then(list ...func(*victim, *raw, []rdmap.Segment)) func(*victim, *raw, []rdmap.Segment) {
	return func(v *victim, p *raw, reqs []rdmap.Segment) {
		for _, f := range list {
			f(v, p, reqs)
		}
	}
}

// changed sends a good Send whose FPDU is then changed.
func changed(f func(b []byte)) func(*victim, *raw, []rdmap.Segment) {
	return func(_ *victim, p *raw, _ []rdmap.Segment) {
		b := p.frame(p.sendMessage([]byte("17 octets of data")))
		f(b)
		p.write(b)
	}
}

func badAtomic(change func(v *victim, r *rdmap.AtomicRequest)) func(*victim, *raw, []rdmap.Segment) {
	return func(v *victim, p *raw, _ []rdmap.Segment) {
		r := rdmap.AtomicRequest{Op: rdmap.FetchAdd, STag: uint32(v.open.Key()), TO: v.open.Base(), Add: 1, CompareMask: math.MaxUint64}
		change(v, &r)
		p.send(untagged(rdmap.OpAtomicRequest, 1, 1, 0, true, r.AppendTo(nil)))
	}
}

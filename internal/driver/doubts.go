package driver

import (
	"github.com/rds-go/rds/internal/buf"
	"github.com/rds-go/rds/internal/wire"
)

// maxDoubts bounds the payload, and doubtCost for each message, that waits on a link for the
// peer's statement of its generation.
const (
	maxDoubts = 4 << 20
	doubtCost = 64
)

// doubts are messages that came before the peer has stated its generation on the link, and
// that the sequences of its last generations disagree about: some generation has sent them
// before. Over TCP the statement follows what is sent again, and an impostor may have had
// the path before.
type doubts struct {
	list  []parked
	bytes int
}

// doubtful keeps a message that has to wait for the peer's statement, and tells whether it
// did. A statement, the end of the link, or too many messages end the wait.
func (r *Receiver) doubtful(h *wire.Header, payload []byte, owned *buf.Buf) bool {
	d := &r.doubts
	switch {
	case h.IsCongestion():
		return false
	case len(d.list) == 0 && !r.p.in.Doubtful(h, r.d.generation.Load()):
		return false
	case h.Sport == wire.PortProbe || h.Dport == wire.PortProbe:
		r.state(wire.ParseHandshake(&h.Extensions).Generation)
		r.decide()
		return false
	case d.bytes > maxDoubts:
		r.unstated()
		return false
	}
	r.Doubted++
	d.bytes += len(payload) + doubtCost
	it := parked{h: *h, buf: owned, owned: true}
	if owned == nil && len(payload) > 0 {
		it.buf = r.d.pool.Get(len(payload))
		copy(it.buf.B, payload)
	}
	d.list = append(d.list, it)
	return true
}

// unstated takes what waits for a statement that does not come.
func (r *Receiver) unstated() {
	if len(r.doubts.list) > 0 {
		r.p.in.Unstated()
		r.decide()
	}
}

// decide takes what has waited.
func (r *Receiver) decide() {
	list := r.doubts.list
	r.doubts = doubts{}
	for i := range list {
		it := &list[i]
		var payload []byte
		if it.buf != nil {
			payload = it.buf.B[:it.h.Length]
		}
		r.take(&it.h, payload, it.buf)
	}
}

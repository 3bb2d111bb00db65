package simnet

import (
	"bytes"
	"time"

	"github.com/rds-go/rds/conn"
	"github.com/rds-go/rds/internal/buf"
	"github.com/rds-go/rds/internal/driver"
	"github.com/rds-go/rds/internal/wire"
	"github.com/rds-go/rds/transport"
)

// sink gives the messages of a link to sockets.
type sink struct {
	p  *peer
	rx *driver.Receiver
	e  *end
}

var _ driver.Sink = (*sink)(nil)

func (k *sink) Begin()                      {}
func (k *sink) Leave()                      {}
func (k *sink) Whole(*buf.Buf)              {}
func (k *sink) Place(*wire.Header) *buf.Buf { return nil }
func (k *sink) Acquainted() bool            { return false }
func (k *sink) Queue(uint32)                {}
func (k *sink) Retry()                      {}
func (k *sink) Reading()                    {}
func (k *sink) Closed()                     {}
func (k *sink) Proved()                     { k.generation() }
func (k *sink) Stated(uint32)               { k.generation() }

// generation follows a statement of the peer's generation.
func (k *sink) generation() {
	in, last := k.rx.Inbound(), &k.p.stated[k.rx.Path()]
	g := in.Generation()
	if g != *last && k.p.h.s.rigged(ForgetSequences, 1) {
		*in = conn.Inbound{}
		in.Begin()
		in.State(g)
	}
	*last = g
}

// End counts.
func (k *sink) End() {
	c := &k.p.h.s.counts
	c.Old += int(k.rx.Old)
	c.Doubted += int(k.rx.Doubted)
	k.rx.Old, k.rx.Doubted, k.rx.Refused = 0, 0, 0
}

// Take takes one message, unless its socket has no room.
func (k *sink) Take(h *wire.Header, payload []byte, owned *buf.Buf) driver.Verdict {
	p, s := k.p, k.p.h.s
	sock := p.h.socks[h.Dport]
	if int(h.Length) > len(payload) {
		s.check.cut(k.e, h)
		return driver.TooLong
	}
	switch {
	case p.dead, s.rigged(LoseMessages, 0.05):
	case sock == nil:
		return driver.NoPort
	case k.rx.Caps().Pauses && sock.queued > 0 && sock.queued+len(payload) > sock.rcvbuf+sock.rcvbuf/4:
		sock.awaited = append(sock.awaited, k.rx)
		return driver.Waits
	default:
		if len(payload) > 8 && s.rigged(Corrupt, 0.05) {
			payload[len(payload)-1]++
		}
		s.check.delivered(sock, p, payload)
		k.rx.Inbound().Took(1)
		sock.receive(len(payload))
	}
	if owned != nil {
		owned.Release()
	}
	return driver.Taken
}

// tap is the handler of a link on the way to the driver's: it changes what a Linux kernel
// would have said otherwise, and what is sabotaged.
type tap struct {
	transport.Handler
	e *end
}

// Message passes a message on.
func (t *tap) Message(h *wire.Header, payload []byte, owned *buf.Buf) {
	e := t.e
	p, s := e.p, e.t.s
	if p.remote.linux && (h.Sport == wire.PortProbe || h.Dport == wire.PortProbe) {
		clear(h.Extensions[3:]) // Linux 6.1 states its number of paths only
	}
	if p.dead || s.check.undelivered(payload) {
		if owned != nil {
			owned.Release()
		}
		return
	}
	s.rigHeader(h)
	p.h.deaf(h)
	if s.cfg.Trace != nil {
		s.tracef("%v<-%v path %d tcp%d: seq %d %d>%d len %d flags %x", p.h, p.remote, e.path, e.t.id, h.Sequence, h.Sport, h.Dport, h.Length, h.Flags)
	}
	if h.IsCongestion() {
		m := wire.CongestionMap(payload)
		if s.rigged(IgnoreMaps, 0.5) {
			p.marked = &m
			if owned != nil {
				owned.Release()
			}
			return
		}
	}
	if h.IsCongestion() { // a map may have to wait behind other messages: see PortsChanged
		e.maps = append(e.maps, wire.CongestionMap(payload))
	}
	if s.cfg.Sabotage == DeliverOld && !p.Core.IsControl(h) && h.Sequence < p.Inbound(e.path).Next() {
		e.sink.Take(h, bytes.Clone(payload), nil)
	}
	t.Handler.Message(h, payload, owned)
}

// receive queues n bytes at a socket; the application takes them later.
func (k *sock) receive(n int) {
	k.queued += n
	s := k.h.s
	if k.queued > k.rcvbuf {
		k.h.mark(k.port, true)
	}
	d := s.upTo(time.Millisecond)
	if k.slow {
		d = s.upTo(100 * time.Millisecond)
	}
	s.after(d, func() {
		k.h.awake(func() {
			k.queued -= n
			if k.alive && k.queued <= k.rcvbuf/2 {
				k.h.mark(k.port, false)
			}
			k.spare()
		})
	})
}

// spare lets links go on that wait for room, or for a socket that is closed.
func (k *sock) spare() {
	waiting := k.awaited
	k.awaited = nil
	for _, r := range waiting {
		r.Wake()
	}
}

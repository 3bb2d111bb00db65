package bench

import (
	"github.com/rds-go/rds/transport/iwarp"
)

// pingRegion is the size of a region with places for a message to send, one to
// receive and two to be written to in turn: the peer has one of them while the
// program looks at the other, and gets that when the next receive request is
// posted.
func pingRegion(size int) int { return 4 * size }

// target is where in the region message n is written to.
func (p *pingEnd) target(n uint64) int { return (2 + int(n%2)) * p.size }

// pingEnd is one end of a ping-pong of messages: each is a Send, or a Write and
// the immediate data that tells of it.
type pingEnd struct {
	v       *verbs
	r       *receiver
	out     []iwarp.WorkRequest // a message
	comps   [1]iwarp.Completion
	done    [credits]iwarp.Completion
	n       uint64
	size    int
	written bool
}

// newPingEnd posts receive requests; it is called before the connection is set
// up, and ready after.
func newPingEnd(v *verbs) (*pingEnd, error) {
	size := v.w.Size
	p := &pingEnd{v: v, size: size, written: v.w.Op == OpWrite}
	var err error
	p.r, err = newReceiver(v, size, size, 1)
	return p, err
}

func (p *pingEnd) ready() {
	v, size := p.v, p.size
	p.out = []iwarp.WorkRequest{v.sendRequest(0, size)}
	if p.written {
		p.out[0].Op, p.out[0].RemoteKey = iwarp.OpWrite, v.remote.key
		p.out = append(p.out, iwarp.WorkRequest{Op: iwarp.OpImmediate})
	}
}

// send sends message n. Only some are signaled, to know that the send queue has
// room.
func (p *pingEnd) send(n uint64, _ int) error {
	last := &p.out[len(p.out)-1]
	last.Flags, last.Immediate = 0, n
	p.out[0].RemoteAddr = p.v.remote.addr + uint64(p.target(n)) // means nothing to a Send
	if p.n++; p.n%credits == 0 {
		last.Flags = iwarp.Signaled
		p.v.send.Poll(p.done[:])
	}
	putNumber(p.v.mem[:p.size], n)
	_, err := p.v.qp.PostSend(p.out...)
	return err
}

// recv waits for message n.
func (p *pingEnd) recv(n uint64) error {
	if _, err := p.v.take(p.v.recv, p.comps[:]); err != nil {
		return err
	}
	c := &p.comps[0]
	got := p.v.mem[p.target(n):][:p.size]
	if !p.written {
		got = p.r.memory(c)
	}
	if err := checkMessage(got, p.size, n); err != nil {
		return err
	}
	return p.r.repost(1)
}

// echo sends back each message.
func (v *verbs) echo(l *iwarp.Listener) error {
	p, err := newPingEnd(v)
	if err != nil {
		return err
	}
	if err := v.accept(l); err != nil {
		return err
	}
	p.ready()
	for n := uint64(0); ; n++ {
		if err := p.recv(n); err != nil {
			return err
		}
		if err := p.send(n, 1); err != nil {
			return err
		}
	}
}

func (p *pingEnd) flush() error { return nil }

func (c *cell) newPingEnd() (p *pingEnd, end func(), err error) {
	_, end, err = c.dialVerbs(pingRegion(c.work.Size), func(v *verbs) (err error) {
		p, err = newPingEnd(v)
		return err
	})
	if err == nil {
		p.ready()
	}
	return p, end, err
}

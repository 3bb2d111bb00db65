package simnet

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/rds-go/rds/conn"
	"github.com/rds-go/rds/internal/buf"
	"github.com/rds-go/rds/internal/driver"
)

// firstPort is the port of a host's first socket.
const firstPort = 4000

// sock is one socket and the application behind it.
type sock struct {
	h      *host
	port   uint16
	inc    int // incarnation of h
	alive  bool
	acct   conn.Account
	rcvbuf int
	slow   bool // the application takes messages slowly
	queued int  // bytes received and not yet taken

	awaited []*driver.Receiver // receivers whose links wait for room in the socket

	left    int      // messages still to send
	pending *message // message refused so far, to be tried again
	tries   int      // attempts to send pending
	count   map[route]uint64
	last    map[*sock]uint64 // number of the last message received from each
}

// route is a destination.
type route struct {
	to   *host
	port uint16
}

func (k *sock) String() string { return fmt.Sprintf("%v:%d", k.h, k.port) }

// message is one datagram.
type message struct {
	id      uint64
	from    *sock
	route   route
	n       uint64 // number of the message among those of its sender on its route
	size    int
	notify  bool
	target  *sock // socket bound to the destination when the message was accepted
	toInc   int
	body    *buf.Buf // the harness holds a reference too
	got     []*sock  // sockets that the message was delivered to
	cancels bool     // a cancel was meant for the message, or its socket closed
	fated   bool
	fate    conn.Status
	begun   bool // some byte of the message was written on some link
	shown   bool // the message was shown to a transmitter, and so has its number
	early   bool // accepted when its connection had one path
	forced  bool // accepted even for a port that takes nothing
	op      *operation

	cut       int           // incarnation of the receiver that has thrown it away for its length; 0: none
	abandoned bool          // given up by a process that stopped
	limit     time.Duration // time by which the message is to be picked; 0: none
}

func (m *message) String() string {
	return fmt.Sprintf("message %d (%v to h%d:%d, number %d, %d bytes)", m.id, m.from, m.route.to.index, m.route.port, m.n, m.size)
}

// fill writes the payload that says which message it is.
func (m *message) fill(b []byte) {
	if len(b) == 0 {
		return // silent operations have no message
	}
	binary.BigEndian.PutUint64(b, m.id)
	for i := 8; i < len(b); i++ {
		b[i] = byte(m.id) + byte(i>>8)
	}
}

func (m *message) intact(b []byte) bool {
	if len(b) != m.size {
		return false
	}
	for i := 8; i < len(b); i++ {
		if b[i] != byte(m.id)+byte(i>>8) {
			return false
		}
	}
	return true
}

func (h *host) sockets() []*sock {
	var out []*sock
	for _, port := range slices.Sorted(maps.Keys(h.socks)) {
		out = append(out, h.socks[port])
	}
	return out
}

// bind makes a socket that will send n messages.
func (h *host) bind(port uint16, n int) *sock {
	s := h.s
	k := &sock{h: h, port: port, inc: h.incarnation, alive: true, left: n, slow: s.chance(0.2), rcvbuf: 1 << (10 + s.rng.IntN(8)),
		count: map[route]uint64{}, last: map[*sock]uint64{}}
	k.acct.Owner = k
	k.acct.SetLimit(1 << (10 + s.rng.IntN(11)))
	h.socks[port] = k
	s.check.socks = append(s.check.socks, k)
	s.after(s.upTo(s.cfg.Scenario.spread/2), func() { h.awake(k.send) })
	return k
}

// size draws the length of a payload.
func (s *Sim) size() int {
	switch x := s.rng.IntN(40); {
	case x == 0 || s.cfg.Scenario.Lengths && x < 4:
		return conn.InlineMax + s.rng.IntN(60<<10)
	case x < 4:
		return 1000 + s.rng.IntN(8000)
	default:
		return 8 + s.rng.IntN(200)
	}
}

// send sends a burst, then waits.
func (k *sock) send() {
	if !k.alive {
		return
	}
	s := k.h.s
	for burst := 1 + s.rng.IntN(8); burst > 0 && (k.left > 0 || k.pending != nil); burst-- {
		m := k.pending
		if m == nil {
			k.left--
			m = k.compose()
		}
		if k.pending = m; !k.try(m) {
			break
		}
		if k.pending, k.tries = nil, 0; !k.alive { // the process was killed meanwhile
			return
		}
	}
	switch {
	case !k.alive:
	case k.pending != nil:
		k.retry()
	case k.left > 0:
		s.after(s.upTo(s.cfg.Scenario.spread/10), func() { k.h.awake(k.send) })
	}
}

func (k *sock) compose() *message {
	s := k.h.s
	to := k.h
	for to == k.h || to.bad && s.calm {
		to = pick(s, s.hosts)
	}
	ports := s.cfg.Scenario.sockets
	if s.cfg.Scenario.Refusals {
		ports++ // nobody is bound to the last one
	}
	m := &message{from: k, route: route{to, uint16(firstPort + s.rng.IntN(ports))}, size: s.size(), notify: s.chance(0.8)}
	s.operate(m)
	if s.cfg.Scenario.Limits && s.chance(0.5) {
		m.limit = s.now + s.upTo(s.cfg.Scenario.spread)
	}
	m.forced = s.cfg.Scenario.Holds && s.chance(0.7)
	m.id = uint64(len(s.check.messages)) + 1
	s.check.messages = append(s.check.messages, m)
	return m
}

// try hands a message to the core.
func (k *sock) try(m *message) bool {
	s := k.h.s
	if !k.acct.Charge(m.size) {
		return false
	}
	if s.rigged(ForgetMessages, 0.05) {
		k.acct.Charge(m.size)
	}
	p := k.h.peer(m.route.to)
	cm := conn.Message{Sport: k.port, Dport: m.route.port, Account: &k.acct, Token: m.id, Notify: m.notify, Admitted: m.forced}
	if m.size > conn.InlineMax {
		if m.body == nil {
			m.body = s.pool.Get(m.size)
			m.fill(m.body.B)
		}
		m.body.Retain(1)
		cm.Body = m.body
	} else {
		cm.Payload = make([]byte, m.size)
		m.fill(cm.Payload)
	}
	if m.op != nil {
		cm.Op = &m.op.Operation
		m.op.p, m.op.Epoch = p, p.Core.Epoch()
	}
	if m.limit > 0 && !s.rigged(ForgetLimits, 0.5) {
		cm.Deadline = start.Add(m.limit)
		if s.rigged(HurryLimits, 0.5) {
			cm.Deadline = s.clock().Add(time.Microsecond)
		}
	}
	k.count[m.route]++
	m.n = k.count[m.route]
	p.Lock()
	err := p.Enqueue(&cm)
	s.check.judged(p, m, err)
	if err != nil {
		k.count[m.route]--
		k.acct.Refund(m.size, 1)
		if m.body != nil {
			m.body.Release()
		}
		if errors.Is(err, conn.ErrClosed) {
			s.check.failf("%v: %v", m, err)
		}
		p.Commit()
		if errors.Is(err, conn.ErrTooLong) {
			s.check.tooLong(m)
			return true
		}
		return false
	}
	clear(cm.Payload) // clobbered, because the core must have copied it
	m.early = p.Core.Paths() <= 1
	s.check.accepted(m)
	s.tracef("%v accepted on path %d", m, p.Core.PathFor(k.port))
	p.Commit()
	return true
}

// cancel gives up what was sent to one route, or to all.
func (k *sock) cancel(r route, all bool) {
	s := k.h.s
	s.tracef("%v cancels, to h%d:%d all=%v", k, r.to.index, r.port, all)
	for _, m := range s.check.messages {
		if m.from == k && m.toInc > 0 && (all || m.route == r) {
			m.cancels = true
		}
	}
	for _, p := range k.h.peers {
		if p == nil || !all && p.remote != r.to {
			continue
		}
		s.check.picked(p)
		p.with(func() {
			before := k.acct.Messages()
			n, _ := p.Core.Cancel(&k.acct, r.port, all)
			if after := k.acct.Messages(); before-after != n {
				s.check.failf("%v: cancel of %d messages took %d from the account", k, n, before-after)
			}
			s.counts.Canceled += n
		})
	}
	if n := k.acct.Messages(); all && n != 0 {
		s.check.failf("%v: all was canceled, and %d messages are left", k, n)
	}
}

// close closes the socket; what it has not delivered is canceled.
func (k *sock) close() {
	k.alive = false
	delete(k.h.socks, k.port)
	k.h.mark(k.port, false)
	k.cancel(route{to: k.h}, true)
	k.spare()
	k.pending, k.left = nil, 0
}

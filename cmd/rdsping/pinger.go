package main

import (
	"context"
	"errors"
	"net/netip"
	"sync"
	"time"

	"github.com/rds-go/rds/rds"
)

// sockets is how many take turns, as in rds-ping.
const sockets = 8

// slot is one of the sockets. A ping on it ends with an answer, an error, or
// its timeout; after the latter two the socket is replaced, so that what still
// comes for the old one is not taken for a later ping's answer.
type slot struct {
	sock    *rds.Socket
	waiting bool
	seq     uint64 // number of the slot's last ping
	sent    time.Time
}

// event is what came in on a socket.
type event struct {
	slot *slot
	sock *rds.Socket // the slot's socket at the time of the event
	at   time.Time
	from netip.AddrPort
	err  error
}

// pinger sends the pings and collects what comes back, both in run.
type pinger struct {
	provider      rds.Provider
	local, remote netip.Addr
	count         uint64
	interval      time.Duration
	timeout       time.Duration
	payload       []byte
	out           output

	slots     [sockets]slot
	events    chan event    // events from the receivers
	quit      chan struct{} // closed by close, ends the receivers
	receivers sync.WaitGroup

	started time.Time // the first ping was sent
	ended   time.Time
	stats   stats
}

func newPinger(o *options, local, remote netip.Addr, out output) (*pinger, error) {
	provider, err := o.open()
	if err != nil {
		return nil, explain(err, local, o.port)
	}
	if c, ok := provider.(*rds.Client); ok && o.local == "" {
		if local, err = daemonAddress(c, local, remote); err != nil {
			_ = provider.Close()
			return nil, err
		}
	}
	p := &pinger{
		provider: provider, local: local, remote: remote, out: out,
		count: uint64(o.count), interval: time.Duration(o.interval), timeout: time.Duration(o.timeout), payload: make([]byte, o.size),
		events: make(chan event), quit: make(chan struct{}),
	}
	for i := range p.slots {
		if err := p.open(&p.slots[i]); err != nil {
			p.close()
			return nil, explain(err, local, o.port)
		}
	}
	return p, nil
}

// open gives a slot a new socket and a receiver for it.
func (p *pinger) open(s *slot) error {
	sock, err := p.provider.Bind(netip.AddrPortFrom(p.local, 0))
	if err != nil {
		return err
	}
	sock.SetLinger(0)
	if send, _ := sock.Buffers(); send < len(p.payload) {
		if err := sock.SetWriteBuffer(len(p.payload)); err != nil {
			sock.Close()
			return err
		}
	}
	s.sock, s.waiting = sock, false
	p.receivers.Go(func() { p.receive(s, sock) })
	return nil
}

// receive reports what comes in on sock, until that fails.
func (p *pinger) receive(s *slot, sock *rds.Socket) {
	for {
		m, err := sock.Recv(context.Background())
		ev := event{slot: s, sock: sock, at: time.Now(), from: m.From, err: err}
		m.Release()
		select {
		case p.events <- ev:
		case <-p.quit:
			return
		}
		if err != nil {
			return
		}
	}
}

func (p *pinger) close() {
	close(p.quit)
	for i := range p.slots {
		if s := p.slots[i].sock; s != nil {
			_ = s.Close() // a ping it drops is one nobody waits for
		}
	}
	p.receivers.Wait()
	_ = p.provider.Close()
}

// run pings until ctx ends or all of count are over.
func (p *pinger) run(ctx context.Context) error {
	p.started = time.Now()
	next := p.started // time of the next ping
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		now := time.Now()
		p.ended = now
		turn := &p.slots[p.stats.sent%sockets]
		mayHave := p.count == 0 || p.stats.sent < p.count
		if mayHave && !turn.waiting && !now.Before(next) {
			if err := p.send(turn); err != nil {
				return err
			}
			if next = next.Add(p.interval); next.Before(now) {
				next = now
			}
			continue
		}
		wake, pending := p.deadline()
		if !mayHave && !pending {
			return nil
		}
		if mayHave && !turn.waiting && (!pending || next.Before(wake)) {
			wake = next
		}
		timer.Reset(time.Until(wake))
		select {
		case ev := <-p.events:
			if err := p.take(ev); err != nil {
				return err
			}
		case <-timer.C:
			if err := p.expire(time.Now()); err != nil {
				return err
			}
		case <-ctx.Done():
			p.ended = time.Now()
			return nil
		}
	}
}

// send starts a ping on s.
func (p *pinger) send(s *slot) error {
	p.stats.sent++
	s.seq, s.sent, s.waiting = p.stats.sent, time.Now(), true
	err := s.sock.TrySend(netip.AddrPortFrom(p.remote, 0), p.payload)
	if err == nil {
		return nil
	}
	return p.failed(s, err)
}

// failed ends a ping with an error and replaces its socket.
func (p *pinger) failed(s *slot, err error) error {
	p.stats.errors++
	p.out.reply(reply{Type: typeError, Seq: s.seq, Error: cause(err).Error()})
	return p.replace(s)
}

func (p *pinger) replace(s *slot) error {
	_ = s.sock.Close() // takes back what was not sent yet
	return p.open(s)
}

// take handles what came in.
func (p *pinger) take(ev event) error {
	s := ev.slot
	switch {
	case ev.sock != s.sock: // the slot's socket was replaced meanwhile
		return nil
	case ev.err != nil:
		return p.failed(s, ev.err)
	}
	r := reply{Type: typeReply, Seq: s.seq, From: ev.from.Addr(), RTT: micros(ev.at.Sub(s.sent)), Duplicate: !s.waiting}
	if r.Duplicate {
		p.stats.duplicates++
	} else {
		p.stats.add(r.RTT)
	}
	s.waiting = false
	p.out.reply(r)
	return nil
}

// deadline is when the first of the waiting pings has its timeout.
func (p *pinger) deadline() (at time.Time, pending bool) {
	for i := range p.slots {
		s := &p.slots[i]
		if d := s.sent.Add(p.timeout); s.waiting && (!pending || d.Before(at)) {
			at, pending = d, true
		}
	}
	return at, pending
}

// expire ends the pings that have waited too long.
func (p *pinger) expire(now time.Time) error {
	for i := range p.slots {
		s := &p.slots[i]
		if s.waiting && !now.Before(s.sent.Add(p.timeout)) {
			p.out.reply(reply{Type: typeTimeout, Seq: s.seq})
			if err := p.replace(s); err != nil {
				return err
			}
		}
	}
	return nil
}

func (p *pinger) summary() summary {
	return p.stats.summary(p.ended.Sub(p.started))
}

// cause is the innermost error, such as an errno's text.
func cause(err error) error {
	for {
		in := errors.Unwrap(err)
		if in == nil {
			return err
		}
		err = in
	}
}

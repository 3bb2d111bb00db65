package conn

import (
	"bytes"
	"strings"
	"time"

	"github.com/rds-go/rds/internal/wire"
)

var commands map[string]func(*runner, *scripted, *args)

func init() { // not a literal: the commands refer to the table
	commands = map[string]func(*runner, *scripted, *args){
		"send": sendCommand, "fill": fillCommand, "wrote": wroteCommand, "write": writeCommand, "recv": recvCommand,
		"state": stateCommand, "messages": messagesCommand,

		"acked": func(_ *runner, s *scripted, a *args) {
			i := a.int()
			total := s.paths[i].written
			if !a.flag("all") {
				total = uint64(a.int())
			}
			s.Acked(i, total)
		},
		"dialed":     func(r *runner, s *scripted, a *args) { i := a.int(); s.Dialed(r.now, i, LinkID(a.key("link", 0))) },
		"dialfailed": func(r *runner, s *scripted, a *args) { s.DialFailed(r.now, a.int()) },
		"accepted": func(r *runner, s *scripted, a *args) {
			s.Accepted(r.now, LinkID(a.key("link", 0)), uint16(a.key("sport", 0)))
		},
		"closed": func(r *runner, s *scripted, a *args) {
			id := LinkID(a.key("link", 0))
			acked := a.key("acked", 0)
			if a.flag("all") {
				for i := range s.paths {
					if s.Link(i) == id {
						acked = int(s.paths[i].written)
					}
				}
			}
			for i := range s.paths {
				if s.Link(i) == id {
					s.in[i].Begin() // the next link's, in truth
				}
			}
			s.LinkClosed(r.now, id, uint64(acked))
		},
		"leave":  func(_ *runner, s *scripted, a *args) { s.Leave(a.int()) },
		"failed": func(_ *runner, s *scripted, a *args) { s.LinkFailed(LinkID(a.key("link", 0))) },
		"proved": func(r *runner, s *scripted, a *args) { s.Proved(r.now, a.int()) },
		"tick": func(r *runner, s *scripted, a *args) {
			d, err := time.ParseDuration(strings.TrimPrefix(a.word(), "+"))
			a.err = err
			r.now = r.now.Add(d)
			s.Tick(r.now)
		},
		"cancel": func(r *runner, s *scripted, a *args) {
			acct := s.account(uint16(a.int()))
			all := a.flag("all")
			var port int
			if !all {
				port = a.int()
			}
			m, b := s.Cancel(acct, uint16(port), all)
			r.printf("canceled %d messages, %d bytes", m, b)
		},
		"map": func(_ *runner, s *scripted, a *args) {
			if port := uint16(a.int()); a.flag("clear") {
				s.ourMap.Clear(port)
			} else {
				s.ourMap.Set(port)
			}
			s.MapChanged()
		},
		"congested": func(r *runner, s *scripted, a *args) { r.printf("%v", s.Congested(uint16(a.int()))) },
		"watch":     func(_ *runner, s *scripted, a *args) { s.account(uint16(a.int())).Watch(1) },
		"close":     func(_ *runner, s *scripted, _ *args) { s.Close() },
	}
}

// send NAME SPORT DPORT BYTES [xN] [notify] [path=I]
func sendCommand(r *runner, s *scripted, a *args) {
	sport, dport, size := uint16(a.int()), uint16(a.int()), a.int()
	m := Message{Sport: sport, Dport: dport, Account: s.account(sport), Notify: a.flag("notify")}
	for range a.key("n", 1) {
		if !m.Account.Charge(size) {
			r.printf("send buffer full")
			return
		}
		s.tokens++
		m.Token = s.tokens
		if size > InlineMax {
			m.Body = s.cfg.Pool.Get(size)
		} else {
			m.Payload = bytes.Repeat([]byte{byte('a' + s.tokens%26)}, size)
		}
		i := a.key("path", s.PathFor(sport))
		ready, err := s.Enqueue(r.now, i, &m)
		if err != nil {
			m.Account.Refund(size, 1)
			if m.Body != nil {
				m.Body.Release()
			}
			r.printf("%v", err)
			return
		}
		r.printf("%d on path %d, ready=%v", m.Token, i, ready)
	}
}

// fill NAME PATH [hex]
func fillCommand(r *runner, s *scripted, a *args) {
	i := a.int()
	dump := a.flag("hex")
	p := &s.paths[i]
	skip := 0
	if len(p.control) > 0 {
		skip = len(p.control) - p.controlOff
	} else if p.nextOff > 0 {
		skip = p.q.at(p.q.next).size() - p.nextOff
	}
	if !s.Fill(i, &s.batch[i]) {
		r.printf("nothing to write")
		return
	}
	b := octets(&s.batch[i])
	r.printf("%d bytes", len(b))
	r.frames(b, skip, dump)
}

// wrote NAME PATH N|all
func wroteCommand(r *runner, s *scripted, a *args) {
	i := a.int()
	n := s.batch[i].Bytes
	if !a.flag("all") {
		n = a.int()
	}
	r.printf("more=%v", s.Wrote(i, take(&s.batch[i], n, 0)))
}

// write NAME PATH: fill and wrote until there is no more.
func writeCommand(r *runner, s *scripted, a *args) {
	i := a.int()
	more := true
	for more && s.Fill(i, &s.batch[i]) {
		r.frames(octets(&s.batch[i]), 0, false)
		more = s.Wrote(i, all(&s.batch[i]))
	}
}

// recv NAME PATH map|probe|pong|data|ping|header ...
func recvCommand(r *runner, s *scripted, a *args) {
	i, kind := a.int(), a.word()
	h := wire.Header{Sequence: uint64(a.key("seq", 0)), Sport: uint16(a.key("sport", 0)), Dport: uint16(a.key("dport", 0)), Flags: uint8(a.key("flags", 0))}
	var payload []byte
	hs := wire.Handshake{HasPaths: a.named["paths"] != "", Paths: uint16(a.key("paths", 0)), Generation: uint32(a.key("gen", 0)), SourceIndex: a.flag("index")}
	switch kind {
	case "map":
		var m wire.CongestionMap
		for len(a.words) > 0 {
			m.Set(uint16(a.int()))
		}
		h.Flags = wire.FlagCongestion
		payload = m[:a.key("bytes", wire.CongestionMapSize)]
	case "probe":
		h.Sport = wire.PortProbe
		hs.Put(&h.Extensions)
	case "pong":
		h.Dport = wire.PortProbe
		hs.Put(&h.Extensions)
	case "ping", "data", "header":
		payload = make([]byte, a.key("bytes", 0))
	default:
		r.printf("what is %q", kind)
	}
	h.Length = uint32(len(payload))
	s.Proved(r.now, i)
	s.Heard(r.now, i)
	switch {
	case !h.IsCongestion() && !s.in[i].Accept(&h):
		r.printf("dropped: old")
	case s.IsControl(&h):
		s.HandleControl(r.now, i, &h, payload)
		if g, ok := s.Stated(i); ok {
			s.in[i].State(g)
		}
	default:
		s.in[i].Took(1)
		r.printf("delivered to port %d", h.Dport)
	}
}

func stateCommand(r *runner, s *scripted, _ *args) {
	d := "never"
	if at := s.Deadline(); !at.IsZero() {
		d = at.Sub(r.now).String()
	}
	r.printf("paths %d, queued %d, deadline %s", s.Paths(), s.Queued(), d)
	for _, p := range s.PathInfos() {
		if p.Index > 0 && p.State == Down.String() && p.Resets == 0 && p.Unsent == 0 {
			continue // never used
		}
		r.printf("  path %d %s link %d, next %d, unsent %d, unacked %d, written %d, acked %d, resets %d",
			p.Index, p.State, s.Link(p.Index), p.NextTX, p.Unsent, p.Unacked, p.Written, p.Acked, p.Resets)
	}
	if c := s.Counters(); c.DroppedFlush+c.LinksRefused+c.PongsDropped+c.CongSendError+c.Generations > 0 {
		r.printf("  dropped %d, refused %d, pongs dropped %d, pongs suppressed %d, generations %d",
			c.DroppedFlush, c.LinksRefused, c.PongsDropped, c.CongSendError, c.Generations)
	}
}

func messagesCommand(r *runner, s *scripted, _ *args) {
	for _, unacked := range []bool{true, false} {
		for _, m := range s.Messages(unacked, 100) {
			r.printf("  path %d %d, %d>%d, %d bytes, flags %x, unacked=%v", m.Path, m.Sequence, m.Sport, m.Dport, m.Length, m.Flags, unacked)
		}
	}
}

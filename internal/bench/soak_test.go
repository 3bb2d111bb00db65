//go:build !live

package bench

import (
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"

	"github.com/rds-go/rds/internal/rdstest"
	"github.com/rds-go/rds/rds"
)

func TestSoakMessageIsChecked(t *testing.T) {
	m := soakMessage{Kind: kindAsk, From: 1, To: 2, FromLife: 3, ToLife: 4, Number: 5, Exchange: 6 << laneShift, Turn: 7, Off: 8, N: 9, Epoch: 10}
	b := make([]byte, soakHeader+21)
	rdstest.Must(t, m.fill(b))
	var got soakMessage
	if err := got.parse(b, kindAsk); err != nil || got != m {
		t.Errorf("%+v, %v", got, err)
	}
	for i := range b {
		b[i] ^= 0x10
		if err := got.parse(b, kindAsk); err == nil && got == m {
			t.Errorf("byte %d is not looked at", i)
		}
		b[i] ^= 0x10
	}
	for i := soakHeader; i < len(b); i++ {
		b[i]++
		if got.parse(b, kindAsk) == nil {
			t.Errorf("byte %d is not checked", i)
		}
		b[i]--
	}
	for _, short := range [][]byte{nil, b[:soakHeader-1], b[:len(b)-1]} {
		if got.parse(short, kindAsk) == nil {
			t.Errorf("%d bytes are taken", len(short))
		}
	}
	if got.parse(b, kindAnswer) == nil {
		t.Error("a request is taken for a reply")
	}
}

// What the journals may say, and what they may not.
func TestSoakCheck(t *testing.T) {
	const clientLife, life = 7, 9
	lost := func(reason, number, to uint64) func(c, _ *journal) {
		return func(c, _ *journal) { _, _ = c.add(recordLost, reason, 0, clientLife, number, to) }
	}
	gap := func(from, to, in uint64) func(_, s *journal) {
		return func(_, s *journal) { _, _ = s.add(recordGap, 0, clientLife, from, to, in) }
	}
	adds := func(begun, done, top, refused uint64) func(c, _ *journal) {
		return func(c, _ *journal) { _, _ = c.add(recordAdds, 0, life, begun, done, top, refused) }
	}
	word := func(value, ended uint64) func(_, s *journal) {
		return func(_, s *journal) { _, _ = s.add(recordLife, life, value, ended) }
	}
	outstanding := func(c, _ *journal) {
		for i, v := range []uint64{1, 5, clientLife} {
			c.lane(0).set(i, v)
		}
	}
	type steps []func(c, s *journal)
	for _, c := range []struct {
		name  string
		do    steps
		exact bool
		want  string
	}{
		{"nothing", nil, true, ""},
		{"a gap without a reason", steps{gap(5, 6, life)}, true, "is lost"},
		{"a message dropped", steps{gap(5, 6, life), lost(lostDropped, 5, life)}, true, ""},
		{"another message dropped", steps{gap(5, 6, life), lost(lostDropped, 6, life)}, true, "is lost"},
		{"two of which one was dropped", steps{gap(5, 7, life), lost(lostDropped, 5, life)}, true, "message 6"},
		{"a message refused", steps{gap(5, 6, life), lost(lostRefused, 5, life)}, true, ""},
		{"success, to a life that has ended", steps{gap(5, 6, life), lost(lostVoid, 5, life-1)}, true, ""},
		{"success, to the life that lacks it", steps{gap(5, 6, life), lost(lostVoid, 5, life)}, true, "with success"},
		{"under way when its sender was killed", steps{gap(5, 6, life), outstanding}, true, ""},
		{"another one was", steps{gap(4, 5, life), outstanding}, true, "is lost"},
		{"additions", steps{adds(5, 4, 5, 0), word(5, 0)}, true, ""},
		{"all of them", steps{adds(5, 4, 5, 0), word(4, 0)}, true, ""},
		{"one is lost", steps{adds(5, 4, 4, 0), word(3, 0)}, true, "should be 4 to 5"},
		{"one is lost, the word as it was once", steps{adds(5, 4, 4, 0), word(3, 0)}, false, ""},
		{"one is lost, the word as it ended", steps{adds(5, 4, 4, 0), word(3, 1)}, false, "should be 4 to 5"},
		{"one is doubled", steps{adds(5, 4, 5, 0), word(6, 0)}, false, "is 6"},
		{"one is doubled, and was seen", steps{adds(5, 4, 6, 0), word(5, 0)}, false, "is 6"},
		{"one is done though it was refused", steps{adds(5, 4, 5, 1), word(5, 0)}, true, "should be 4 to 4"},
		{"two found the same word", steps{adds(5, 4, 3, 0), word(4, 0)}, true, "the largest word found"},
		{"a life that was not", steps{adds(1, 0, 0, 0)}, false, "has not had a life"},
	} {
		client, server := newTestJournal(), newTestJournal()
		for _, do := range c.do {
			do(client, server)
		}
		k := newSoakCheck()
		err := k.client(0, 1, client)
		if err == nil {
			err = k.server(0, &journal{words: server.told()}, c.exact) // what a journal tells is all that counts
		}
		if err == nil {
			err = k.additions()
		}
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}

// Memory that is written after its region has ended is found.
func TestSoakFindsWritesAfterFree(t *testing.T) {
	s := newSoakServer(&soakProcess{spec: &soakSpec{Work: soakWork()}}, nil, 0, newTestJournal())
	const size = 200
	l := &placedLane{filled: true, released: &rds.Memory{B: make([]byte, size)}}
	fillPattern(l.released.B, uint64(kindReleased))
	rdstest.Must(t, s.untouched(l))
	for _, i := range []int{0, size / 2, size - 1} {
		l.released.B[i] ^= 1
		if err := s.untouched(l); err == nil {
			t.Errorf("byte %d is not looked at", i)
		}
		l.released.B[i] ^= 1
	}
}

// idleSoak is a client with a region at its one peer, in life 4 on host 2.
func idleSoak() *soakClient {
	spec := &soakSpec{Work: soakWork(), Process: 1, Peers: []soakPeer{{Addr: netip.MustParseAddrPort("127.0.0.2:9"), Life: 4, Host: 2}}}
	c := newSoakClient(&soakProcess{spec: spec}, nil, 0, newTestJournal())
	c.rng = rand.New(rand.NewPCG(1, 1))
	c.answers, c.late, c.adds = map[flowKey]uint64{}, map[uint64]bool{}, map[flowKey]record{}
	size := c.w.soakPlace()
	l := &c.lanes[0]
	l.local = &rds.Memory{B: make([]byte, size)}
	l.at[0] = soakRegion{life: 4, known: make([]byte, size)}
	l.life, l.in, l.off, l.n = 4, 4, 64, 100
	return c
}

// Whatever an exchange brings that it should not is an error, at once or at the end.
func TestSoakFindsWhatIsWrong(t *testing.T) {
	for _, c := range []struct {
		name   string
		turn   turn
		faults bool
		spoil  func(l *soakLane)
		want   string // text of the error; empty: none
	}{
		{"a good read", turnRead, false, func(*soakLane) {}, ""},
		{"another byte", turnRead, false, func(l *soakLane) { l.local.B[l.n-1] ^= 1 }, "not what is there"},
		{"a good addition", turnAdd, false, func(*soakLane) {}, ""},
		{"another word", turnAdd, false, func(l *soakLane) { l.result++ }, "the word was"},
		{"another word to swap", turnSwap, false, func(l *soakLane) { l.result++ }, "the word was"},
		{"a refused key", turnBad, false, func(l *soakLane) { l.status = rds.StatusRemoteError }, ""},
		{"a key taken that is none", turnBad, false, func(*soakLane) {}, "had to be refused"},
		{"a good key refused", turnWrite, false, func(l *soakLane) { l.status = rds.StatusRemoteError }, "refused"},
		{"a loss without faults", turnWrite, false, func(l *soakLane) { l.status = rds.StatusDropped }, "dropped"},
		{"a loss with faults", turnWrite, true, func(l *soakLane) { l.status = rds.StatusDropped }, ""},
		{"a plain message lost", turnPlain, true, func(l *soakLane) { l.status = rds.StatusDropped }, "dropped"},
	} {
		s := idleSoak()
		s.w.Faults = c.faults
		l := &s.lanes[0]
		l.turn = c.turn
		known := l.at[0].known
		binary.NativeEndian.PutUint64(known[64:], 5)
		if c.turn != turnPlain {
			s.operation(l, &soakMessage{}, &rds.Outgoing{})
		}
		switch c.turn { // what the peer does
		case turnRead:
			copy(l.local.B, known[l.off:][:l.n])
		case turnAdd, turnSwap:
			l.result = 5
		}
		l.fated, l.reply = true, true
		c.spoil(l)
		err := s.end(l)
		if err == nil && len(s.excuses) > 0 {
			err = s.excuses[0].what
		}
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
		lost := l.status == rds.StatusDropped && c.turn == turnWrite
		if l.at[0].unsure != (lost || c.name == "a good key refused") {
			t.Errorf("%s: the place is unsure: %t", c.name, l.at[0].unsure)
		}
		if s.choose(l); lost && (l.turn != turnHello || l.silent) { // what was written may be placed later, so nothing is written there any more
			t.Errorf("%s: kind %d follows", c.name, l.turn)
		}
	}
}

// Which ends of an exchange are right, at once or when the peer's life, or its host's, is
// known to be over.
func TestSoakExcuses(t *testing.T) {
	process, host := soakPeer{Life: 5, Host: 2}, soakPeer{Life: 5, Host: 3}
	for _, c := range []struct {
		name   string
		turn   turn
		status rds.Status
		news   *soakPeer
		ok     bool
	}{
		{"dropped with an operation", turnWrite, rds.StatusDropped, nil, true},
		{"dropped without", turnPlain, rds.StatusDropped, nil, false},
		{"dropped without, and the process ended", turnPlain, rds.StatusDropped, &process, true},
		{"dropped without, and the host ended", turnPlain, rds.StatusDropped, &host, true},
		{"refused", turnRead, rds.StatusRemoteError, nil, false},
		{"refused, and the life ended", turnRead, rds.StatusRemoteError, &process, true},
		{"refused as it has to be", turnBad, rds.StatusRemoteError, nil, true},
		{"no such port, and the process goes on", turnPlain, rds.StatusRefused, nil, false},
		{"no such port, and the process ended", turnPlain, rds.StatusRefused, &process, true},
		{"canceled", turnRead, rds.StatusCanceled, &host, false},
	} {
		for _, first := range []bool{false, true} { // the news come before or after
			s := idleSoak()
			l := &s.lanes[0]
			l.turn, l.status, l.fated = c.turn, c.status, true
			if c.news != nil && first {
				s.learn(*c.news)
			}
			if err := s.end(l); err != nil {
				t.Errorf("%s: %v", c.name, err)
			}
			if c.news != nil && !first {
				s.learn(*c.news)
			}
			if ok := len(s.excuses) == 0; ok != c.ok {
				t.Errorf("%s: excused %t", c.name, ok)
			}
		}
	}
	s := idleSoak()
	l := &s.lanes[0]
	l.turn, l.fated = turnBad, true
	if s.end(l) == nil {
		t.Error("a success that had to be refused is taken")
	}
	for _, turn := range []turn{turnRead, turnAdd} {
		s = idleSoak()
		l = &s.lanes[0]
		l.turn, l.reply, l.fated, l.result = turn, true, true, 1
		l.local.B[0] = 1
		if s.end(l) == nil {
			t.Errorf("another result of kind %d is taken", turn)
		}
	}
}

// Replies are missing, which may be when their sender's daemon has ended, and come in order.
func TestSoakGapsInReplies(t *testing.T) {
	process, host := soakPeer{Life: 5, Host: 2}, soakPeer{Life: 5, Host: 3}
	for _, c := range []struct {
		name     string
		attached bool
		numbers  []uint64
		news     *soakPeer
		ok       bool
	}{
		{"all come", true, []uint64{0, 1, 2}, nil, true},
		{"a gap", true, []uint64{0, 2}, nil, false},
		{"a gap, and the process ended", true, []uint64{0, 2}, &process, false},
		{"a gap, and the daemon ended", true, []uint64{0, 2}, &host, true},
		{"a gap of a node's", false, []uint64{0, 2}, &host, false},
		{"one comes again", true, []uint64{0, 1, 1}, &host, false},
	} {
		for _, first := range []bool{false, true} { // the news come before or after
			s := idleSoak()
			s.p.attached = c.attached
			if c.news != nil && first {
				s.learn(*c.news)
			}
			var err error
			for i, n := range c.numbers {
				exchange := uint64(100 + i)
				s.late[exchange] = true
				m := soakMessage{Kind: kindAnswer, ToLife: s.life, FromLife: 4, Number: n, Exchange: exchange}
				data := make([]byte, soakHeader)
				err = errors.Join(err, m.fill(data), s.take(&rds.Message{From: s.peers[0].Addr, Data: data}))
			}
			if c.news != nil && !first {
				s.learn(*c.news)
			}
			if ok := err == nil && len(s.excuses) == 0; ok != c.ok {
				t.Errorf("%s: taken %t: %v", c.name, ok, err)
			}
		}
	}
}

// An exchange ends with its fate and its reply, or without the latter when the peer's
// life is over, and not before.
func TestSoakAwaitsReplies(t *testing.T) {
	s := idleSoak()
	l := &s.lanes[0]
	rdstest.Must(t, s.take(&rds.Message{Kind: rds.KindStatus, Token: l.number}))
	if l.done() {
		t.Error("no reply is awaited")
	}
	if err := s.take(&rds.Message{Kind: rds.KindStatus, Token: l.number}); err == nil {
		t.Error("a second fate is taken")
	}
	s.learn(soakPeer{Life: 4, Host: 2}) // nothing new
	if l.done() {
		t.Error("no reply is awaited of a life that goes on")
	}
	s.learn(soakPeer{Life: 5, Host: 2})
	if !l.done() || l.at[0].life != 0 {
		t.Error("a life that is over is expected to answer")
	}
	reply := func(number, exchange uint64) error {
		m := soakMessage{Kind: kindAnswer, FromLife: 4, ToLife: s.life, Number: number, Exchange: exchange}
		b := make([]byte, s.w.Reply)
		rdstest.Must(t, m.fill(b))
		return s.take(&rds.Message{From: s.peers[0].Addr, Data: b})
	}
	if reply(1, l.number) == nil {
		t.Error("a reply is missing and nobody notices")
	}
	rdstest.Must(t, s.end(l))
	l.number++
	if err := reply(0, l.number-1); err != nil || s.acct.Late != 1 {
		t.Errorf("a late reply: %v", err)
	}
	if reply(1, l.number-1) == nil {
		t.Error("a second late reply is taken")
	}
}

package xctl

import (
	"bytes"
	"slices"
	"testing"
)

// flush writes all there is in messages of at most limit octets.
func flush(t *testing.T, b *Backlog, limit int) (messages int, list []Record) {
	t.Helper()
	for !b.Empty() {
		m := b.AppendTo([]byte("header"), limit)[len("header"):]
		if len(m) == 0 || len(m) > min(limit, MaxMessage) {
			t.Fatalf("a message of %d octets", len(m))
		}
		l, err := collect(m)
		must(t, err)
		messages++
		list = append(list, l...)
	}
	if m := b.AppendTo(nil, limit); len(m) != 0 {
		t.Fatalf("an empty backlog says %x", m)
	}
	return messages, list
}

func TestLatestRecordsReplaceOlder(t *testing.T) {
	t.Parallel()
	var b Backlog
	for i := range uint32(100) {
		b.Credit(Credit{1, i, i + 16})
		b.Credit(Credit{2, 2 * i, 2*i + 16})
		b.WriteAck(WriteAck{i})
		b.Ping(Ping{uint64(i)})
		b.Pong(Pong{uint64(i) + 7})
		b.SRQ(SRQ{3, SRQUp})
		b.SRQ(SRQ{3, SRQGone})
		b.Home(Home{SRQN(i%2 + 1), 8})
		b.Home(Home{4, 9})
	}
	_, got := flush(t, &b, MaxMessage)
	want := []Record{Pong{106}, Ping{99}, Home{2, 8}, Home{4, 9}, SRQ{3, SRQGone}, WriteAck{99}, Credit{1, 99, 115}, Credit{2, 198, 214}}
	if !slices.Equal(got, want) {
		t.Errorf("%v", got)
	}
}

// However many queues there is something to say of, each is spoken of once.
func TestOneCreditOfEachQueue(t *testing.T) {
	t.Parallel()
	for queues := SRQN(1); queues < 4*searchMost; queues++ {
		var b Backlog
		for round := range uint32(2) {
			for n := SRQN(1); n <= queues; n++ {
				b.Credit(Credit{n, round, round})
			}
		}
		_, list := flush(t, &b, MaxMessage)
		for i, r := range list {
			if r != (Credit{SRQN(i + 1), 1, 1}) {
				t.Fatalf("%d queues: record %d is %v", queues, i, r)
			}
		}
		if len(list) != int(queues) {
			t.Fatalf("%d queues: %d records", queues, len(list))
		}
	}
}

// Acknowledgements are cumulative: one that leaves before an error that it goes
// beyond would tell the sender that a refused message was delivered. So none does,
// however the messages are cut. Those of Writes leave before those of messages, which may build
// on the Writes.
func TestErrorsLeaveBeforeAcknowledgements(t *testing.T) {
	t.Parallel()
	for limit := 24; limit <= MaxMessage; limit += 4 {
		var b Backlog
		for i := range uint32(60) {
			b.Credit(Credit{SRQN(i%7 + 1), i, i})
			b.WriteAck(WriteAck{i})
			b.NAK(NAK{SRQ: SRQN(i%7 + 1), MSN: i, Code: NAKUnknown})
			b.WriteError(WriteError{Ordinal: i})
			b.Refused(Refused{uint64(2 * i), 1, RefusedPort})
		}
		_, got := flush(t, &b, limit)
		rank := func(r Record) int {
			return slices.Index([]Type{TypeWriteError, TypeNAK, TypeRefused, TypeWriteAck, TypeCredit}, typeOf(r))
		}
		if !slices.IsSortedFunc(got, func(a, b Record) int { return rank(a) - rank(b) }) || len(got) != 3*60+7+1 {
			t.Fatalf("limit %d: %v", limit, got)
		}
		for i := range uint32(60) {
			if got[i].(WriteError).Ordinal != i || got[60+i].(NAK).MSN != i || got[120+i].(Refused).First != uint64(2*i) {
				t.Fatalf("limit %d: not in the order of the calls", limit)
			}
		}
	}
}

func TestMessagesAreFilled(t *testing.T) {
	t.Parallel()
	var b Backlog
	for i := range uint32(250) {
		b.NAK(NAK{SRQ: 1, MSN: i, Code: NAKUnknown})
	}
	if n, list := flush(t, &b, 4096); n != 10 || len(list) != 250 { // 25 of 20 octets
		t.Errorf("%d messages, %d records", n, len(list))
	}
}

// A record goes into the message that has just enough room for it.
func TestRecordsFitExactly(t *testing.T) {
	t.Parallel()
	b := everything()
	message := b.AppendTo(nil, MaxMessage)
	all := len(message)
	for n := range all + 1 {
		b := everything()
		part := b.AppendTo(nil, n)
		if !bytes.HasPrefix(message, part) {
			t.Errorf("%d octets: a record overtakes one that does not fit: %x", n, part)
		}
		list, err := collect(part)
		fits := 0
		for sum, i := 0, 0; i < len(list); i++ {
			sum += typeOf(list[i]).Len()
			fits = sum
		}
		next := all
		if len(list) < 9 {
			rest, _ := collect(b.AppendTo(nil, MaxMessage))
			next = fits + typeOf(rest[0]).Len()
		}
		if err != nil || fits > n || next <= n && len(list) < 9 {
			t.Errorf("%d octets: %d records, %d octets, %v", n, len(list), fits, err)
		}
	}
}

// The memory of a backlog that is never empty does not grow.
func TestBusyBacklogStaysSmall(t *testing.T) {
	t.Parallel()
	var b Backlog
	b.Credit(Credit{SRQ: 1})
	b.NAK(NAK{SRQ: 1})
	for i := range uint32(10_000) {
		b.Credit(Credit{SRQ: SRQN(i%100 + 2)})
		b.NAK(NAK{SRQ: 1, MSN: i})
		b.AppendTo(nil, 36)
	}
	if b.Empty() || cap(b.credits.list) > 256 || cap(b.naks.All()) > 256 {
		t.Errorf("empty %v, room for %d and %d", b.Empty(), cap(b.credits.list), cap(b.naks.All()))
	}
}

// A program that names more kinds of messages than a peer reads of is told, too.
func TestBacklogIsBounded(t *testing.T) {
	t.Parallel()
	var b Backlog
	for i := range uint32(Limit) {
		if !b.NAK(NAK{SRQ: 1, MSN: i}) || !b.WriteError(WriteError{}) || !b.Home(Home{1, i}) {
			t.Fatalf("refused after %d", i)
		}
	}
	if b.NAK(NAK{SRQ: 1}) || b.WriteError(WriteError{}) || b.Home(Home{1, Limit}) {
		t.Error("no limit")
	}
	if _, list := flush(t, &b, MaxMessage); len(list) != 3*Limit {
		t.Errorf("%d records", len(list))
	}
	if !b.NAK(NAK{SRQ: 1}) || !b.Home(Home{1, 0}) {
		t.Error("still full")
	}
}

// Records that come while others leave keep their order, and the latest CREDIT
// of a queue is found wherever it has moved to.
func TestBacklogWhileItDrains(t *testing.T) {
	t.Parallel()
	var b Backlog
	next, seen := uint32(0), uint32(0)
	latest := map[SRQN]uint32{}
	sent := map[SRQN]uint32{}
	for round := range uint32(500) {
		for range round % 5 {
			b.NAK(NAK{SRQ: 1, MSN: next, Code: NAKUnknown})
			next++
		}
		for i := range round % 9 {
			n := SRQN((round*i)%31 + 1)
			latest[n] = round
			b.Credit(Credit{n, round, round})
		}
		list, err := collect(b.AppendTo(nil, 60))
		must(t, err)
		for _, r := range list {
			switch r := r.(type) {
			case NAK:
				if r.MSN != seen {
					t.Fatalf("NAK %d, not %d", r.MSN, seen)
				}
				seen++
			case Credit:
				sent[r.SRQ] = r.Limit
			}
		}
	}
	_, list := flush(t, &b, MaxMessage)
	for _, r := range list {
		if c, ok := r.(Credit); ok {
			sent[c.SRQ] = c.Limit
		}
	}
	for n, limit := range latest {
		if sent[n] != limit {
			t.Errorf("queue %d has heard %d, not %d", n, sent[n], limit)
		}
	}
	if len(b.credits.at) != 0 {
		t.Errorf("%d queues left", len(b.credits.at))
	}
}

// What is refused in a row is one record; nothing else is put together, and nothing is
// lost of what has left already.
func TestRefusedInARowIsOneRecord(t *testing.T) {
	t.Parallel()
	var b Backlog
	for _, r := range []Refused{{10, 1, RefusedPort}, {11, 1, RefusedPort}, {12, 3, RefusedPort}, {16, 1, RefusedPort}, {17, 1, RefusedUnknown}, {18, 1<<32 - 1, RefusedUnknown}} {
		if !b.Refused(r) {
			t.Fatal(r)
		}
	}
	want := []Record{Refused{10, 5, RefusedPort}, Refused{16, 1, RefusedPort}, Refused{17, 1, RefusedUnknown}, Refused{18, 1<<32 - 1, RefusedUnknown}}
	if _, got := flush(t, &b, MaxMessage); !slices.Equal(got, want) {
		t.Errorf("%v", got)
	}
	b.Refused(Refused{11, 1, RefusedPort})
	if _, got := flush(t, &b, MaxMessage); !slices.Equal(got, []Record{Refused{11, 1, RefusedPort}}) {
		t.Errorf("%v", got)
	}
	for i := range uint64(RefusedLimit) {
		if !b.Refused(Refused{2 * i, 1, RefusedPort}) {
			t.Fatalf("refused after %d", i)
		}
	}
	if b.Refused(Refused{0, 1, RefusedPort}) || !b.Refused(Refused{2*RefusedLimit - 1, 1, RefusedPort}) {
		t.Error("no limit, or one for what takes no room")
	}
}

// A CREDIT that may wait for company does, until there is something to say that may not.
func TestCreditsThatMayWait(t *testing.T) {
	t.Parallel()
	later, now := Credit{SRQ: 1, Delivered: 1, Limit: 9}, Credit{SRQ: 2, Delivered: 1, Limit: 9}
	for name, tt := range map[string]struct {
		add  func(b *Backlog)
		wait bool
	}{
		"nothing":                   {func(*Backlog) {}, true},
		"later":                     {func(b *Backlog) { b.CreditLater(later) }, true},
		"later twice":               {func(b *Backlog) { b.CreditLater(later); b.CreditLater(now) }, true},
		"now":                       {func(b *Backlog) { b.Credit(now) }, false},
		"later, then now":           {func(b *Backlog) { b.CreditLater(later); b.Credit(now) }, false},
		"now, then later":           {func(b *Backlog) { b.Credit(now); b.CreditLater(later) }, false},
		"later beside a PING":       {func(b *Backlog) { b.CreditLater(later); b.Ping(Ping{}) }, false},
		"later beside a WRACK":      {func(b *Backlog) { b.WriteAck(WriteAck{}); b.CreditLater(later) }, false},
		"later, after all has left": {func(b *Backlog) { b.Credit(now); b.AppendTo(nil, MaxMessage); b.CreditLater(later) }, true},
		"now, after later has left": {func(b *Backlog) { b.CreditLater(later); b.AppendTo(nil, MaxMessage); b.Credit(now) }, false},
	} {
		var b Backlog
		if tt.add(&b); b.MayWait() != tt.wait {
			t.Errorf("%s: waits %v, want %v", name, !tt.wait, tt.wait)
		}
	}
}

package xctl

import (
	"testing"

	"github.com/rds-go/rds/transport/iwarp/rdmap"
)

func TestMessagesDoNotAllocate(t *testing.T) {
	in := NewInbound(InboundConfig{RNR: true})
	r := in.Adopt(3, head(3, 1, 0, true))
	s := NewSender(3, DefaultCredit, 0)
	var w WriteSender
	var wr WriteReceiver
	var b Backlog
	buf := make([]byte, 0, MaxMessage)
	round := func() {
		msn := s.Begin(1)
		s.End()
		h := head(3, msn, 0, true)
		if in.Find(3).cfg == nil {
			t.Fatal("no entry")
		}
		if a, err := r.Arrive(h); a != ArrivalFirst || err != nil {
			t.Fatal(a, err)
		}
		r.Take()
		r.Advance(h, 10)
		r.Grant(16)
		w.Begin(7)
		wr.Done(true)
		a, _ := wr.Ack()
		b.WriteAck(a)
		b.NAK(NAK{SRQ: 9, MSN: 1, Code: NAKUnknown})
		b.Ping(Ping{})
		b.Pong(Pong{})
		b.SRQ(SRQ{3, SRQUp})
		b.Home(Home{3, 4})
		b.Credit(Credit{9, 1, 1})
		if c, due := r.Credit(epoch.Add(CreditDelay)); due {
			b.Credit(c)
		}
		it := Iterate(b.AppendTo(buf, MaxMessage))
		for it.Next() {
			switch it.Type() {
			case TypeCredit:
				if c := it.Credit(); c.SRQ == 3 && s.Credit(c) != nil {
					t.Fatal(c)
				}
			case TypeWriteAck:
				if w.Ack(it.WriteAck()) != nil {
					t.Fatal("WRACK")
				}
			case TypeNAK:
				_ = it.NAK()
			}
		}
		if it.Err() != nil {
			t.Fatal(it.Err())
		}
		for _, ok := s.Pop(); ok; _, ok = s.Pop() {
		}
		for _, ok := w.Pop(); ok; _, ok = w.Pop() {
		}
		bad := Iterate(buf[:3])
		if bad.Next() || bad.Err() != rdmap.CauseOpcode {
			t.Fatal("three octets are a record")
		}
	}
	for range 100 {
		round() // rings and lists get their size
	}
	if n := testing.AllocsPerRun(1000, round); n != 0 {
		t.Errorf("%v allocations per message", n)
	}
}

func TestStopsAndReplaysDoNotAllocate(t *testing.T) {
	in := NewInbound(InboundConfig{RNR: true})
	in.Adopt(3, head(3, 1, 0, true))
	r := in.Find(3)
	s := NewSender(3, DefaultCredit, 0)
	s.Begin(1)
	s.End()
	msn := uint32(1)
	if n := testing.AllocsPerRun(1000, func() {
		h := head(3, msn, 0, true)
		if a, err := r.Arrive(h); a != ArrivalFirst || err != nil {
			t.Fatal(a, err)
		}
		nak, err := r.NotReady()
		r.Advance(h, 10)
		if err != nil || s.NAK(nak, epoch) != nil {
			t.Fatal(err)
		}
		if err := in.Resume(s.Resume()); err != nil {
			t.Fatal(err)
		}
		_, msn = s.Replay()
		s.End()
	}); n != 0 {
		t.Errorf("%v allocations per stop", n)
	}
}

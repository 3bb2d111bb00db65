package xctl

import "testing"

// BenchmarkMessage is what one message costs both ends beside its octets.
func BenchmarkMessage(b *testing.B) {
	in := NewInbound(InboundConfig{RNR: true, Credit: 255})
	s := NewSender(3, 255, 0)
	in.Adopt(3, head(3, 1, 0, true))
	h := head(3, 1, 0, true)
	b.ReportAllocs()
	for b.Loop() {
		h.MSN = s.Begin(1)
		s.End()
		r := in.Find(3)
		if a, err := r.Arrive(h); a != ArrivalFirst || err != nil {
			b.Fatal(a, err)
		}
		r.Take()
		r.Advance(h, 64)
		r.Grant(255)
		if c, due := r.Credit(epoch); due {
			if err := s.Credit(c); err != nil {
				b.Fatal(err)
			}
			for _, ok := s.Pop(); ok; _, ok = s.Pop() {
			}
		}
	}
}

// BenchmarkControlMessage writes and reads a full message of CREDITs.
func BenchmarkControlMessage(b *testing.B) {
	var l Backlog
	buf := make([]byte, 0, MaxMessage)
	b.ReportAllocs()
	for b.Loop() {
		for n := SRQN(1); n <= 32; n++ {
			l.Credit(Credit{n, 1, 2})
		}
		it := Iterate(l.AppendTo(buf, MaxMessage))
		for it.Next() {
			if it.Credit().Limit != 2 {
				b.Fatal("another CREDIT")
			}
		}
	}
}

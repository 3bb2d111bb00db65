package xctl

import (
	"bytes"
	"testing"

	"github.com/rds-go/rds/internal/hexfile"
	"github.com/rds-go/rds/transport/iwarp/ddp"
	"github.com/rds-go/rds/transport/iwarp/rdmap"
)

// FuzzBlock feeds a Request's private data to a responder and its answer to the
// initiator. Both come to the same result.
func FuzzBlock(f *testing.F) {
	f.Add(hexfile.Read(f, "offer"))
	f.Add(hexfile.Read(f, "answer"))
	f.Add([]byte("iXRC"))
	f.Fuzz(func(t *testing.T, private []byte) {
		own := aBlock()
		ans, upper, err := own.Negotiate(private)
		if err != nil || !bytes.HasSuffix(private, upper) || !ans.Extended && len(upper) != len(private) {
			t.Fatalf("%x: %x, %v", private, upper, err)
		}
		reply, err := ans.AppendTo(nil, []byte("upper"))
		if err != nil {
			t.Fatal(err)
		}
		if !ans.Extended {
			return
		}
		peer := ans.Peer
		if again := peer.tolerant(); again != peer {
			t.Fatalf("%+v becomes %+v", peer, again)
		}
		a, upper, err := peer.Settle(reply)
		if err != nil || string(upper) != "upper" || a.Caps.mirrored() != ans.Caps || !own.Caps.Has(ans.Caps) || !peer.Caps.Has(a.Caps) {
			t.Fatalf("%x: the initiator has %+v, the responder %+v, %v", private, a, ans.Agreed, err)
		}
		var b Block
		if _, n, ok := b.decode(peer.AppendTo(nil)); !ok || n != BlockLen || b != peer {
			t.Fatalf("%+v becomes %+v", peer, b)
		}
		_, _, _ = own.Settle(private)
	})
}

// FuzzRecords decodes a message, encodes what it found, and decodes that.
func FuzzRecords(f *testing.F) {
	f.Add(hexfile.Read(f, "control")[ddp.UntaggedLen:])
	f.Add([]byte{0, 0, 0, 4, 200, 1, 0, 8, 1, 2, 3, 4})
	f.Add([]byte{7, 0, 0, 2})
	f.Fuzz(func(t *testing.T, message []byte) {
		list, err := collect(message)
		if err != nil && err != rdmap.CauseOpcode {
			t.Fatal(err)
		}
		var wire []byte
		for _, r := range list {
			before := len(wire)
			if wire = AppendTo(wire, r); len(wire)-before != typeOf(r).Len() {
				t.Fatalf("%v is %d octets", typeOf(r), len(wire)-before)
			}
		}
		again, err := collect(wire)
		if err != nil || len(again) != len(list) {
			t.Fatalf("%x: %v, then %v, %v", message, list, again, err)
		}
		for i := range list {
			if list[i] != again[i] {
				t.Fatalf("%+v becomes %+v", list[i], again[i])
			}
		}
	})
}

// FuzzSender gives a Sender records that no Receiver would write. It keeps every
// message until it has an outcome, in order, and never panics.
func FuzzSender(f *testing.F) {
	f.Add([]byte{0, 0, 0x41, 0, 0, 0x81, 2, 2, 0, 0xc2, 5})
	f.Add([]byte{0, 0, 0x82, 2, 0x91, 1, 0, 0, 0x41})
	f.Add([]byte{0, 0, 0, 0, 0, 0, 0x91, 1, 0, 0x91, 2, 0x41}) // some are taken back while the queue is stopped
	f.Fuzz(func(t *testing.T, script []byte) {
		s := NewSender(1, 4, 2)
		begun, done, last := uint64(0), uint64(0), -1
		for _, c := range script {
			n := uint32(c & 0xf)
			var err error
			switch c >> 6 {
			case 0:
				switch s.Next(epoch) {
				case StepNew:
					s.Begin(begun)
					begun++
				case StepReplay:
					s.Replay()
				case StepFinish:
					s.Cut()
					s.End()
				case StepResume:
					s.Resume()
				case StepWait, StepCredit:
					s.Drop(func(id uint64) bool {
						drop := id%16 == uint64(n)
						if drop {
							done++
						}
						return drop
					})
				}
			case 1:
				err = s.Credit(Credit{1, s.acked + n - 2, s.limit + n - 4})
			case 2:
				err = s.NAK(NAK{SRQ: 1, MSN: s.acked + n, Code: NAKNotReady, Backoff: uint16(c >> 4 & 1), Info: s.limit}, epoch)
			case 3:
				err = s.NAK(NAK{SRQ: 1, MSN: s.acked + n, Code: NAKCode(c >> 4 & 3)}, epoch)
			}
			if err != nil {
				break
			}
			for o, ok := s.Pop(); ok; o, ok = s.Pop() {
				if int(o.ID) <= last {
					t.Fatalf("outcome of %d behind that of %d", o.ID, last)
				}
				last = int(o.ID)
				done++
			}
		}
		for id, ok := s.Lost(); ok; id, ok = s.Lost() {
			if int(id) <= last {
				t.Fatalf("lost %d behind %d", id, last)
			}
			last = int(id)
			done++
		}
		if done != begun {
			t.Fatalf("%d of %d messages came back", done, begun)
		}
	})
}

// FuzzReceiver gives an Inbound headers that no Sender would write. Messages are
// delivered in the order of their numbers, and acknowledgements never go ahead.
func FuzzReceiver(f *testing.F) {
	f.Add([]byte{0, 0, 0, 0x81, 0x20, 0x40, 0xc0})
	f.Add([]byte{0x10, 0x12, 0x13, 2, 0x83, 0x84})
	f.Fuzz(func(t *testing.T, script []byte) {
		in := NewInbound(InboundConfig{RNR: true, MaxSRQ: 2})
		msn, mo := [4]uint32{1, 1, 1, 1}, [4]uint32{}
		for _, c := range script {
			n := SRQN(c>>4&3) + 1
			i := n - 1
			switch c >> 6 {
			case 0, 1:
				h := head(n, msn[i]+uint32(c>>2&1), mo[i], c&1 == 0)
				r := in.Find(n)
				if r == nil {
					if r = in.Adopt(n, h); r == nil {
						continue
					}
					msn[i] = h.MSN
				}
				a, err := r.Arrive(h)
				if err != nil {
					return
				}
				acked := r.acked
				if a == ArrivalFirst {
					switch c & 0xe {
					case 2:
						r.Refuse(NAKForbidden, 0)
					case 8:
						_, _ = r.NotReady()
					default:
						r.Take()
					}
				}
				r.Advance(h, 4)
				mo[i] += 4
				if h.Last {
					msn[i], mo[i] = msn[i]+1, 0
				}
				if after(r.acked, msn[i]-1) || after(acked, r.acked) {
					t.Fatalf("acknowledges %d after %d", r.acked, acked)
				}
				r.Grant(uint32(c & 0xf))
			case 2:
				_ = in.Resume(Resume{n, msn[i] + uint32(c>>3&1)})
			case 3:
				if r := in.Find(n); r != nil {
					in.Remove(n)
				}
			}
		}
		if in.Len() > 2 {
			t.Fatalf("%d entries", in.Len())
		}
	})
}

// FuzzTagged takes tagged offsets apart and puts them together again.
func FuzzTagged(f *testing.F) {
	f.Add(uint64(0))
	f.Add(uint64(1<<63 | 1<<40 | 1<<39 | 1))
	f.Add(^uint64(0))
	f.Fuzz(func(t *testing.T, offset uint64) {
		n, addr := SplitTagged(offset)
		if TaggedOffset(n, addr) != offset || addr >= MaxTagged || n > MaxSRQN+1 || uint64(n) != offset>>40 {
			t.Fatalf("%#x is queue %#x, address %#x", offset, n, addr)
		}
	})
}

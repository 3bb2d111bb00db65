package mpa

import (
	"bytes"
	"reflect"
	"testing"
)

// FuzzFrame takes Requests and Replies apart and puts them together again.
func FuzzFrame(f *testing.F) {
	for _, c := range frames {
		f.Add(unhex(f, c.hex), uint16(MaxPrivate))
	}
	f.Add(unhex(f, hexRequest+"ff ff ffff"), uint16(65535))
	f.Add([]byte(requestKey), uint16(0))
	f.Fuzz(func(t *testing.T, b []byte, limit uint16) {
		frame, need, err := DecodeFrame(b, int(limit))
		if err != nil || need > 0 {
			if need < 0 || frame.Private != nil {
				t.Fatalf("need %d, %d octets of private data", need, len(frame.Private))
			}
			return
		}
		if len(frame.Private) > MaxPrivate {
			return
		}
		again := frame.AppendTo(nil)
		if n := FrameLen + len(frame.Private); len(again) != n || !bytes.Equal(again[:16], b[:16]) || again[16] != b[16]&0xf0 || !bytes.Equal(again[17:], b[17:n]) {
			t.Fatalf("%x\nis made from\n%x", again, b)
		}
		if f2, need, err := DecodeFrame(again, MaxPrivate); err != nil || need != 0 || !reflect.DeepEqual(f2, frame) {
			t.Fatalf("%+v, need %d, %v\nfrom\n%+v", f2, need, err, frame)
		}
		if enhanced, prefix, ulp, err := frame.split(); enhanced && err == nil {
			if again := append(prefix.AppendTo(nil), ulp...); !bytes.Equal(again, frame.Private) {
				t.Fatalf("prefix and rest %x, want %x", again, frame.Private)
			}
		}
	})
}

// fuzzParams makes valid parameters of a few octets.
func fuzzParams(flags, reads uint8, private []byte) Params {
	return Params{
		Rev: 1 + flags&1, CRC: flags&2 != 0, Markers: flags&4 != 0, NoMarkers: flags&8 != 0, PeerToPeer: flags&16 != 0,
		RTR: RTR(flags >> 5), Prefer: RTR(flags >> 5 & 4),
		IRD: int(reads & 7), MaxIRD: int(reads&7) + int(reads>>3&3), ORD: int(reads >> 5),
		Private: private[:min(len(private), 252)],
	}
}

// FuzzResponder looks at every Reply with the eyes of siw, which does not
// survive all that the RFCs allow.
func FuzzResponder(f *testing.F) {
	for _, c := range frames {
		f.Add(unhex(f, c.hex), uint8(1), uint8(0x49), []byte("private"), uint8(3))
	}
	for _, s := range []string{"10 02 0000", "90 02 0004 8001 c001", "10 02 0004 ffff ffff", "0f 01 0000", "10 01 0002 0000"} {
		f.Add(unhex(f, hexRequest+s), uint8(9), uint8(0), []byte(nil), uint8(255))
	}
	f.Fuzz(func(t *testing.T, octets []byte, flags, reads uint8, private []byte, step uint8) {
		p := fuzzParams(flags, reads, private)
		reply, settled, err := feedResponder(t, p, octets, len(octets)+1)
		again, settled2, err2 := feedResponder(t, p, octets, int(step)+1)
		// Octets behind a Request that is refused anyway are seen only in one of the two.
		if err == err2 && (!bytes.Equal(reply, again) || !reflect.DeepEqual(settled, settled2)) {
			t.Fatalf("in pieces: Reply %x, settled %+v, want %x, %+v", again, settled2, reply, settled)
		}
		for _, reply := range [][]byte{reply, again} {
			if reply != nil {
				checkReply(t, p, octets, reply, settled)
			}
		}
	})
}

// feedResponder accepts what comes as a whole Request.
func feedResponder(t *testing.T, p Params, octets []byte, step int) (reply []byte, s *Settled, err error) {
	r, err := NewResponder(p)
	if err != nil {
		t.Fatal(err)
	}
	var q *Request
	for _, b := range split(octets, step) {
		if q, err = r.Feed(b); err != nil {
			return r.Reply(), nil, err
		}
	}
	if q == nil {
		return r.Reply(), nil, nil
	}
	s, err = r.Accept(p)
	return r.Reply(), s, err
}

func checkReply(t *testing.T, p Params, request, reply []byte, s *Settled) {
	t.Helper()
	q, _, _ := DecodeFrame(request, MaxPrivate)
	got, need, err := DecodeFrame(reply, MaxReplyPrivate)
	enhanced := q.Enhanced && q.Rev == 2
	switch {
	case err != nil || need != 0 || len(reply) != FrameLen+len(got.Private):
		t.Fatalf("Reply %x: need %d, %v", reply, need, err)
	case !got.Reply || reply[16]&0x0f != 0 || got.Rev != q.Rev:
		t.Fatalf("Reply %x", reply)
	case got.Enhanced != enhanced || enhanced && len(got.Private) < PrefixLen:
		t.Fatalf("Reply %x to %x", reply, request)
	case got.Markers && !p.Markers:
		t.Fatalf("markers are asked for: %x", reply)
	case got.Reject != (s == nil):
		t.Fatalf("Reply %x, settled %+v", reply, s)
	case s == nil:
		return
	case got.CRC != (q.CRC || p.CRC) || s.CRC != got.CRC:
		t.Fatalf("CRC in %x, settled %+v", reply, s)
	}
	if s.IRD > p.MaxIRD || s.ORD > p.ORD {
		t.Fatalf("settled %+v with %+v", s, p)
	}
	if !enhanced {
		return
	}
	own, err := DecodePrefix(got.Private)
	if err != nil {
		t.Fatal(err)
	}
	if (own.IRD == NotNegotiated) != (s.Peer.ORD == NotNegotiated) || (own.ORD == NotNegotiated) != (s.Peer.IRD == NotNegotiated) {
		t.Fatalf("%+v answered by %+v", s.Peer, own)
	}
	if own.PeerToPeer != s.Peer.PeerToPeer || (own.RTR != 0) != own.PeerToPeer {
		t.Fatalf("%+v answered by %+v", s.Peer, own)
	}
}

func FuzzInitiator(f *testing.F) {
	for _, c := range frames {
		f.Add(unhex(f, c.hex), uint8(1), uint8(0x49), uint8(3))
	}
	for _, s := range []string{"10 02 0000", "30 02 0002 0000", "90 02 0004 8001 c001", "10 02 0004 bfff ffff", "10 01 0004 0001 0001", "10 02 0004 0007 0007 00"} {
		f.Add(unhex(f, hexReply+s), uint8(0xd1), uint8(0xff), uint8(255))
	}
	f.Fuzz(func(t *testing.T, octets []byte, flags, reads, step uint8) {
		p := fuzzParams(flags, reads, nil)
		rest, s, i, err := initiate(t, p, octets, len(octets)+1)
		rest2, s2, _, err2 := initiate(t, p, octets, int(step)+1)
		if !reflect.DeepEqual(s, s2) || !reflect.DeepEqual(err, err2) || err == nil && rest != rest2 {
			t.Fatalf("in pieces: %+v, %v, %d left, want %+v, %v, %d", s2, err2, rest2, s, err, rest)
		}
		if i.RetryRev1() && (p.Rev == 1 || s != nil) {
			t.Fatal("revision 1 would not help")
		}
		if err != nil || s == nil {
			return
		}
		if s.IRD > p.MaxIRD || s.ORD > max(p.ORD, 1) || s.SendMarkers && p.NoMarkers || p.CRC && !s.CRC || s.PeerToPeer != (p.PeerToPeer && p.Rev == 2) {
			t.Fatalf("settled %+v with %+v", s, p)
		}
		if s.PeerToPeer != (s.RTR != 0) || s.RTR&(s.RTR-1) != 0 || s.RTR&^s.Peer.RTR != 0 {
			t.Fatalf("RTR %v of %v", s.RTR, s.Peer.RTR)
		}
	})
}

// FuzzParser compares a Parser with one that sees the whole stream, and with
// itself on the stream in pieces.
func FuzzParser(f *testing.F) {
	for _, v := range vectors {
		u := unhex(f, v.ulpdu)
		f.Add(AppendFPDU(nil, u, true), uint8(0), uint16(5))
		f.Add(stream(true, true, [][]byte{u, send(1, 500), u}), uint8(3), uint16(511))
		f.Add(stream(true, false, [][]byte{send(1, 484), u}), uint8(2), uint16(1))
		f.Add(stream(true, false, [][]byte{send(1, 488), u}), uint8(2), uint16(1447))
	}
	f.Fuzz(func(t *testing.T, octets []byte, flags uint8, step uint16) {
		crc, markers := flags&1 != 0, flags&2 != 0
		want, wantErr := walk(octets, markers, crc)
		for _, pieces := range [][][]byte{{octets}, split(octets, int(step)+1)} {
			got, err := gather(&Parser{CRC: crc, Markers: markers}, pieces)
			if err != wantErr {
				t.Fatalf("error %v, want %v", err, wantErr)
			}
			if err := sameULPDUs(got, want); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// FuzzStream makes FPDUs of messages cut from its input and takes them apart
// again. The lengths of the messages come from the input as well.
func FuzzStream(f *testing.F) {
	f.Add([]byte("a message and then another one, and one more"), uint8(3), uint16(7))
	f.Add(bytes.Repeat([]byte{0xc1, 0x02, 0x10}, 600), uint8(7), uint16(511))
	f.Add(append([]byte{5}, make([]byte, 1400)...), uint8(2), uint16(1447))
	f.Fuzz(func(t *testing.T, octets []byte, flags uint8, step uint16) {
		crc, markers := flags&1 != 0, flags&2 != 0
		var want [][]byte
		for rest := octets; len(rest) > 16; {
			n := min((int(rest[0])<<8|int(rest[1]))%2048, len(rest))
			u := append([]byte{0x41 | flags&4<<5, 0x43, 17: 0}, rest[:n]...)
			want = append(want, u)
			rest = rest[max(n, 16):]
		}
		in := stream(markers, crc, want)
		whole, err := walk(in, markers, crc)
		if err == nil {
			err = sameULPDUs(whole, want)
		}
		if err != nil {
			t.Fatal(err)
		}
		p := Parser{CRC: crc, Markers: markers}
		got, err := gather(&p, split(in, int(step)+1))
		if err == nil {
			err = sameULPDUs(got, want)
		}
		if err != nil || p.Partial() {
			t.Fatalf("%v, partial %v", err, p.Partial())
		}
	})
}

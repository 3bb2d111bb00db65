//go:build !live

package rdmap

import (
	"bytes"
	"testing"
)

func addGoldens(f *testing.F, names ...string) {
	f.Helper()
	for _, name := range names {
		var s Segment
		if err := s.Parse(readSegment(f, name), OpsRFC5040|OpsRFC7306); err != nil {
			f.Fatal(err)
		}
		f.Add(s.Payload)
	}
}

func FuzzReadRequest(f *testing.F) {
	addGoldens(f, "rping-read-request", "rtr-read")
	f.Fuzz(func(t *testing.T, b []byte) {
		var r, again ReadRequest
		if r.Decode(b) != nil {
			return
		}
		wire := r.AppendTo(nil)
		if err := again.Decode(wire); err != nil || again != r || !bytes.Equal(wire, b) {
			t.Fatalf("% x becomes % x: %+v, %+v, %v", b, wire, r, again, err)
		}
		if r.After(r.Size).Size != 0 || r.After(r.Size/2).After(r.Size-r.Size/2) != r.After(r.Size) {
			t.Fatalf("%+v in two halves ends elsewhere", r)
		}
	})
}

func FuzzAtomicRequest(f *testing.F) {
	addGoldens(f, "atomic-add", "atomic-swap")
	f.Fuzz(func(t *testing.T, b []byte) {
		var r, again AtomicRequest
		if r.Decode(b) != nil {
			return
		}
		wire := r.AppendTo(nil)
		b[0], b[1], b[2], b[3] = 0, 0, 0, b[3]&0xf // reserved
		if err := again.Decode(wire); err != nil || again != r || !bytes.Equal(wire, b) {
			t.Fatalf("% x becomes % x: %+v, %+v, %v", b, wire, r, again, err)
		}
	})
}

func FuzzAtomicResponse(f *testing.F) {
	addGoldens(f, "atomic-response")
	f.Fuzz(func(t *testing.T, b []byte) {
		var r AtomicResponse
		if r.Decode(b) == nil && !bytes.Equal(r.AppendTo(nil), b) {
			t.Fatalf("% x becomes %+v", b, r)
		}
	})
}

// FuzzTerminate decodes either layout. What was decoded has one form, the RFC's,
// and comes out of that unchanged, unless it is one of the few without headers
// that need the hints of their layout.
func FuzzTerminate(f *testing.F) {
	for _, name := range []string{"terminate-crc", "terminate-qn", "terminate-read", "terminate-write", "siw-terminate-crc"} {
		b := readSegment(f, name)[18:]
		f.Add(b, false, false)
		f.Add(b, true, true)
	}
	f.Add([]byte{0x10, 0, 7, 0, 0, 28, 0x41, 0x41}, true, false)
	f.Fuzz(func(t *testing.T, b []byte, sent, first bool) {
		var term, again Terminate
		if err := term.Decode(b, Hints{Sent: sent, First: first}); err != nil {
			return
		}
		if term.HasDDP && len(term.DDP) != 14 && len(term.DDP) != 18 || term.HasRead && !term.HasDDP {
			t.Fatalf("%+v", term)
		}
		wire := term.AppendTo(nil)
		if len(wire) > maxTerminate {
			t.Fatalf("%d octets", len(wire))
		}
		if err := again.Decode(wire, Hints{}); err != nil {
			t.Fatalf("% x becomes % x: %v", b, wire, err)
		}
		if again.SIW {
			// Nobody sends a cause out of the registry that is in it
			// with its nibbles swapped.
			if term.Cause.registered() {
				t.Fatalf("% x becomes % x, which looks like siw's", b, wire)
			}
			return
		}
		again.SIW = term.SIW
		if !sameTerminate(again, term) {
			t.Fatalf("% x becomes % x: %+v, %+v", b, wire, term, again)
		}
	})
}

// FuzzSegment feeds segments, each behind a length octet, to a receiver. Whatever is in
// them, every error has a cause that the registry knows.
func FuzzSegment(f *testing.F) {
	var all []byte
	for _, g := range goldens() {
		b := readSegment(f, g.name)
		f.Add(append([]byte{byte(len(b))}, b...))
		all = append(append(all, byte(len(b))), b...)
	}
	f.Add(all)
	f.Fuzz(func(t *testing.T, stream []byte) {
		for len(stream) > 0 {
			n := min(int(stream[0]), len(stream)-1)
			err := receive(stream[1:1+n:1+n], OpsRFC5040|OpsRFC7306)
			if err != nil && (!CauseOf(err).registered() || CauseOf(err) == CauseCatastrophic) {
				t.Fatalf("% x: %v", stream[:n+1], err)
			}
			stream = stream[1+n:]
		}
	})
}

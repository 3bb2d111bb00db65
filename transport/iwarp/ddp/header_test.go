package ddp

import (
	"bytes"
	"encoding/hex"
	"errors"
	"strings"
	"testing"
)

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(s, " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

var taggedHeaders = []struct {
	name, wire string
	h          Tagged
}{
	{"RDMA Write of no octets, as it opens a connection", "c140 00000001 0000000000000000", Tagged{Last: true, ULP: 0x40, STag: 1}},
	{"Read Response of rping", "c142 4bc30300 000055e6671d3f30", Tagged{Last: true, ULP: 0x42, STag: 0x4bc30300, TO: 0x55e6671d3f30}},
	{"RDMA Write of rping", "c140 415b6f00 000055addb40e550", Tagged{Last: true, ULP: 0x40, STag: 0x415b6f00, TO: 0x55addb40e550}},
	{"more segments follow", "8140 ffffffff ffffffffffffffff", Tagged{ULP: 0x40, STag: 1<<32 - 1, TO: 1<<64 - 1}},
}

var untaggedHeaders = []struct {
	name, wire string
	h          Untagged
}{
	{"Send of rping", "4143 00000000 00000000 00000001 00000000", Untagged{Last: true, ULP: 0x43, MSN: 1}},
	{"Read Request of rping", "4141 00000000 00000001 00000001 00000000", Untagged{Last: true, ULP: 0x41, QN: 1, MSN: 1}},
	{"Terminate", "4147 00000000 00000002 00000001 00000000", Untagged{Last: true, ULP: 0x47, QN: 2, MSN: 1}},
	{"Send with Invalidate, in the middle", "0144 01020304 00000000 00000007 0000058e", Untagged{ULP: 0x44, ULPData: 0x01020304, MSN: 7, MO: 1422}},
	{"every bit of every field", "41ff ffffffff ffffffff ffffffff ffffffff",
		Untagged{Last: true, ULP: 0xff, ULPData: 1<<32 - 1, QN: 1<<32 - 1, MSN: 1<<32 - 1, MO: 1<<32 - 1}},
}

// header is a Tagged or an Untagged.
type header[H any] interface {
	*H
	Decode([]byte) error
	AppendTo([]byte) []byte
}

// checkHeader holds a header to its octets, and checks that the other kind is not taken for it.
func checkHeader[H comparable, P header[H]](t *testing.T, want H, wire []byte, asOther func([]byte) error) {
	t.Helper()
	var h H
	if err := P(&h).Decode(append(bytes.Clone(wire), 0xee)); err != nil || h != want {
		t.Errorf("Decode: %+v, %v; want %+v", h, err, want)
	}
	if got := P(&want).AppendTo([]byte{0xee}); !bytes.Equal(got[1:], wire) || got[0] != 0xee {
		t.Errorf("AppendTo gives % x, want % x", got[1:], wire)
	}
	for n := range wire {
		if err := P(&h).Decode(wire[:n]); !errors.Is(err, ErrShort) {
			t.Errorf("%d octets: %v", n, err)
		}
	}
	if err := asOther(append(wire, 0, 0, 0, 0)); !errors.Is(err, ErrModel) {
		t.Errorf("as the other kind: %v", err)
	}
}

func TestHeaders(t *testing.T) {
	t.Parallel()
	for _, c := range taggedHeaders {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			wire := unhex(t, c.wire)
			if !IsTagged(wire[0]) || HeaderLen(wire[0]) != len(wire) || len(wire) != TaggedLen {
				t.Error("the control octet does not tell a tagged header of 14 octets")
			}
			checkHeader(t, c.h, wire, new(Untagged).Decode)
		})
	}
	for _, c := range untaggedHeaders {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			wire := unhex(t, c.wire)
			if IsTagged(wire[0]) || HeaderLen(wire[0]) != len(wire) || len(wire) != UntaggedLen {
				t.Error("the control octet does not tell an untagged header of 18 octets")
			}
			checkHeader(t, c.h, wire, new(Tagged).Decode)
		})
	}
}

// RFC 5041 section 7.1: a segment of another version is an error, with a code of
// its own for each buffer model. The header is not touched.
func TestOtherVersionsAreRefused(t *testing.T) {
	t.Parallel()
	tagged, untagged := taggedHeaders[1], untaggedHeaders[1]
	for _, version := range []byte{0, 2, 3} {
		b := unhex(t, tagged.wire)
		b[0] = b[0]&^3 | version
		h := Tagged{STag: 42}
		if err := h.Decode(b); err != ErrTaggedVersion || h != (Tagged{STag: 42}) {
			t.Errorf("tagged, version %d: %v, %+v", version, err, h)
		}
		b = unhex(t, untagged.wire)
		b[0] = b[0]&^3 | version
		u := Untagged{QN: 42}
		if err := u.Decode(b); err != ErrUntaggedVersion || u != (Untagged{QN: 42}) {
			t.Errorf("untagged, version %d: %v, %+v", version, err, u)
		}
	}
}

func TestHeadersDoNotAllocate(t *testing.T) {
	buf := make([]byte, 0, TaggedLen+UntaggedLen)
	var tagged Tagged
	var untagged Untagged
	var q Queue
	var r Run
	if n := testing.AllocsPerRun(100, func() {
		b := taggedHeaders[1].h.AppendTo(buf)
		b = untaggedHeaders[0].h.AppendTo(b)
		err := errors.Join(tagged.Decode(b), untagged.Decode(b[TaggedLen:]))
		if err != nil || r.Check(&tagged, 9) != nil {
			t.Fatal(err)
		}
		untagged.MSN = q.MSN()
		if q.Check(&untagged) != nil {
			t.Fatal("refused")
		}
		q.Advance(&untagged, 9)
		r.Advance(&tagged, 9)
		// Refusals are as cheap.
		b[0], b[TaggedLen] = b[0]&^3, b[TaggedLen]&^3
		if tagged.Decode(b) == nil || untagged.Decode(b[TaggedLen:]) == nil || q.Check(&untagged) == nil {
			t.Fatal("accepted")
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

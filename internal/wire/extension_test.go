package wire

import (
	"bytes"
	"testing"
)

func area(b ...byte) (a [ExtensionSize]byte) {
	if len(b) > ExtensionSize {
		panic("more than an extension area")
	}
	copy(a[:], b)
	return a
}

func TestParseHandshakeWalk(t *testing.T) {
	t.Parallel()
	paths := Handshake{HasPaths: true, Paths: 8}
	full := Handshake{HasPaths: true, Paths: 8, Generation: 0x01020304, SourceIndex: true}
	for _, c := range []struct {
		name string
		area [ExtensionSize]byte
		want Handshake
	}{
		{"empty, a peer with one path", area(), Handshake{}},
		{"NPATHS", area(5, 0, 8), paths},
		{"NPATHS 0 is stated", area(5, 0, 0), Handshake{HasPaths: true}},
		{"NPATHS is big-endian", area(5, 1, 2), Handshake{HasPaths: true, Paths: 0x0102}},
		{"GEN_NUM alone", area(6, 1, 2, 3, 4), Handshake{Generation: 0x01020304}},
		{"SPORT_IDX alone", area(8, 0), Handshake{SourceIndex: true}},
		{"all three", area(5, 0, 8, 6, 1, 2, 3, 4, 8, 0), full},
		{"any order", area(8, 0, 6, 1, 2, 3, 4, 5, 0, 8), full},
		{"SPORT_IDX body is not looked at", area(8, 5, 5, 0, 8), Handshake{HasPaths: true, Paths: 8, SourceIndex: true}},

		{"type 0 stops", area(0, 5, 0, 8), Handshake{}},
		{"LIMIT, behind all others", area(5, 0, 8, 6, 1, 2, 3, 4, 8, 0, 16, 0, 16), Handshake{true, 8, 0x01020304, true, 16}},
		{"the flags of LIMIT are not looked at", area(16, 255, 2), Handshake{Limit: 2}},
		{"LIMIT stops", area(16, 0, 2, 5, 0, 8), Handshake{Limit: 2}},
		{"LIMIT cut by 1 byte", area(9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 16, 0), Handshake{}},
		{"type 17 stops", area(17, 5, 0, 8), Handshake{}},
		{"type 255 stops", area(5, 0, 8, 255, 8, 0), paths},

		{"VERSION is skipped", area(1, 5, 5, 5, 5, 5, 0, 8), paths},
		{"RDMA is skipped", area(2, 5, 5, 5, 5, 5, 0, 8), paths},
		{"RDMA_DEST is skipped", area(3, 5, 5, 5, 5, 5, 5, 5, 5, 5, 0, 8), paths},
		{"RDMA_BYTES is skipped: count, direction, 3 bytes padding", area(4, 0, 0, 16, 0, 1, 0, 0, 0, 5, 0, 8), paths},
		{"CAP_BITS is skipped", area(7, 5, 5, 5, 5, 5, 0, 8), paths},
		{"unknown types 9 to 15 have no body", area(9, 10, 11, 12, 13, 14, 15, 5, 0, 8), paths},

		{"the last duplicate counts", area(5, 0, 2, 5, 0, 8), paths},
		{"a zero duplicate counts too", area(6, 1, 2, 3, 4, 6, 0, 0, 0, 0, 8), Handshake{SourceIndex: true}},

		{"NPATHS inside a body is no NPATHS", area(3, 0, 0, 0, 0, 0, 5, 0, 8), Handshake{}},
		{"NPATHS in the last 3 bytes", area(9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 5, 0, 8), paths},
		{"NPATHS cut after 1 byte of 2", area(9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 5, 8), Handshake{}},
		{"NPATHS cut after its type", area(9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 5), Handshake{}},
		{"GEN_NUM cut by 1 byte", area(5, 0, 8, 9, 9, 9, 9, 9, 9, 9, 9, 9, 6, 1, 2, 3), paths},
		{"RDMA_DEST cut by 1 byte", area(5, 0, 8, 9, 9, 9, 9, 9, 3, 1, 2, 3, 4, 5, 6, 7), paths},
		{"RDMA_BYTES whole at the end", area(5, 0, 8, 9, 9, 9, 9, 4, 1, 2, 3, 4, 5, 6, 7, 8), paths},
		{"SPORT_IDX without its body", area(5, 0, 8, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 8), paths},
		{"an unknown type in the last byte", area(5, 0, 8, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 15), paths},
	} {
		if got := ParseHandshake(&c.area); got != c.want {
			t.Errorf("%s: % x gives %+v, want %+v", c.name, c.area, got, c.want)
		}
	}
}

// length61 is the table of Linux 6.1 (net/rds/message.c, rds_exthdr_size).
var length61 = [16]int{ExtVersion: 4, ExtRDMA: 4, ExtRDMADest: 8, ExtPaths: 2, ExtGeneration: 4}

// parse61 is the walk of Linux 6.1, which has no length for RDMA_BYTES,
// CAP_BITS and SPORT_IDX and takes their bodies for further types. seen holds
// the types handed out.
func parse61(a *[ExtensionSize]byte) (hs Handshake, seen []byte) {
	for pos := 0; pos < ExtensionSize; {
		typ := a[pos]
		if typ == 0 || typ >= 16 || pos+1+length61[typ] > ExtensionSize {
			break
		}
		body := a[pos+1 : pos+1+length61[typ]]
		seen = append(seen, typ)
		switch typ {
		case ExtPaths:
			hs.HasPaths, hs.Paths = true, uint16(body[0])<<8|uint16(body[1])
		case ExtGeneration:
			hs.Generation = uint32(body[0])<<24 | uint32(body[1])<<16 | uint32(body[2])<<8 | uint32(body[3])
		}
		pos += 1 + length61[typ]
	}
	return hs, seen
}

// Where we know a body that Linux 6.1 walks into, the two parsers differ; both
// readings are held here so that neither changes unseen.
func TestWalkDiffersFromLinux61OnlyInNewBodies(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name     string
		area     [ExtensionSize]byte
		ours, v6 Handshake
	}{
		{"RDMA_BYTES with a zero first byte", area(4, 0, 0, 16, 0, 1, 0, 0, 0, 5, 0, 8), Handshake{HasPaths: true, Paths: 8}, Handshake{}},
		{"RDMA_BYTES whose count looks like NPATHS", area(4, 5, 0, 3, 0, 1), Handshake{}, Handshake{HasPaths: true, Paths: 3}},
		{"CAP_BITS whose body looks like NPATHS", area(7, 5, 0, 3, 0), Handshake{}, Handshake{HasPaths: true, Paths: 3}},
		{"SPORT_IDX first hides the rest", area(8, 0, 5, 0, 8), Handshake{HasPaths: true, Paths: 8, SourceIndex: true}, Handshake{}},
		{"type 9, as to both", area(9, 5, 0, 8), Handshake{HasPaths: true, Paths: 8}, Handshake{HasPaths: true, Paths: 8}},
	} {
		if got := ParseHandshake(&c.area); got != c.ours {
			t.Errorf("%s: ours %+v, want %+v", c.name, got, c.ours)
		}
		if got, _ := parse61(&c.area); got != c.v6 {
			t.Errorf("%s: Linux 6.1 %+v, want %+v", c.name, got, c.v6)
		}
	}
}

// A 6.1 kernel reads NPATHS and GEN_NUM of a three-extension probe, sees type
// 8 as unknown and stops at its zero body.
func TestLinux61ReadsOurHandshake(t *testing.T) {
	t.Parallel()
	hs := Handshake{HasPaths: true, Paths: 8, Generation: 0x1a2b3c4d, SourceIndex: true}
	var a [ExtensionSize]byte
	hs.Put(&a)
	got, seen := parse61(&a)
	if hs.SourceIndex = false; got != hs {
		t.Errorf("6.1 reads %+v, want %+v", got, hs)
	}
	if want := []byte{5, 6, 8}; !bytes.Equal(seen, want) {
		t.Errorf("6.1 sees types % x, want % x", seen, want)
	}
}

func TestHandshakePut(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		hs   Handshake
		want [ExtensionSize]byte
	}{
		{Handshake{}, area()},
		{Handshake{Paths: 8}, area()}, // not stated
		{Handshake{HasPaths: true}, area(5, 0, 0)},
		{Handshake{HasPaths: true, Paths: 1, Generation: 0xfffefdfc}, area(5, 0, 1, 6, 0xff, 0xfe, 0xfd, 0xfc)},
		{Handshake{Generation: 1, SourceIndex: true}, area(6, 0, 0, 0, 1, 8, 0)},
		{Handshake{SourceIndex: true}, area(8, 0)},
	} {
		a := [ExtensionSize]byte(bytes.Repeat([]byte{0xee}, ExtensionSize))
		if c.hs.Put(&a); a != c.want {
			t.Errorf("%+v gives % x, want % x", c.hs, a, c.want)
		}
	}
}

// The walk never panics, and what it found survives being written again.
func FuzzExtensions(f *testing.F) {
	for _, g := range goldens {
		f.Add(g.header.Extensions[:])
	}
	f.Add([]byte{4, 0, 0, 16, 0, 1, 0, 0, 0, 5, 0, 8})
	f.Add([]byte{9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 5, 8})
	f.Fuzz(func(t *testing.T, b []byte) {
		a := area(b[:min(len(b), ExtensionSize)]...)
		before := a
		hs := ParseHandshake(&a)
		if a != before {
			t.Fatal("parsing wrote to the area")
		}
		if !hs.HasPaths && hs.Paths != 0 {
			t.Fatalf("paths without NPATHS: %+v", hs)
		}
		hs.Put(&a)
		if again := ParseHandshake(&a); again != hs {
			t.Fatalf("% x: %+v became %+v", before, hs, again)
		}
		got, _ := parse61(&a)
		if want := (Handshake{HasPaths: hs.HasPaths, Paths: hs.Paths, Generation: hs.Generation}); got != want {
			t.Fatalf("% x: Linux 6.1 reads %+v, want %+v", a, got, want)
		}
	})
}

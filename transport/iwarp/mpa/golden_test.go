package mpa

import (
	"bytes"
	"encoding/hex"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// readGolden returns the octets of a commented hex file. Each line is
//
//	offset  hex  # field
//
// and offsets are checked, so that a comment cannot drift away from its octets.
func readGolden(t testing.TB, name string) []byte {
	t.Helper()
	path := filepath.Join("testdata", name+".hex")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var out []byte
	for i, line := range strings.Split(string(text), "\n") {
		line, _, _ = strings.Cut(line, "#")
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		if off, err := strconv.Atoi(words[0]); err != nil || off != len(out) || len(words) != 2 {
			t.Fatalf("%s:%d: %q, but %d octets so far", path, i+1, line, len(out))
		}
		b, err := hex.DecodeString(words[1])
		if err != nil {
			t.Fatalf("%s:%d: %v", path, i+1, err)
		}
		out = append(out, b...)
	}
	return out
}

// The goldens are what the machines and the framing make, octet for octet.
func TestGoldens(t *testing.T) {
	t.Parallel()
	request := func(p Params) []byte {
		i, err := NewInitiator(p)
		if err != nil {
			t.Fatal(err)
		}
		return i.AppendRequest(nil)
	}
	reply := func(p Params, golden string) []byte {
		r, err := NewResponder(p)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := r.Feed(readGolden(t, golden)); err != nil {
			t.Fatal(err)
		}
		if _, err := r.Accept(p); err != nil && err != ErrDepth {
			t.Fatal(err)
		}
		return r.Reply()
	}
	padded := append(send(2, 0), unhex(t, "030a1118 1f262d34 3b424950 575e656c 73")...)
	padded[1] = 0x45
	w := MarkerWriter{pos: 492}
	for name, got := range map[string][]byte{
		"request":              request(Params{IRD: 1, ORD: 1}),
		"reply":                reply(Params{IRD: 1, ORD: 1}, "request"),
		"request-peer-to-peer": request(Params{IRD: 16, ORD: 16, CRC: true, PeerToPeer: true, Private: []byte("hi")}),
		"reply-rejecting":      reply(Params{IRD: 4, MaxIRD: 8, ORD: 4}, "request-peer-to-peer"),
		"request-revision-1":   request(Params{Rev: 1, Markers: true, CRC: true}),
		"fpdu-padded":          AppendFPDU(nil, padded, true),
		"fpdu-marker":          w.Append(nil, AppendContent(nil, send(2, 24)), true),
	} {
		if want := readGolden(t, name); !bytes.Equal(got, want) {
			t.Errorf("%s is\n%x, want\n%x", name, got, want)
		}
	}
}

package mpa

import (
	"bytes"
	"testing"

	"github.com/rds-go/rds/internal/hexfile"
)

// The goldens are what the machines and the framing make, octet for octet.
func TestGoldens(t *testing.T) {
	t.Parallel()
	request := func(p Params) []byte {
		i, err := NewInitiator(p)
		must(t, err)
		return i.AppendRequest(nil)
	}
	reply := func(p Params, golden string) []byte {
		r := asked(t, p, hexfile.Read(t, golden))
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
		"request-sealed":       request(Params{IRD: 16, ORD: 16, CRC: true, PeerToPeer: true, Private: []byte("hi"), Seal: true}),
		"reply-rejecting":      reply(Params{IRD: 4, MaxIRD: 8, ORD: 4}, "request-peer-to-peer"),
		"request-revision-1":   request(Params{Rev: 1, Markers: true, CRC: true}),
		"fpdu-padded":          AppendFPDU(nil, padded, true),
		"fpdu-marker":          w.Append(nil, AppendContent(nil, send(2, 24)), true),
	} {
		if want := hexfile.Read(t, name); !bytes.Equal(got, want) {
			t.Errorf("%s is\n%x, want\n%x", name, got, want)
		}
	}
}

// must fails the test on an error.
func must(t testing.TB, err error) {
	if err != nil {
		t.Helper()
		t.Fatal(err)
	}
}

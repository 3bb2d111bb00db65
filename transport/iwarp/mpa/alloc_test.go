package mpa

import "testing"

// Not parallel: AllocsPerRun counts what others allocate, too.
func TestDataPathAllocatesNothing(t *testing.T) {
	ulpdu := send(1, 1424)
	content := AppendContent(nil, ulpdu)
	dst := make([]byte, 0, 4096)
	delivered := 0
	deliver := func([]byte) error { delivered++; return nil }
	plain := stream(false, true, [][]byte{ulpdu, ulpdu, ulpdu})
	var w MarkerWriter
	var withMarkers []byte
	for range (MarkerInterval - MarkerLen) / 4 { // then it ends before a marker
		withMarkers = w.Append(withMarkers, content, true)
	}
	if len(withMarkers)%MarkerInterval != 0 {
		t.Fatalf("%d octets cannot be fed again and again", len(withMarkers))
	}
	parser, marking := Parser{CRC: true}, Parser{CRC: true, Markers: true}
	for _, c := range []struct {
		name string
		f    func() error
	}{
		{"AppendFPDU", func() error { dst = AppendFPDU(dst[:0], ulpdu, true); return nil }},
		{"MarkerWriter", func() error { dst = w.Append(dst[:0], content, true); return nil }},
		{"Parser", func() error { return parser.Feed(plain, deliver) }},
		{"Parser, in pieces", func() error {
			for b := plain; len(b) > 0; b = b[min(len(b), 1000):] {
				if err := parser.Feed(b[:min(len(b), 1000)], deliver); err != nil {
					return err
				}
			}
			return nil
		}},
		{"Parser with markers", func() error { return marking.Feed(withMarkers, deliver) }},
	} {
		var err error
		delivered = 0
		if n := testing.AllocsPerRun(100, func() { err = c.f() }); n != 0 || err != nil {
			t.Errorf("%s: %v allocations, %v", c.name, n, err)
		}
		if c.name[0] == 'P' && delivered < 3*100 {
			t.Errorf("%s: %d deliveries", c.name, delivered)
		}
	}
}

// Bad input costs nothing either.
func TestRefusalAllocatesNothing(t *testing.T) {
	bad := AppendFPDU(nil, send(1, 64), false)
	deliver := func([]byte) error { return nil }
	p := Parser{CRC: true, buf: make([]byte, 0, 256)}
	key := []byte("GET / HTTP/1.1\r\n\r\n")
	if n := testing.AllocsPerRun(100, func() {
		p = Parser{CRC: true, buf: p.buf[:0]}
		if err := p.Feed(bad, deliver); err != ErrCRC {
			t.Error(err)
		}
		if _, _, err := DecodeFrame(key, MaxPrivate); err != ErrKey {
			t.Error(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

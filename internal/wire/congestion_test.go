package wire

import "testing"

func TestCongestionBits(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		port uint16
		at   int
		mask byte
	}{
		{0, 0, 0x01},
		{7, 0, 0x80},
		{8, 1, 0x01},
		{4000, 500, 0x01},
		{4001, 500, 0x02},
		{18634, 2329, 0x04},
		{65535, 8191, 0x80},
	} {
		var m, want CongestionMap
		want[c.at] = c.mask
		if m.Congested(c.port) {
			t.Errorf("port %d: congested in an empty map", c.port)
		}
		if !m.Set(c.port) || m.Set(c.port) {
			t.Errorf("port %d: Set tells a change not exactly once", c.port)
		}
		if m != want || !m.Congested(c.port) {
			t.Errorf("port %d: byte %d is %#02x, want %#02x and nothing else", c.port, c.at, m[c.at], c.mask)
		}
		if !m.Clear(c.port) || m.Clear(c.port) || m != (CongestionMap{}) {
			t.Errorf("port %d: Clear tells a change not exactly once, or leaves bits", c.port)
		}
	}
}

// Neighbours in the same byte do not disturb each other.
func TestCongestionClearKeepsNeighbours(t *testing.T) {
	t.Parallel()
	var m CongestionMap
	for i := range m {
		m[i] = 0xff
	}
	m.Clear(4001)
	if m[500] != 0xfd || m[499] != 0xff || m[501] != 0xff {
		t.Errorf("bytes 499 to 501: % x", m[499:502])
	}
}

// FuzzCongestionMap runs a program of 3-byte steps (operation, port) against
// a plain map from port to bool.
func FuzzCongestionMap(f *testing.F) {
	f.Add([]byte{0, 0x0f, 0xa0, 2, 0x0f, 0xa0, 1, 0x0f, 0xa0})
	f.Add([]byte{0, 0xff, 0xff, 0, 0xff, 0xff, 1, 0xff, 0xff, 1, 0xff, 0xff})
	f.Add([]byte{0, 0, 0, 0, 0, 1, 1, 0, 0, 2, 0, 1})
	f.Fuzz(func(t *testing.T, steps []byte) {
		var m CongestionMap
		model := map[uint16]bool{}
		for ; len(steps) >= 3; steps = steps[3:] {
			p := uint16(steps[1])<<8 | uint16(steps[2])
			switch steps[0] % 3 {
			case 0:
				if changed := m.Set(p); changed == model[p] {
					t.Fatalf("Set(%d) tells %v, was %v", p, changed, model[p])
				}
				model[p] = true
			case 1:
				if changed := m.Clear(p); changed != model[p] {
					t.Fatalf("Clear(%d) tells %v, was %v", p, changed, model[p])
				}
				delete(model, p)
			case 2:
				if m.Congested(p) != model[p] {
					t.Fatalf("Congested(%d) is %v", p, m.Congested(p))
				}
			}
		}
		var want CongestionMap
		for p := range model {
			want[p/8] += 1 << (p % 8)
		}
		if m != want {
			t.Fatalf("at the end the map is not that of ports %v", model)
		}
	})
}

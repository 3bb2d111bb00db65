package wire

import "testing"

func TestMemoryExtensions(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		area [ExtensionSize]byte
		want Memory
	}{
		{"none", area(), Memory{}},
		{"RDMA", area(2, 1, 2, 3, 4), Memory{HasUsed: true, Used: 0x01020304}},
		{"RDMA_DEST: key, then offset", area(3, 1, 2, 3, 4, 0, 0, 0x0f, 0xf8), Memory{HasDest: true, Dest: 0x0ff8_01020304}},
		{"both", area(2, 0, 0, 0, 1, 3, 0, 0, 0, 2, 0, 0, 0, 0), Memory{HasUsed: true, Used: 1, HasDest: true, Dest: 2}},
		{"a key of zero is stated", area(2, 0, 0, 0, 0), Memory{HasUsed: true}},
	} {
		if got := ParseMemory(&c.area); got != c.want {
			t.Errorf("%s: % x gives %+v, want %+v", c.name, c.area, got, c.want)
		}
		var a [ExtensionSize]byte
		if c.want.Put(&a); a != c.area {
			t.Errorf("%s: written as % x, want % x", c.name, a, c.area)
		}
	}
	for _, c := range []struct {
		name string
		area [ExtensionSize]byte
		want Memory
	}{
		{"behind a handshake", area(5, 0, 1, 6, 1, 2, 3, 4, 2, 0, 0, 0, 9), Memory{HasUsed: true, Used: 9}},
		{"RDMA_DEST cut by 1 byte", area(9, 9, 9, 9, 9, 9, 9, 9, 3, 1, 2, 3, 4, 5, 6, 7), Memory{}},
		{"behind the end", area(0, 2, 1, 2, 3, 4), Memory{}},
		{"the last duplicate counts", area(2, 0, 0, 0, 1, 2, 0, 0, 0, 2), Memory{HasUsed: true, Used: 2}},
	} {
		if got := ParseMemory(&c.area); got != c.want {
			t.Errorf("%s: % x gives %+v, want %+v", c.name, c.area, got, c.want)
		}
	}
}

func FuzzMemory(f *testing.F) {
	f.Add([]byte{2, 1, 2, 3, 4, 3, 0, 0, 0, 2, 0, 0, 0, 8, 0, 0})
	f.Add([]byte{5, 0, 8, 3, 1, 2, 3, 4, 5, 6, 7, 8, 2, 0, 0, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) < ExtensionSize {
			return
		}
		m := ParseMemory((*[ExtensionSize]byte)(b))
		var a [ExtensionSize]byte
		m.Put(&a)
		if got := ParseMemory(&a); got != m {
			t.Errorf("% x gives %+v, written and read again %+v", b[:ExtensionSize], m, got)
		}
	})
}

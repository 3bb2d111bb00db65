package ipc

import "testing"

func TestArenaReturnsToOnePiece(t *testing.T) {
	a := NewArena(2 * ChunkSize)
	var offs []int
	for _, n := range []int{1, 4096, 4097, 70000, 1 << 20, 65536, 1} {
		off, size, ok := a.Alloc(n)
		if !ok || size < n {
			t.Fatalf("alloc %d: %d %d %v", n, off, size, ok)
		}
		offs = append(offs, off)
	}
	for _, o := range offs {
		a.Release(o)
	}
	if a.Free() != a.Size() {
		t.Errorf("free %d of %d", a.Free(), a.Size())
	}
	for range 2 {
		if _, _, ok := a.Alloc(ChunkSize); !ok {
			t.Error("not in one piece")
		}
	}
}

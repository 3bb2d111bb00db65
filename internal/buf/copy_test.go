package buf

import (
	"bytes"
	"math/rand/v2"
	"testing"
)

// Copy is copy for every length around its pieces, the shorter slice deciding.
func TestCopyIsCopy(t *testing.T) {
	t.Parallel()
	src := make([]byte, 5*copyPiece/2)
	for i := range src {
		src[i] = byte(rand.Uint32())
	}
	for _, n := range []int{0, 1, copyPiece - 1, copyPiece, copyPiece + 1, 2 * copyPiece, len(src)} {
		for _, room := range []int{n, n / 2, n + 10} {
			dst := make([]byte, room)
			if got, want := Copy(dst, src[:n]), min(n, room); got != want || !bytes.Equal(dst[:got], src[:got]) {
				t.Errorf("Copy of %d bytes to %d: %d", n, room, got)
			}
			if bytes.ContainsFunc(dst[min(n, room):], func(r rune) bool { return r != 0 }) {
				t.Errorf("Copy of %d bytes to %d wrote beyond them", n, room)
			}
		}
	}
}

func BenchmarkCopy1MiB(b *testing.B) {
	src, dst := make([]byte, 1<<20), make([]byte, 1<<20)
	b.SetBytes(1 << 20)
	for b.Loop() {
		Copy(dst, src)
	}
}

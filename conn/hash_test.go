package conn

import "testing"

// referenceHashes were computed by a C program with include/linux/jhash.h,
// jhash_1word(port, 0).
var referenceHashes = map[uint32]uint32{
	0:     0x049396b8,
	1:     0x72a82a9b,
	2:     0xee626cca,
	4000:  0xca590529,
	4001:  0xbc7df522,
	4002:  0xf4baa206,
	16385: 0x43c0c1f5,
	25945: 0x332a10c0,
	65535: 0x1e1e8ecb,
}

func TestHash(t *testing.T) {
	t.Parallel()
	for port, want := range referenceHashes {
		if got := hash(port); got != want {
			t.Errorf("hash(%d) = %#x, want %#x", port, got, want)
		}
	}
}

// A socket keeps to path 0 until the handshake has settled on more.
func TestPathFor(t *testing.T) {
	t.Parallel()
	c := newConn(t, Config{Paths: MaxPaths})
	for _, n := range []int{0, 1} {
		c.npaths = n
		for port := range 1 << 16 {
			if i := c.PathFor(uint16(port)); i != 0 {
				t.Fatalf("%d paths: port %d takes %d", n, port, i)
			}
		}
	}
	c.npaths = MaxPaths
	var used [MaxPaths]int
	for port := range 1 << 16 {
		used[c.PathFor(uint16(port))]++
	}
	for i, n := range used {
		if n < 7000 || n > 9400 {
			t.Errorf("path %d serves %d ports", i, n)
		}
	}
}

package mr

import (
	"fmt"
	"math/bits"
)

// Key names one mapping of a region: what verbs call R_Key and L_Key and iWARP
// calls STag. It is the index of a base in the device's table and a version,
// enciphered: who has a key can compute from it neither those of other bases nor
// the next one of its own.
//
//	 31                              8 7             0
//	+---------------------------------+---------------+
//	|              index              |    version    |   Speck32/64, with a
//	+---------------------------------+---------------+   secret of the device
//
// Each mapping of a base has the version after the one before it. No mapping has
// the Key 0, so it names nothing.
type Key uint32

const (
	versionBits = 8
	indexBits   = 24
	maxIndex    = 1<<indexBits - 1
)

// String shows the key as a number.
func (k Key) String() string { return fmt.Sprintf("%#08x", uint32(k)) }

// keyRounds is the number of rounds of Speck32/64.
const keyRounds = 22

// keyCipher is the block cipher Speck32/64 (Beaulieu et al., "The Simon and Speck
// Families of Lightweight Block Ciphers", 2013): a permutation of all 32-bit
// numbers that depends on 64 secret bits.
type keyCipher struct{ round [keyRounds]uint16 }

// init expands the secret, whose lowest 16 bits are the first round key.
func (c *keyCipher) init(secret uint64) {
	k := uint16(secret)
	l := [3]uint16{uint16(secret >> 16), uint16(secret >> 32), uint16(secret >> 48)}
	for i := range c.round {
		c.round[i] = k
		at := &l[i%len(l)]
		*at = (k + bits.RotateLeft16(*at, -7)) ^ uint16(i)
		k = bits.RotateLeft16(k, 2) ^ *at
	}
}

func (c *keyCipher) seal(plain uint32) uint32 {
	x, y := uint16(plain>>16), uint16(plain)
	for _, k := range &c.round {
		x = (bits.RotateLeft16(x, -7) + y) ^ k
		y = bits.RotateLeft16(y, 2) ^ x
	}
	return uint32(x)<<16 | uint32(y)
}

func (c *keyCipher) open(sealed uint32) uint32 {
	x, y := uint16(sealed>>16), uint16(sealed)
	for i := keyRounds - 1; i >= 0; i-- {
		y = bits.RotateLeft16(y^x, -2)
		x = bits.RotateLeft16((x^c.round[i])-y, 7)
	}
	return uint32(x)<<16 | uint32(y)
}

func (c *keyCipher) key(index uint32, version uint8) Key {
	return Key(c.seal(index<<versionBits | uint32(version)))
}

// base is the index and the version of a key.
func (c *keyCipher) base(k Key) (index uint32, version uint8) {
	plain := c.open(uint32(k))
	return plain >> versionBits, uint8(plain)
}

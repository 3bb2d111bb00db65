package transporttest

import (
	"encoding/binary"
	"math/rand/v2"
	"net/netip"
	"sync/atomic"
)

// NewAddr returns an address of 127.0.0.0/8 that no other test of this process has
// and none of another process is likely to have.
func NewAddr() netip.Addr {
	var a [4]byte
	binary.BigEndian.PutUint32(a[:], 127<<24|(addressBase+addresses.Add(1))%0xfffffe+1)
	return netip.AddrFrom4(a)
}

var (
	addresses   atomic.Uint32
	addressBase = rand.Uint32N(1 << 24)
)

// Port is one for this process's tests, below the ephemeral range.
var Port = uint16(20000 + rand.IntN(10000))

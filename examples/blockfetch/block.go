package main

import "encoding/binary"

const (
	blockSize   = 8 << 10
	storeBlocks = 128 // blocks the server has
	numberSize  = 8   // a request, and a reply: the number of the block
)

// fillBlock makes the content of block n, no two words of which are the same in
// all the store.
func fillBlock(b []byte, n uint64) {
	for i := 0; i < len(b); i += 8 {
		binary.LittleEndian.PutUint64(b[i:], (n<<32|uint64(i))*0x9e3779b97f4a7c15)
	}
}

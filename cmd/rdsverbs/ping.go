package main

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strconv"

	"github.com/rds-go/rds/mr"
)

// What rping.c of rdma-core agrees on, without ever saying so on the wire.
//
//	client                                            server
//	Send    address, key, size of the ping    --->
//	        <--- Read of it ---
//	                                          <---    Send    go ahead
//	Send    address, key, size of the sink    --->
//	                                          <---    Write   the ping, up to its NUL
//	                                          <---    Send    done
const (
	rpingPort = 7174
	// minPing is the shortest text with the largest number and its NUL.
	minPing = len("rdma-ping-2147483647: ") + 1
	// maxPing is a size that rping itself takes up to but not including.
	maxPing = 64 << 10
)

// advert is the message that rping sends: where a buffer is. The server's
// messages have the same length and mean nothing but their arrival.
//
//	0   8 address
//	8   4 key
//	12  4 size
type advert struct {
	addr uint64
	key  mr.Key
	size uint32
}

const advertLen = 16

func (a advert) append(b []byte) []byte {
	b = binary.BigEndian.AppendUint64(b, a.addr)
	b = binary.BigEndian.AppendUint32(b, uint32(a.key))
	return binary.BigEndian.AppendUint32(b, a.size)
}

// parseAdvert reads the advertLen octets of b.
func parseAdvert(b []byte) advert {
	return advert{
		addr: binary.BigEndian.Uint64(b),
		key:  mr.Key(binary.BigEndian.Uint32(b[8:])),
		size: binary.BigEndian.Uint32(b[12:]),
	}
}

var errPing = errors.New("ping data mismatch")

// fillPing writes the text of ping n: its number, then letters that start one
// further with each ping, then NUL. b has at least minPing octets.
func fillPing(b []byte, n int) {
	const first, last = 'A', 'z'
	n &= math.MaxInt32
	at := copy(b, "rdma-ping-"+strconv.Itoa(n)+": ")
	c := byte(first + n%(last-first+1))
	for i := at; i < len(b)-1; i++ {
		b[i] = c
		if c++; c > last {
			c = first
		}
	}
	b[len(b)-1] = 0
}

// checkPing compares b with the text of ping n; scratch is as long as b.
func checkPing(b, scratch []byte, n int) error {
	fillPing(scratch, n)
	if i := firstDifference(b, scratch); i >= 0 {
		return fmt.Errorf("%w: ping %d, octet %d of %d", errPing, n, i, len(b))
	}
	return nil
}

func firstDifference(a, b []byte) int {
	if bytes.Equal(a, b) {
		return -1
	}
	for i := range a {
		if a[i] != b[i] {
			return i
		}
	}
	return len(a)
}

// pingText is b up to its NUL, false if it has none.
func pingText(b []byte) ([]byte, bool) {
	n := bytes.IndexByte(b, 0)
	if n < 0 {
		return nil, false
	}
	return b[:n], true
}

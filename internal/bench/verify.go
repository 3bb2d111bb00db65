package bench

import (
	"encoding/binary"
	"fmt"
	"net/netip"
)

// stressHeader is the start of a Stress message, little-endian: number within
// its pair of sockets and kind (8 bytes), stamp of the request (8), length (4),
// kind (4), first word of the pattern (8). The pattern fills the rest.
const stressHeader = 32

// Kinds of Stress message.
const (
	kindRequest uint32 = 0x51
	kindReply   uint32 = 0x41
)

// verifier numbers and checks what one socket exchanges with each peer, as
// rds-stress does: any gap, repetition or reordering is an error, and so is
// any byte that differs.
type verifier struct {
	local    netip.AddrPort
	awaits   uint32 // kind of the messages received
	sent     map[netip.AddrPort]uint64
	received map[netip.AddrPort]uint64
}

func newVerifier(local netip.AddrPort, awaits uint32) *verifier {
	return &verifier{local: local, awaits: awaits, sent: map[netip.AddrPort]uint64{}, received: map[netip.AddrPort]uint64{}}
}

// pattern is the first word of a message's pattern; the others follow by next.
func pattern(from, to netip.AddrPort, number uint64, kind uint32) uint64 {
	x := uint64(from.Port())<<48 | uint64(to.Port())<<32 | uint64(kind)
	return (x ^ number*0x9e3779b97f4a7c15) | 1<<63 // never 0, from which next would not move
}

func next(x uint64) uint64 { // xorshift64
	x ^= x << 13
	x ^= x >> 7
	return x ^ x<<17
}

// fill makes b the next message to a peer, all but the stamp.
func (v *verifier) fill(b []byte, to netip.AddrPort, kind uint32) {
	n := v.sent[to]
	v.sent[to] = n + 1
	le := binary.LittleEndian
	le.PutUint64(b, n)
	le.PutUint32(b[16:], uint32(len(b)))
	le.PutUint32(b[20:], kind)
	x := pattern(v.local, to, n, kind)
	le.PutUint64(b[24:], x)
	fillPattern(b[stressHeader:], next(x))
}

// skip leaves out the next number to a peer: a fault for tests.
func (v *verifier) skip(to netip.AddrPort) { v.sent[to]++ }

// check verifies a message received.
func (v *verifier) check(from netip.AddrPort, b []byte) error {
	bad := func(what string, got, want any) error {
		return fmt.Errorf("verify: message %d from %v to %v: %s is %v, should be %v", v.received[from], from, v.local, what, got, want)
	}
	if len(b) < stressHeader {
		return bad("length", len(b), fmt.Sprintf("at least %d", stressHeader))
	}
	le, want := binary.LittleEndian, v.received[from]
	if n := le.Uint64(b); n != want {
		return bad("number", n, want)
	}
	if n := le.Uint32(b[16:]); int(n) != len(b) {
		return bad("length", len(b), n)
	}
	if k := le.Uint32(b[20:]); k != v.awaits {
		return bad("kind", k, v.awaits)
	}
	x := pattern(from, v.local, want, v.awaits)
	if w := le.Uint64(b[24:]); w != x {
		return bad("pattern", fmt.Sprintf("%#x", w), fmt.Sprintf("%#x", x))
	}
	if err := checkPattern(b[stressHeader:], next(x)); err != nil {
		return fmt.Errorf("verify: message %d from %v to %v: %w", want, from, v.local, err)
	}
	v.received[from] = want + 1
	return nil
}

// fillPattern fills b with the pattern that begins with x.
func fillPattern(b []byte, x uint64) {
	for ; len(b) >= 8; b = b[8:] {
		binary.LittleEndian.PutUint64(b, x)
		x = next(x)
	}
	for i := range b {
		b[i] = byte(x >> (8 * i))
	}
}

// checkPattern tells where b first differs from the pattern that begins with x.
func checkPattern(b []byte, x uint64) error {
	rest := b
	for ; len(rest) >= 8; rest = rest[8:] {
		if got := binary.LittleEndian.Uint64(rest); got != x {
			return fmt.Errorf("payload at byte %d is %#x, should be %#x", len(b)-len(rest), got, x)
		}
		x = next(x)
	}
	for i, got := range rest {
		if want := byte(x >> (8 * i)); got != want {
			return fmt.Errorf("payload at byte %d is %#x, should be %#x", len(b)-len(rest)+i, got, want)
		}
	}
	return nil
}

package bench

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"

	"github.com/rds-go/rds/rds"
)

// choose chooses an exchange: of any kind with any socket, unless what is in the
// place there is not known; then that is overwritten. But the peer may still have to
// look at what a message says of it that was reported lost: then one goes first
// whose reply tells that it has.
func (t *turmoilSocket) choose(l *lane) {
	l.gen = (l.gen + 1) & genMask
	l.peer, l.kind = t.rng.IntN(len(t.peers)), turn(t.rng.IntN(int(turns)))
	l.fated, l.reply, l.over, l.silent = false, false, false, l.kind != turnPlain && t.rng.IntN(3) == 0
	size := t.w.placeSize()
	l.off = t.rng.IntN(size)
	l.n = 1 + t.rng.IntN(size-l.off)
	switch {
	case l.late[l.peer]:
		l.kind, l.silent = turnPlain, false
	case !l.sure[l.peer]:
		l.kind, l.off, l.n = turnWrite, 0, size
	}
}

// begin begins an exchange.
func (t *turmoilSocket) begin(l *lane) error {
	t.choose(l)
	to := t.peers[l.peer]
	l.number = t.v.sent[to]
	o := rds.Outgoing{To: to, Notify: true}
	t.operation(l, &o)
	m := note{l.kind, l.gen, l.place, l.off, l.n}
	o.Token = uint64(m.pack())
	if !l.silent {
		b := t.buf[:turmoilHead+t.rng.IntN(len(t.buf)-turmoilHead+1)]
		t.v.fill(b, to, kindRequest)
		putStamp(b, m.pack())
		o.Data = b
		if l.kind == turnBad {
			t.v.sent[to]-- // the message does not arrive, so the next message has its number
		} else {
			t.acct.Messages++
		}
	}
	return t.s.SendMessage(context.Background(), &o)
}

// operation prepares what the exchange does to the peer's memory.
func (t *turmoilSocket) operation(l *lane, o *rds.Outgoing) {
	at := uint64(l.place*t.w.placeSize() + l.off)
	key := t.keys[l.peer].Region
	local := l.local[:l.n]
	pieces := [][]byte{local}
	if l.n > 1 && t.rng.IntN(2) == 0 {
		cut := 1 + t.rng.IntN(l.n-1)
		pieces = [][]byte{local[:cut], local[cut:]}
	}
	switch l.kind {
	case turnPlain:
	case turnWrite:
		fillPattern(local, pattern(t.v.local, o.To, uint64(l.gen), kindWritten))
		o.RDMA = &rds.RDMA{Cookie: key, Offset: at, Local: pieces, Write: true, Silent: l.silent}
	case turnRead:
		clear(local)
		o.RDMA = &rds.RDMA{Cookie: key, Offset: at, Local: pieces, Fence: t.rng.IntN(2) == 0, Silent: l.silent}
	case turnBad:
		o.RDMA = &rds.RDMA{Cookie: key, Offset: at, Local: pieces, Write: true, Silent: l.silent}
		switch t.rng.IntN(4) {
		case 0: // the cookie is not a key
			o.RDMA.Cookie ^= rds.Cookie(1 + t.rng.Int64N(1<<31))
		case 1: // the operation reaches beyond the end; it is one segment, because of more a part might be placed, in the shared words
			l.n = min(l.n, maxBadWrite)
			o.RDMA.Local = [][]byte{local[:l.n]}
			o.RDMA.Offset = uint64(t.w.regionBytes() - l.n + 1 + t.rng.IntN(1<<20))
		case 2: // the region may not be written
			o.RDMA.Cookie = t.keys[l.peer].ReadOnly
		default: // a read that the message waits for
			o.RDMA.Cookie ^= rds.Cookie(1 + t.rng.Int64N(1<<31))
			o.RDMA.Write, o.RDMA.Fence = false, true
		}
	default:
		l.off &^= wordSize - 1
		a := &rds.Atomic{Cookie: key, Offset: at &^ (wordSize - 1), Result: &l.result, Silent: l.silent}
		o.Atomic = a
		switch known := l.word(); l.kind {
		case turnAdd:
			l.want, a.Add = known, t.rng.Uint64()
			l.n = wordSize
			binary.NativeEndian.PutUint64(l.local, known+a.Add)
		case turnSwap:
			a.Kind, a.Compare, a.Swap, l.want = rds.CompareSwap, known, t.rng.Uint64(), known
			if t.rng.IntN(4) == 0 { // the atomic finds another word than it compares with
				a.Compare++
				a.Swap = known
			}
			l.n = wordSize
			binary.NativeEndian.PutUint64(l.local, a.Swap)
		case turnShared:
			a.Add, a.Offset = 1, uint64(t.w.sharedAt()+t.rng.IntN(sharedWords)*wordSize)
			l.n = 0
		}
	}
}

// word is what is known of the word at off.
func (l *lane) word() uint64 { return binary.NativeEndian.Uint64(l.known[l.peer][l.off:]) }

// end accounts for an exchange and checks what it brought.
func (t *turmoilSocket) end(l *lane) error {
	l.over = true
	bad := func(format string, args ...any) error {
		return fmt.Errorf("verify: exchange %d of kind %d in place %d of %v, %d bytes at %d: "+format,
			append([]any{l.gen, l.kind, l.place, t.peers[l.peer], l.n, l.off}, args...)...)
	}
	changes := l.kind == turnWrite || l.kind == turnAdd || l.kind == turnSwap
	switch {
	case l.status == rds.StatusDropped && l.kind != turnPlain && t.w.Faults:
		t.acct.Dropped++
		if !l.silent && l.kind != turnBad {
			t.acct.Unsure++
		}
		if l.kind == turnShared {
			t.acct.UnsureAdd++
		}
		l.sure[l.peer] = l.sure[l.peer] && !changes
		l.late[l.peer] = l.kind == turnWrite && !l.silent
		return nil
	case l.kind == turnBad && l.status == rds.StatusRemoteError:
		t.acct.Refused++
		return nil
	case l.kind == turnBad:
		return bad("fate %d, and it had to be refused", l.status)
	case l.status != rds.StatusSuccess:
		return bad("fate %d", l.status)
	}
	known := l.known[l.peer][l.off:]
	switch l.kind {
	case turnPlain:
		l.late[l.peer] = false
	case turnWrite:
		copy(known, l.local[:l.n])
		l.sure[l.peer] = true
		t.acct.Writes++
		t.acct.Bytes += uint64(l.n)
	case turnRead:
		if !bytes.Equal(known[:l.n], l.local[:l.n]) {
			return bad("what was read is not what is there")
		}
		t.acct.Reads++
		t.acct.Bytes += uint64(l.n)
	case turnAdd, turnSwap:
		if l.result != l.want {
			return bad("the word was %#x, not %#x", l.result, l.want)
		}
		copy(known, l.local[:l.n])
		t.acct.Atomics++
	case turnShared:
		t.acct.Atomics++
		t.acct.Adds++
	}
	return nil
}

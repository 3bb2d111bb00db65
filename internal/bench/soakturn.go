package bench

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"github.com/rds-go/rds/rds"
)

// maxBadWrite is the longest write that begins within a region and ends beyond it: it
// fits a segment, so that nothing of it may be placed.
const maxBadWrite = 1 << 10

// choose chooses an exchange with any peer: of any kind if the lane has a region there, and
// knows what is in it, else it asks for one.
func (t *soakClient) choose(l *soakLane) {
	delete(t.orphans, l.number-4096) // no message of a turn so long ago can still come
	l.number++
	l.peer, l.turn = t.rng.IntN(len(t.peers)), turn(t.rng.IntN(int(turns)))
	p, r := &t.peers[l.peer], &l.at[l.peer]
	if l.turn == turnHello && t.rng.IntN(4) > 0 { // a hello comes less often than the others
		l.turn = turnPlain
	}
	if r.life == 0 || r.unsure {
		l.turn = turnHello
	}
	l.life, l.in = p.Life, r.life
	l.fated, l.reply, l.void = false, false, false
	l.silent = l.turn != turnPlain && l.turn != turnHello && t.rng.IntN(3) == 0
	size := t.w.soakPlace()
	l.off = t.rng.IntN(size)
	l.n = 1 + t.rng.IntN(size-l.off)
	l.message = t.sent[l.peer]
}

// begin begins an exchange.
func (t *soakClient) begin(l *soakLane) error {
	t.choose(l)
	p := &t.peers[l.peer]
	m := soakMessage{Kind: kindAsk, From: uint32(t.socket), To: uint32(l.peer), FromLife: t.life, ToLife: l.life, Number: l.message,
		Exchange: l.number, Turn: uint32(l.turn), Epoch: l.at[l.peer].epoch}
	o := rds.Outgoing{To: p.Addr, Notify: true, Token: l.number}
	if l.turn != turnPlain && l.turn != turnHello {
		if l.local == nil {
			var err error
			if l.local, err = t.s.AllocMemory(t.w.soakPlace()); err != nil {
				return t.p.lost(err)
			}
		}
		t.operation(l, &m, &o)
	}
	m.Off, m.N = uint32(l.off), uint32(l.n)
	if !l.silent {
		o.Data = t.buf[:soakHeader+t.rng.IntN(len(t.buf)-soakHeader+1)]
		if err := m.fill(o.Data); err != nil {
			return err
		}
		if l.turn != turnBad { // turnBad's message does not arrive, so the next message has its number
			w := t.j.lane(int(l.number >> laneShift))
			w.set(1, l.message)
			w.set(2, t.life)
			w.set(0, uint64(l.peer)+1)
			t.sent[l.peer]++
			t.acct.Messages++
		}
	}
	return t.s.SendMessage(t.p.ctx, &o)
}

// operation prepares what the exchange does to the peer's memory.
func (t *soakClient) operation(l *soakLane, m *soakMessage, o *rds.Outgoing) {
	r := &l.at[l.peer]
	local := l.local.B[:l.n]
	pieces := [][]byte{local}
	if l.n > 1 && t.rng.IntN(2) == 0 {
		cut := 1 + t.rng.IntN(l.n-1)
		pieces = [][]byte{local[:cut], local[cut:]}
	}
	op := &rds.RDMA{Cookie: r.region, Offset: uint64(l.off), Local: pieces, Write: true, Silent: l.silent}
	switch l.turn {
	case turnWrite, turnBoth:
		o.RDMA = op
		fillPattern(local, m.pattern(kindPlaced))
		if l.turn == turnBoth {
			o.Atomic = t.addition(l, r)
		}
	case turnRead:
		o.RDMA = op
		clear(local)
		op.Write, op.Fence = false, t.rng.IntN(2) == 0
	case turnBad:
		o.RDMA = op
		t.spoil(l, r, op, m)
	case turnShared:
		o.Atomic = t.addition(l, r)
	default:
		l.off, l.n = l.off&^(wordSize-1), wordSize
		known := binary.NativeEndian.Uint64(r.known[l.off:])
		a := &rds.Atomic{Cookie: r.region, Offset: uint64(l.off), Result: &l.result, Silent: l.silent}
		l.want, o.Atomic = known, a
		if l.turn == turnAdd {
			a.Add = t.rng.Uint64()
			binary.NativeEndian.PutUint64(l.local.B, known+a.Add)
			return
		}
		a.Kind, a.Compare, a.Swap = rds.CompareSwap, known, t.rng.Uint64()
		if t.rng.IntN(4) == 0 { // an atomic that finds another word than it compares with
			a.Compare++
			a.Swap = known
		}
		binary.NativeEndian.PutUint64(l.local.B, a.Swap)
	}
}

// spoil makes an operation one that has to be refused, and of which nothing may be
// placed: later reads and the server's own look would find it.
func (t *soakClient) spoil(l *soakLane, r *soakRegion, op *rds.RDMA, m *soakMessage) {
	// No region ever has a key of 255 or less, of index 0; of all others there is a
	// chance in some millions that one is there, and a soak makes hundreds of thousands.
	wrong := r.region&^(1<<32-1) | rds.Cookie(1+t.rng.IntN(255))
	kind := t.rng.IntN(5)
	switch kind {
	case 0: // the cookie is not a key
		op.Cookie = wrong
	case 1: // the operation reaches beyond the end of the region
		l.n = min(l.n, maxBadWrite)
		op.Local = [][]byte{l.local.B[:l.n]}
		op.Offset = uint64(t.w.soakPlace() - l.n + 1 + t.rng.IntN(1<<20))
	case 2: // the region may not be written
		op.Cookie = r.only
	case 3: // the message waits for a read
		op.Cookie, op.Write, op.Fence = wrong, false, true
	default: // the region has ended; after a restart of the peer's host its key may be another region's
		if op.Cookie = r.stale; r.stale == 0 || r.gone != t.peers[l.peer].Host {
			op.Cookie = wrong
		}
	}
	m.Region, m.ReadOnly = uint64(op.Cookie), uint64(kind) // for the report, in case the message arrives
}

// addition adds to the shared word of the peer's life that the lane knows, and counts it
// before it can happen.
func (t *soakClient) addition(l *soakLane, r *soakRegion) *rds.Atomic {
	t.addsOf(l.peer, l.in).inc(3)
	return &rds.Atomic{Cookie: r.shared, Add: 1, Result: &l.result, Silent: l.silent}
}

func (t *soakClient) addsOf(peer int, life uint64) record {
	key := flowKey{uint32(peer), life}
	r, ok := t.adds[key]
	if !ok {
		var err error
		if r, err = t.j.add(recordAdds, uint64(peer), life); err != nil {
			r = record{make(words, journalRecord*wordSize)} // a full journal ends the run at its next record
		}
		t.adds[key] = r
	}
	return r
}

// end accounts for an exchange and checks what it brought.
func (t *soakClient) end(l *soakLane) error {
	bad := func(format string, args ...any) error {
		return fmt.Errorf("verify: exchange %#x of client socket %d, kind %d, with socket %d in life %#x, %d bytes at %d: "+format,
			append([]any{l.number, t.socket, l.turn, l.peer, l.life, l.n, l.off}, args...)...)
	}
	r := &l.at[l.peer]
	plain := l.turn == turnPlain || l.turn == turnHello
	lost := uint64(0)
	switch {
	case l.status == rds.StatusDropped:
		lost = lostDropped
		t.acct.Dropped++
		if !l.silent && l.turn != turnBad {
			t.acct.Unsure++
		}
		if l.turn == turnShared || l.turn == turnBoth {
			t.acct.UnsureAdd++
		}
		if plain || !t.w.Faults {
			t.excuse(l, excuse{life: l.life, what: bad("dropped, and the peer's process goes on")})
		}
		r.unsure = r.unsure || !plain
	case l.turn == turnBad && l.status == rds.StatusRemoteError:
		t.acct.Refused++
	case l.turn == turnBad:
		return bad("fate %d, and it had to be refused", l.status)
	case l.status == rds.StatusRemoteError && !plain:
		lost = lostRefused
		t.acct.Ended++
		t.excuse(l, excuse{life: l.in, what: bad("refused, and the region has not ended")})
		if l.turn == turnShared { // either part of a turnBoth may have been refused
			t.addsOf(l.peer, l.in).inc(6)
		}
		r.unsure = true
	case l.status == rds.StatusRefused: // nobody is bound to the port of a process that has ended
		lost = lostDropped
		t.acct.Void++
		t.excuse(l, excuse{life: l.life, what: bad("refused, and the process has not ended")})
		r.unsure = r.unsure || !plain
	case l.status != rds.StatusSuccess: // a daemon that ends reports the fates first, and then its end
		lost = lostDropped
		t.excuse(l, excuse{life: neverOver, what: bad("fate %d", l.status)})
		r.unsure = true
	default:
		if !l.reply && !l.silent {
			lost = lostVoid
			t.acct.Void++
		}
		if err := t.succeeded(l, r, bad); err != nil {
			return err
		}
	}
	if l.silent || l.turn == turnBad || l.reply {
		lost = 0 // no message was sent, or the message has arrived
	}
	return t.settle(l, lost)
}

// excuse keeps what has to be explained by the end of the peer's life, or its host's.
func (t *soakClient) excuse(l *soakLane, e excuse) {
	e.socket = l.peer
	if p := &t.peers[l.peer]; (e.life == 0 || p.Life > e.life) && (e.host == 0 || p.Host > e.host) {
		return
	}
	t.excuses = append(t.excuses, e)
}

// settle notes why a message may be missing, and that the lane has nothing under way.
func (t *soakClient) settle(l *soakLane, lost uint64) error {
	w := t.j.lane(int(l.number >> laneShift))
	if lost != 0 {
		t.late[l.number] = true
		if _, err := t.j.add(recordLost, lost, uint64(l.peer), t.life, l.message, l.life); err != nil {
			return err
		}
	}
	w.set(0, 0)
	t.acct.Exchanges++
	t.p.exchanges.Add(1)
	t.j.setAccount(&t.acct)
	return nil
}

// succeeded checks what an operation brought, in so far as the region is still there.
func (t *soakClient) succeeded(l *soakLane, r *soakRegion, bad func(string, ...any) error) error {
	switch l.turn {
	case turnShared, turnBoth:
		a := t.addsOf(l.peer, l.in)
		a.set(5, max(a.at(5), l.result+1)) // stored first: a kill in between must not look like a word found twice
		a.inc(4)
		t.acct.Adds++
		t.acct.Atomics++
	}
	if r.known == nil || l.turn == turnPlain || l.turn == turnHello {
		return nil
	}
	known := r.known[l.off:]
	switch l.turn {
	case turnWrite, turnBoth:
		copy(known, l.local.B[:l.n])
		t.acct.Writes++
		t.acct.Bytes += uint64(l.n)
	case turnRead:
		if !bytes.Equal(known[:l.n], l.local.B[:l.n]) {
			return bad("what was read is not what is there")
		}
		t.acct.Reads++
		t.acct.Bytes += uint64(l.n)
	case turnAdd, turnSwap:
		if l.result != l.want {
			return bad("the word was %#x, not %#x", l.result, l.want)
		}
		copy(known, l.local.B[:l.n])
		t.acct.Atomics++
	}
	return nil
}

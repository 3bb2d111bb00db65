package client

import (
	"errors"
	"time"

	"github.com/rds-go/rds/internal/buf"
	"github.com/rds-go/rds/internal/ipc"
	"github.com/rds-go/rds/internal/lockorder"
	"github.com/rds-go/rds/internal/socket"
	"github.com/rds-go/rds/rds/datagram"
)

// submission is the application's end of the submission ring, with the two
// areas of payloads to send.
type submission struct {
	seg    *ipc.Segment
	bell   *ipc.Bell
	sleeps ipc.Flag // the daemon sleeps
	want   ipc.Flag // WantSpace
	space  socket.WaitQueue

	mu        lockorder.Mutex[submission] // guards the fields below
	ring      ipc.Producer
	data      []byte
	tail      uint64   // bytes of data ever used, gaps at its end included
	head      uint64   // bytes of data ever used that are free again
	ends      []uint64 // by slot of the ring: tail behind the payload of the submission there
	bodies    []byte
	arena     *ipc.Arena
	lent      arenaShares // blocks of arena, by peer
	returns   []ipc.Entry // returns that found the ring full
	quiet     int         // returns since the daemon was last woken
	dead      bool
	later     *time.Timer // has the daemon woken for ends of regions; nil: there were none
	concealed bool        // later runs
	spare     []*sendBuffer
	touched   int     // end of what was ever allocated of arena
	about     special // what the message at hand says besides its payload, in a run
}

// errFull: the ring, or the area a payload needs, has no room.
var errFull = errors.New("rds: no room for a submission")

// quietReturns is how many returns the daemon need not hear of at once.
const quietReturns = 16

func (u *submission) init(seg *ipc.Segment, bell *ipc.Bell) {
	u.seg, u.bell = seg, bell
	u.sleeps, u.want = seg.DaemonSleeps(), seg.WantSpace()
	u.ring = seg.Submit()
	u.data, u.ends = seg.DataArea(), make([]uint64, seg.Submissions)
	u.bodies, u.arena = seg.SendArea(), ipc.NewArena(seg.Send)
	u.lent.blocks = make([]arenaBlock, seg.Send/ipc.MinBlock)
}

// end makes all further submissions fail.
func (u *submission) end() {
	u.mu.Lock()
	u.dead = true
	u.mu.Unlock()
	u.space.Wake(-1)
}

// noRoom is the error of a message that found no room in the send arena: errFull, or
// ErrDaemonLost if there will be no room.
func (u *submission) noRoom() error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.dead {
		return datagram.ErrDaemonLost
	}
	return errFull
}

// putLocked appends a message whose payload is small, copying it and about,
// what the message says besides its payload. asked are the fates that its socket has asked for.
func (u *submission) putLocked(asked *askedFates, e ipc.Entry, about, payload []byte) error {
	if err := u.roomLocked(len(u.ends) / returnShare); err != nil {
		return err
	}
	off, ok := u.placeLocked(len(about) + len(payload))
	if !ok {
		return errFull
	}
	at := off + copy(u.data[off:], about)
	copy(u.data[at:], payload)
	e[2] = uint64(at) | uint64(off)<<32
	asked.ask(&e, about)
	u.appendLocked(e)
	return nil
}

// roomLocked checks that an entry fits and keep entries are left.
func (u *submission) roomLocked(keep int) error {
	if u.dead {
		return datagram.ErrDaemonLost
	}
	for len(u.returns) > 0 {
		if n, _ := u.ring.Free(1); n == 0 {
			return errFull
		}
		u.appendLocked(u.returns[0])
		u.returns = u.returns[1:]
	}
	if n, _ := u.ring.Free(keep + 1); n <= keep {
		return errFull
	}
	return nil
}

// returnShare is the part of the ring that messages leave to returns: when the
// daemon does not take what is sent, it still takes what is returned.
const returnShare = 8

// placeLocked finds n bytes in one piece of the data ring.
func (u *submission) placeLocked(n int) (off int, ok bool) {
	size := uint64(len(u.data))
	for range 2 {
		start := u.tail
		if at := start & (size - 1); at+uint64(n) > size {
			start += size - at
		}
		if start+uint64(n)-u.head <= size {
			u.tail = start + uint64(n)
			return int(start & (size - 1)), true
		}
		_, _ = u.ring.Free(len(u.ends)) // reads how far the daemon has come
		if h := u.ring.Head(); h > 0 {
			u.head = u.ends[(h-1)&uint64(len(u.ends)-1)]
		}
		if u.head == u.tail { // data is empty: no gap is needed
			u.tail = (u.tail + size - 1) &^ (size - 1)
			u.head = u.tail
		}
	}
	return 0, false
}

func (u *submission) appendLocked(e ipc.Entry) {
	u.ends[u.ring.Tail()&uint64(len(u.ends)-1)] = u.tail
	u.ring.Put(e)
}

// publishLocked shows the daemon what was appended.
func (u *submission) publishLocked() {
	u.ring.Publish()
	u.quiet = 0
}

// wake follows publishLocked, with mu released.
func (u *submission) wake() {
	if u.sleeps.Take() {
		u.bell.Ring()
	}
}

// put submits one small message.
func (u *submission) put(asked *askedFates, e ipc.Entry, about, payload []byte) error {
	u.mu.Lock()
	err := u.putLocked(asked, e, about, payload)
	if err == nil {
		u.publishLocked()
	}
	u.mu.Unlock()
	if err == nil {
		u.wake()
	}
	return err
}

// putBuffer submits a message whose payload is the first n bytes of b, which
// becomes the daemon's. asked and about are as of putLocked.
func (u *submission) putBuffer(asked *askedFates, e ipc.Entry, b *sendBuffer, about []byte) error {
	u.mu.Lock()
	err := u.roomLocked(len(u.ends) / returnShare)
	off := 0
	if err == nil && len(about) > 0 {
		var ok bool
		if off, ok = u.placeLocked(len(about)); !ok {
			err = errFull
		}
	}
	if err == nil {
		copy(u.data[off:], about)
		e[2] = uint64(b.off) | uint64(off)<<32
		u.lent.lend(int(b.off), e.Peer())
		asked.ask(&e, about)
		u.appendLocked(e)
		u.publishLocked()
		u.keepLocked(b)
	}
	u.mu.Unlock()
	if err == nil {
		u.wake()
	}
	return err
}

// returned gives received memory back. The daemon hears of it when it needs
// memory, or some time.
func (u *submission) returned(block uint32, n uint64) {
	e := ipc.MakeEntry(ipc.OpReturn, 0, 0, 0, 0, 0, block, 0, n)
	u.mu.Lock()
	if u.dead {
		u.mu.Unlock()
		return
	}
	if err := u.roomLocked(0); err != nil {
		u.returns = append(u.returns, e)
		u.giveBackLocked()
	} else {
		u.appendLocked(e)
		u.ring.Publish()
	}
	u.quiet++
	late := u.quiet >= quietReturns
	if late {
		u.quiet = 0
	}
	u.mu.Unlock()
	if u.seg.WantReturns().Take() {
		u.bell.Ring()
	} else if late {
		u.wake()
	}
}

// giveBackLocked puts the returns on the ring that found it full. If it still is the
// daemon is to tell of room: all that the application does meanwhile may be to wait for
// messages, which the daemon has no memory for.
func (u *submission) giveBackLocked() {
	for range 2 {
		if _ = u.roomLocked(0); len(u.returns) == 0 || u.dead {
			break
		}
		u.want.Set() // then look again: the daemon may have made room before it saw the flag
	}
	u.ring.Publish()
}

// spaced follows the daemon's word that there is room.
func (u *submission) spaced() {
	u.mu.Lock()
	more := len(u.returns) > 0 && !u.dead
	if more {
		u.giveBackLocked()
	}
	u.mu.Unlock()
	if more && (u.seg.WantReturns().Take() || u.sleeps.Take()) {
		u.bell.Ring()
	}
	u.space.Wake(-1)
}

// sendBuffer is a block of the send arena.
type sendBuffer struct {
	buf.Buf
	u   *submission
	t   *attachment // keeps the memory mapped
	off uint32
}

// maxSpareBuffers bounds the records kept for new buffers.
const maxSpareBuffers = 64

// alloc returns a buffer of n bytes of the send arena, nil if there is none.
func (t *attachment) alloc(n int) *sendBuffer {
	u := &t.submission
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.dead {
		return nil
	}
	off, size, ok := u.arena.Alloc(n)
	if !ok {
		return nil
	}
	if !u.seg.MayTouch(&u.touched, off+size) {
		u.arena.Release(off)
		u.seg.Trim(u.arena, u.bodies, &u.touched)
		return nil
	}
	u.lent.block(off).size = int32(size)
	u.lent.used += size
	var b *sendBuffer
	if i := len(u.spare) - 1; i >= 0 {
		b, u.spare = u.spare[i], u.spare[:i]
	} else {
		b = &sendBuffer{u: u, t: t}
	}
	b.off = uint32(off)
	b.Lend(u.bodies[off:off+n:off+size], b)
	return b
}

// Put takes a buffer back that was not sent.
func (b *sendBuffer) Put(*buf.Buf) {
	u := b.u
	u.mu.Lock()
	u.arena.Release(int(b.off))
	u.lent.free(int(b.off))
	u.keepLocked(b)
	u.mu.Unlock()
	u.space.Wake(-1)
}

// keepLocked keeps the record of a buffer that is gone.
func (u *submission) keepLocked(b *sendBuffer) {
	if len(u.spare) < maxSpareBuffers {
		u.spare = append(u.spare, b)
	}
}

// freed takes back a buffer that was sent.
func (u *submission) freed(off uint32) {
	u.mu.Lock()
	u.arena.Release(int(off))
	u.lent.free(int(off))
	if u.seg.Short().IsSet() && u.arena.Empty(int(off)) {
		u.seg.Trim(u.arena, u.bodies, &u.touched)
	}
	u.mu.Unlock()
	u.space.Wake(-1)
}

// inArena returns the block of the send arena that holds all of a message's data,
// and that nobody shares.
func inArena(m *datagram.Message, t *attachment) (*sendBuffer, bool) {
	at := m.Held()
	if at == nil || len(m.Data) == 0 {
		return nil, false
	}
	b, ok := at.Owner().(*sendBuffer)
	return b, ok && b.t == t && b.Sole() && &m.Data[0] == &b.B[0]
}

package client

import (
	"github.com/rds-go/rds/conn"
	"github.com/rds-go/rds/internal/ipc"
	"github.com/rds-go/rds/internal/socket"
)

// turn takes the completions there are: it sorts messages into the sockets' queues
// and wakes those who wait, each once. The caller has the role of who listens.
func (t *attachment) turn() (some bool, err error) {
	l := &t.listening
	n, err := l.cq.Refresh()
	if n == 0 || err != nil {
		return false, err
	}
	if l.d.from.slot != t.table.Slot(int(l.d.peer)) { // The slot may be another peer's since the last turn; entries that name a slot keep it.
		l.d.from = origin{}
	}
	for i := range n {
		e := l.cq.Peek(i)
		l.d.take(&e)
	}
	l.cq.Next(n)
	l.cq.Publish()
	l.d.finish()
	if t.seg.WantCompletions().Take() {
		t.bell.Ring()
	}
	return true, nil
}

// delivery is what a turn has under way.
type delivery struct {
	t       *attachment
	sock    *Socket // socket whose messages are being queued; its q.mu is held
	id      uint32  // handle of sock
	bytes   int
	count   int
	block   *block // the block of the last message
	off     uint32
	more    int    // messages in block besides the one that the block was granted for
	from    origin // sender of the last message
	peer    uint32
	touched []*Socket
	spilled uint64 // messages that were spilled before they were on the ring, in all
	space   bool
	maps    bool
}

func (d *delivery) take(e *ipc.Entry) {
	switch e.Op() {
	case ipc.OpMessage:
		if e.Flags()&ipc.FlagSpilled != 0 {
			d.spilled++
		}
		d.message(e)
	case ipc.OpFreed:
		d.t.submission.freed(e.Offset())
	case ipc.OpFate:
		d.t.fated(e.Socket(), conn.Fate{Token: e.Token(), Status: conn.Status(int32(e.Length()))})
	case ipc.OpDone:
		if s := d.t.socket(e.Socket()); s != nil {
			s.operated(d.t, e)
		}
	case ipc.OpRetired:
		if s := d.t.socket(e.Socket()); s != nil {
			s.retired(d.t, e.Offset())
		}
	case ipc.OpExposed:
		d.t.exposed(e)
	case ipc.OpRoom:
		if s := d.t.socket(e.Socket()); s != nil {
			s.roomed()
		}
	case ipc.OpWork:
		d.t.objects.worked(e.Socket())
	case ipc.OpSpace:
		d.space = true
	case ipc.OpMaps:
		d.maps = true
	}
}

func (d *delivery) message(e *ipc.Entry) {
	t := d.t
	if d.from.remote == nil || d.peer != e.Peer() {
		d.from, d.peer = t.origin(e.Peer()), e.Peer()
	}
	it := socket.Item{From: d.from.remote, Peer: e.Peer(), Seq: e.Token(), Length: e.Length(), Sport: e.Port(), Path: e.Flags() &^ (ipc.FlagDest | ipc.FlagSpilled), Dest: e.Flags()&ipc.FlagDest != 0}
	if e.Block() != ipc.NoBlock {
		if d.block == nil || d.off != e.Block() {
			d.settle()
			d.block, d.off = t.memory.grant(e.Block(), 1), e.Block()
		} else {
			d.more++
		}
		it.Buf, it.Off = &d.block.Buf, e.Offset()-e.Block()
	}
	s := d.sock
	if s == nil || d.id != e.Socket() {
		d.leave()
		if s = t.socket(e.Socket()); s == nil {
			var kept bool
			if s, kept = t.keepEarly(e.Socket(), it); kept {
				d.block = nil // once the entry is published, block may be released
				return
			}
		}
		if s == nil { // the socket is closed
			if it.Buf != nil {
				d.settle()
				it.Buf.Release()
				d.block = nil
			}
			return
		}
		s.Queue.Mu.Lock()
		d.sock, d.id = s, e.Socket()
	}
	if s.Queue.Closed {
		d.leave()
		if it.Buf != nil {
			d.settle()
			it.Buf.Release()
			d.block = nil
		}
		return
	}
	pushClientLocked(&s.Queue, it)
	d.bytes += int(e.Length())
	d.count++
}

// settle counts the messages of the block at hand. The block is held by its
// first message of this turn until the queue is unlocked, at least.
func (d *delivery) settle() {
	if d.more > 0 {
		d.t.memory.grant(d.off, d.more)
		d.more = 0
	}
}

// leave ends the run of messages for the socket at hand.
func (d *delivery) leave() {
	s := d.sock
	if s == nil {
		return
	}
	d.settle()
	d.block = nil // once published, messages may be taken and released
	d.sock = nil
	if d.count > 0 {
		s.Queue.Bytes.Add(int64(d.bytes))
		s.Queue.Count.Add(int64(d.count))
		d.bytes, d.count = 0, 0
		d.touched = append(d.touched, s)
	}
	s.Queue.Mu.Unlock()
}

// finish wakes who waits for what came.
func (d *delivery) finish() {
	d.leave()
	d.settle()
	d.block = nil
	for i, s := range d.touched {
		s.WakeReaders()
		d.touched[i] = nil
	}
	d.touched = d.touched[:0]
	if d.space {
		d.space = false
		d.t.spaced()
	}
	if d.maps {
		d.maps = false
		d.t.mapNews()
	}
}

// mapNews tells senders and monitors that a congestion map has arrived.
func (t *attachment) mapNews() {
	t.peerNews()
	t.c.Mu.Lock()
	socks := make([]*Socket, 0, len(t.c.socks))
	for s := range t.c.socks {
		socks = append(socks, s)
	}
	t.c.Mu.Unlock()
	for _, s := range socks {
		s.CongestionNews()
	}
}

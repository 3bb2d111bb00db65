package client

import (
	"github.com/rds-go/rds/internal/buf"
	"github.com/rds-go/rds/internal/lockorder"
	"github.com/rds-go/rds/internal/socket"
	"github.com/rds-go/rds/rds/datagram"
)

// pushClientLocked is PushLocked in an application: a message that offers a region
// has its cookie where others have the sequence number.
func pushClientLocked(q *socket.Queue, it socket.Item) {
	if it.Dest {
		q.InDest = append(q.InDest, datagram.Cookie(it.Seq))
	}
	q.PushLocked(it)
}

// memory counts, for each block of the receive arena in which the
// application has messages, how many: they go back to the daemon together.
type memory struct {
	t    *attachment
	area []byte

	mu     lockorder.Mutex[memory]
	blocks map[uint32]*block
	spare  []*block
}

// block is a block with messages that were not released yet.
type block struct {
	buf.Buf
	m       *memory
	off     uint32
	granted uint64 // messages it has had since the block was last returned
}

func (m *memory) init(t *attachment) {
	m.t, m.area, m.blocks = t, t.seg.ReceiveArea(), make(map[uint32]*block)
}

// grant counts n messages in the block at off.
func (m *memory) grant(off uint32, n int) *block {
	m.mu.Lock()
	defer m.mu.Unlock()
	k := m.blocks[off]
	if k == nil || !k.TryRetain(n) {
		if i := len(m.spare) - 1; i >= 0 {
			k, m.spare = m.spare[i], m.spare[:i]
		} else {
			k = &block{m: m}
		}
		k.off, k.granted = off, 0
		k.Lend(m.area[off:], k)
		if n > 1 {
			k.Retain(n - 1)
		}
		m.blocks[off] = k
	}
	k.granted += uint64(n)
	return k
}

// Put returns the block's messages: the last one was released.
func (k *block) Put(*buf.Buf) {
	m := k.m
	m.mu.Lock()
	off, n := k.off, k.granted
	if m.blocks[off] == k {
		delete(m.blocks, off)
	}
	if len(m.spare) < maxSpareRecords {
		m.spare = append(m.spare, k)
	}
	m.mu.Unlock()
	m.t.submission.returned(off, n)
}

// maxSpareRecords bounds the records kept for new blocks.
const maxSpareRecords = 64

package rds

import (
	"sync"

	"github.com/rds-go/rds/internal/buf"
)

// pushClientLocked is pushLocked in an application: a message that offers a region
// has its cookie where others have the sequence number.
func pushClientLocked(q *recvQueue, it recvItem) {
	if it.dest {
		q.inDest = append(q.inDest, Cookie(it.seq))
	}
	q.pushLocked(it)
}

// clientMemory counts, for each block of the receive arena in which the
// application has messages, how many: they go back to the daemon together.
type clientMemory struct {
	t    *attachment
	area []byte

	mu     sync.Mutex
	blocks map[uint32]*clientBlock
	spare  []*clientBlock
}

// clientBlock is a block with messages that were not released yet.
type clientBlock struct {
	buf.Buf
	m       *clientMemory
	off     uint32
	granted uint64 // messages it has had since the block was last returned
}

func (m *clientMemory) init(t *attachment) {
	m.t, m.area, m.blocks = t, t.seg.ReceiveArea(), make(map[uint32]*clientBlock)
}

// grant counts n messages in the block at off.
func (m *clientMemory) grant(off uint32, n int) *clientBlock {
	m.mu.Lock()
	defer m.mu.Unlock()
	k := m.blocks[off]
	if k == nil || !k.TryRetain(n) {
		if i := len(m.spare) - 1; i >= 0 {
			k, m.spare = m.spare[i], m.spare[:i]
		} else {
			k = &clientBlock{m: m}
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
func (k *clientBlock) Put(*buf.Buf) {
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

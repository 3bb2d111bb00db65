package transporttest

import (
	"slices"
	"sync"

	"github.com/rds-go/rds/internal/buf"
	"github.com/rds-go/rds/internal/wire"
)

// Hearer is a transport.Handler that keeps the numbers of messages made by a Sender.
type Hearer struct {
	Simple
	OnMessage func(seq uint64) // called first, if it is not nil
	Room      chan struct{}    // hears of Writable
	Over      chan struct{}    // closed by Closed

	mu   sync.Mutex
	seqs []uint64 // guarded by mu
}

// NewHearer returns a Hearer that up to room calls of Writable do not block.
func NewHearer(room int) *Hearer {
	return &Hearer{Room: make(chan struct{}, room), Over: make(chan struct{})}
}

// Message takes a message.
func (l *Hearer) Message(h *wire.Header, payload []byte, owned *buf.Buf) {
	if !Filled(payload, h.Sequence) {
		panic("a message is not what was sent")
	}
	if l.OnMessage != nil {
		l.OnMessage(h.Sequence)
	}
	l.mu.Lock()
	l.seqs = append(l.seqs, h.Sequence)
	l.mu.Unlock()
	if owned != nil {
		owned.Release()
	}
}

// Writable notes that the link has room.
func (l *Hearer) Writable() { l.Room <- struct{}{} }

// Closed notes the link's end.
func (l *Hearer) Closed(error, uint64) { close(l.Over) }

// Got is the numbers of the messages so far.
func (l *Hearer) Got() []uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.seqs)
}

package ipc

import (
	"errors"
	"fmt"
	"math"
)

// Version of the layout and of the calls. Both sides must have the same.
const Version = 2

// magic begins a segment: "RDSIPC" and the version.
const magic = 0x52445349504300<<8 | Version

// Offsets in the first page of a segment. Fields written by different sides,
// or at different rates, are in different blocks of 128 bytes: two cache lines,
// which adjacent line prefetchers fetch together. A flag is with the side that
// sets it; the other writes to it only to answer.
const (
	offMagic   = 0x000
	offLayout  = 0x008 // the fields of Layout, in order, 8 bytes each
	offSQTail  = 0x100 // application
	offSQHead  = 0x180 // daemon
	offSQSleep = 0x200 // daemon sets, application clears
	offCQTail  = 0x280 // daemon
	offCQHead  = 0x300 // application
	offCQSleep = 0x380 // application sets, daemon clears
	offWantSQ  = 0x400 // application sets, daemon clears: wants OpSpace once submissions were consumed
	offWantMap = 0x480 // application sets, daemon clears: wants OpMaps when a congestion map has arrived
	offWantCQ  = 0x500 // daemon sets, application clears: wants the bell once completions were consumed
	offWantRet = 0x580 // daemon sets, application clears: wants the bell when memory is returned
	offLeft    = 0x600 // daemon sets and never clears: it takes no more submissions
	offHeld    = 0x680 // daemon: memory of messages that wait for peers that are down
	offSpill   = 0x700 // daemon: where the oldest block of spilled completions is
	offTaking  = 0x780 // daemon: which submissions it has not touched
	offShort   = 0x800 // daemon sets and clears: the application is to touch no more pages

	pageSize = 4096
)

// Sizes of entries and cells.
const (
	entrySize = 32
	cellSize  = 256

	// cellWaits is how many waits of senders a cell has room for.
	cellWaits = 3
)

// Offsets in a socket's cell.
const (
	offFreedBytes = 0x00 // daemon, together with offFreedMsgs
	offFreedMsgs  = 0x08
	offCellHeld   = 0x10 // daemon
	offBoundBy    = 0x18 // daemon, together with offNumber
	offNumber     = 0x20
	offTell       = 0x40 // daemon sets, application clears: wants the bell when more was taken
	offTakenBytes = 0x80 // application, together with offTakenMsgs
	offTakenMsgs  = 0x88
	offBlocked    = 0x90 // application: sends that waited for congestion to end
	offCongested  = 0x98 // application: sends refused for congestion
	offFull       = 0xa0 // application: sends that met a full send buffer, ring or arena
	offWantRoom   = 0xc0 // application sets, daemon clears: wants OpRoom when messages were settled
	offWaits      = 0xd0 // application: what senders wait for, cellWaits times 16 bytes
)

// Layout is where things are in a segment: counts, and areas in bytes.
type Layout struct {
	Submissions int // entries, a power of two
	Completions int // entries, a power of two
	Sockets     int // cells
	Data        int // bytes of the ring of small payloads to send
	Send        int // bytes of the arena of large payloads to send
	Receive     int // bytes of the arena of received payloads
	Memory      int // bytes of the memory for regions and operations
}

var errLayout = errors.New("ipc: bad segment layout")

func powerOfTwo(n int) bool { return n > 0 && n&(n-1) == 0 }

// validate checks the bounds that the arithmetic of offsets relies on.
func (l *Layout) validate() error {
	switch {
	case !powerOfTwo(l.Submissions) || l.Submissions > 1<<20,
		!powerOfTwo(l.Completions) || l.Completions > 1<<20,
		l.Sockets < 1 || l.Sockets > 1<<20,
		!powerOfTwo(l.Data) || l.Data < 64<<10 || l.Data > 1<<30,
		!powerOfTwo(l.Send) || l.Send < ChunkSize || l.Send > 1<<30,
		!powerOfTwo(l.Receive) || l.Receive < ChunkSize || l.Receive > 1<<30,
		!powerOfTwo(l.Memory) || l.Memory < ChunkSize || l.Memory > 1<<30:
		return fmt.Errorf("%w: %+v", errLayout, *l)
	case l.total() > math.MaxInt: // int has 32 bits
		return fmt.Errorf("%w: too large for this machine", errLayout)
	}
	return nil
}

func pages(n int) int { return (n + pageSize - 1) &^ (pageSize - 1) }

func (l *Layout) sqOff() int      { return pageSize }
func (l *Layout) cqOff() int      { return l.sqOff() + pages(l.Submissions*entrySize) }
func (l *Layout) cellsOff() int   { return l.cqOff() + pages(l.Completions*entrySize) }
func (l *Layout) dataOff() int    { return l.cellsOff() + pages(l.Sockets*cellSize) }
func (l *Layout) sendOff() int    { return l.dataOff() + l.Data }
func (l *Layout) receiveOff() int { return l.sendOff() + l.Send }

func (l *Layout) memoryOff() int { return l.receiveOff() + l.Receive }

// Size is the length of the segment.
func (l *Layout) Size() int { return l.memoryOff() + l.Memory }

// total is Size where that may be more than an int holds.
func (l *Layout) total() int64 {
	return int64(l.dataOff()) + int64(l.Data) + int64(l.Send) + int64(l.Receive) + int64(l.Memory)
}

// maxSegment is the size of the largest segment Validate lets pass.
const maxSegment = pageSize + 2*(1<<20*entrySize) + 1<<20*cellSize + 4<<30

func (l *Layout) fields() []*int {
	return []*int{&l.Submissions, &l.Completions, &l.Sockets, &l.Data, &l.Send, &l.Receive, &l.Memory}
}

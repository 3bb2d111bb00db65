package ipc

import (
	"fmt"
	"math"
	"os"
	"sync/atomic"
)

// Segment is the shared memory of one session as one side has it mapped. A
// segment that was closed must not be used, nor anything it gave out.
type Segment struct {
	Layout
	mem []byte
}

// NewSegment makes a segment and the file to hand to the application. Its size
// is sealed: nobody can make an access to it fail by shrinking the file.
func NewSegment(l Layout) (*Segment, *os.File, error) {
	if err := l.validate(); err != nil {
		return nil, nil, err
	}
	f, err := memfd("rds-session", l.Size())
	if err != nil {
		return nil, nil, err
	}
	s := &Segment{Layout: l}
	// Were more seals possible, the application could forbid with
	// F_SEAL_FUTURE_WRITE that Discard frees the pages.
	if err = sealSeals(f); err == nil {
		s.mem, err = mmap(f, l.Size(), true)
	}
	if err != nil {
		_ = f.Close()
		return nil, nil, err
	}
	s.format()
	return s, f, nil
}

// format writes the first page.
func (s *Segment) format() {
	for i, v := range s.fields() {
		s.word(offLayout + 8*i).Store(uint64(*v))
	}
	s.word(offMagic).Store(magic)
}

// OpenSegment maps the segment in f, whose first page says what its layout is.
func OpenSegment(f *os.File) (*Segment, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if info.Size() < pageSize || info.Size() > min(maxSegment, math.MaxInt) {
		return nil, fmt.Errorf("%w: %d bytes", errLayout, info.Size())
	}
	s := new(Segment)
	if s.mem, err = mmap(f, int(info.Size()), true); err != nil {
		return nil, err
	}
	if err := s.parse(); err != nil {
		_ = s.Close()
		return nil, err
	}
	return s, nil
}

// parse reads the first page and checks it against the segment's length.
func (s *Segment) parse() error {
	if got := s.word(offMagic).Load(); got != magic {
		return fmt.Errorf("%w: magic %#x", errLayout, got)
	}
	for i, v := range s.fields() {
		w := s.word(offLayout + 8*i).Load()
		if w > 1<<30 {
			return fmt.Errorf("%w: %d in field %d", errLayout, w, i)
		}
		*v = int(w)
	}
	if err := s.validate(); err != nil {
		return err
	}
	if s.Size() != len(s.mem) {
		return fmt.Errorf("%w: %d bytes, want %d", errLayout, len(s.mem), s.Size())
	}
	return nil
}

// Close unmaps the segment.
func (s *Segment) Close() error {
	mem := s.mem
	s.mem = nil
	if mem == nil {
		return nil
	}
	return munmap(mem)
}

func (s *Segment) word(off int) *atomic.Uint64 { return atomic64(s.mem[off:]) }
func (s *Segment) flag(off int) Flag           { return Flag{atomic32(s.mem[off:])} }

func (s *Segment) sq() []Entry {
	return entries(s.mem[s.sqOff() : s.sqOff()+s.Submissions*entrySize])
}

func (s *Segment) cq() []Entry {
	return entries(s.mem[s.cqOff() : s.cqOff()+s.Completions*entrySize])
}

// Submit and Submitted are the ends of the submission ring.
func (s *Segment) Submit() Producer {
	return NewProducer(s.sq(), s.word(offSQTail), s.word(offSQHead))
}

// Submitted is the daemon's end of the submission ring.
func (s *Segment) Submitted() Consumer {
	return NewConsumer(s.sq(), s.word(offSQTail), s.word(offSQHead))
}

// Complete is the daemon's end of the completion ring.
func (s *Segment) Complete() Producer {
	return NewProducer(s.cq(), s.word(offCQTail), s.word(offCQHead))
}

// Completed is the application's end of the completion ring.
func (s *Segment) Completed() Consumer {
	return NewConsumer(s.cq(), s.word(offCQTail), s.word(offCQHead))
}

// DaemonSleeps and ApplicationSleeps are the flags of the two doorbells.
func (s *Segment) DaemonSleeps() Flag { return s.flag(offSQSleep) }

// ApplicationSleeps is raised before the application waits for its bell.
func (s *Segment) ApplicationSleeps() Flag { return s.flag(offCQSleep) }

// WantSpace asks the daemon for OpSpace once it has consumed submissions.
func (s *Segment) WantSpace() Flag { return s.flag(offWantSQ) }

// WantMaps asks the daemon for OpMaps when a congestion map arrives.
func (s *Segment) WantMaps() Flag { return s.flag(offWantMap) }

// WantCompletions asks the application to ring once it has consumed
// completions.
func (s *Segment) WantCompletions() Flag { return s.flag(offWantCQ) }

// WantReturns asks the application to ring when it returns memory.
func (s *Segment) WantReturns() Flag { return s.flag(offWantRet) }

// Left says that the daemon takes no more submissions: those behind the submission
// head are the application's again. It is never cleared.
func (s *Segment) Left() Flag { return s.flag(offLeft) }

// Taking is the index of the first submission that the daemon has not begun to take, and
// 1; 0: the daemon does not say. The daemon writes it.
func (s *Segment) Taking() *atomic.Uint64 { return s.word(offTaking) }

// Short says that the application is to touch no pages that it has not touched before: its
// user's share of memory is used up. The daemon sets and clears it.
func (s *Segment) Short() Flag { return s.flag(offShort) }

// Held is the memory of what was submitted and waits for peers that are down or hold
// it back. The daemon writes it.
func (s *Segment) Held() *atomic.Uint64 { return s.word(offHeld) }

// DataArea is the ring of small payloads to send.
func (s *Segment) DataArea() []byte { return s.area(s.dataOff(), s.Data) }

// SendArea is the arena of large payloads to send.
func (s *Segment) SendArea() []byte { return s.area(s.sendOff(), s.Send) }

// ReceiveArea is the arena of received payloads.
func (s *Segment) ReceiveArea() []byte { return s.area(s.receiveOff(), s.Receive) }

// MemoryArea is the memory for regions and operations.
func (s *Segment) MemoryArea() []byte { return s.area(s.memoryOff(), s.Memory) }

func (s *Segment) area(off, n int) []byte { return s.mem[off : off+n : off+n] }

// Cell is what the two sides tell each other about one socket, without a
// message: sums that only grow, each written by one of them.
type Cell struct {
	FreedBytes, FreedMessages *atomic.Uint64 // daemon: submitted bytes and messages that were settled
	Held                      *atomic.Uint64 // daemon: bytes that wait for peers that are down or hold them back
	BoundBy                   *atomic.Uint64 // daemon: ID of the call that bound the socket
	Number                    *atomic.Uint32 // daemon: number of the socket that BoundBy has bound
	Tell                      Flag           // daemon: wants the bell when more is taken
	TakenBytes, TakenMessages *atomic.Uint64 // application: delivered bytes and messages that the application has received
	WantRoom                  Flag           // application: wants OpRoom when more is settled

	// Sums of the application's, for reports: sends that waited for congestion to end,
	// were refused for it, and met a full send buffer, ring or arena.
	Blocked, Congested, Full *atomic.Uint64
	// Waits are what senders of the socket wait for, the oldest first.
	Waits [cellWaits]CellWait
}

// CellWait is what senders of a socket wait for, for reports.
type CellWait struct {
	what  *atomic.Uint64 // cause << 56 | senders << 48 | port << 32 | peer; 0: nothing
	since *atomic.Uint64 // Unix nanoseconds
}

// WaitCause is what a sender waits for.
type WaitCause uint8

// The causes of waits.
const (
	WaitRoom   WaitCause = iota + 1 // room in the send buffer; peer and port mean nothing
	WaitPort                        // the port at the peer, which is congested or held
	WaitMemory                      // room on the submission ring or in the send arena; peer and port mean nothing
	WaitPeer                        // room in the peer's share of the send buffer; port means nothing
)

// Set says what senders wait for.
func (w CellWait) Set(cause WaitCause, senders int, peer uint32, port uint16, since int64) {
	w.what.Store(0)
	w.since.Store(uint64(since))
	w.what.Store(uint64(cause)<<56 | uint64(min(senders, 255))<<48 | uint64(port)<<32 | uint64(peer))
}

// Clear says that senders wait for nothing.
func (w CellWait) Clear() { w.what.Store(0) }

// Get returns what Set said, and cause 0 after Clear. It may be anything: another process
// writes it.
func (w CellWait) Get() (cause WaitCause, senders int, peer uint32, port uint16, since int64) {
	v := w.what.Load()
	return WaitCause(v >> 56), int(uint8(v >> 48)), uint32(v), uint16(v >> 32), int64(w.since.Load())
}

// Cell returns the cell of a socket, an index below Sockets.
func (s *Segment) Cell(socket int) Cell {
	b := s.area(s.cellsOff(), s.Sockets*cellSize)[socket*cellSize:][:cellSize] // slicing panics for a socket outside the cells
	c := Cell{
		Blocked: atomic64(b[offBlocked:]), Congested: atomic64(b[offCongested:]), Full: atomic64(b[offFull:]),
		FreedBytes: atomic64(b[offFreedBytes:]), FreedMessages: atomic64(b[offFreedMsgs:]), Held: atomic64(b[offCellHeld:]), BoundBy: atomic64(b[offBoundBy:]), Number: atomic32(b[offNumber:]), Tell: Flag{atomic32(b[offTell:])},
		TakenBytes: atomic64(b[offTakenBytes:]), TakenMessages: atomic64(b[offTakenMsgs:]), WantRoom: Flag{atomic32(b[offWantRoom:])},
	}
	for i := range c.Waits {
		c.Waits[i] = CellWait{atomic64(b[offWaits+16*i:]), atomic64(b[offWaits+16*i+8:])}
	}
	return c
}

// Reset makes the cell as new, for another socket.
func (c *Cell) Reset() {
	for _, w := range []*atomic.Uint64{c.FreedBytes, c.FreedMessages, c.Held, c.BoundBy, c.TakenBytes, c.TakenMessages, c.Blocked, c.Congested, c.Full} {
		w.Store(0)
	}
	for _, w := range c.Waits {
		w.Clear()
	}
	c.Tell.Clear()
	c.WantRoom.Clear()
}

// DiscardChunk gives the memory of the chunk around off of the receive arena back.
func (s *Segment) DiscardChunk(off int) {
	discard(s.ReceiveArea()[off/ChunkSize*ChunkSize:][:ChunkSize])
}

// discardPart gives the pages of a part of an area back.
func (s *Segment) discardPart(part []byte) { discard(part) }

// Discard gives the memory back to the system. The segment stays mapped and
// reads as zeros.
func (s *Segment) Discard() { discard(s.mem) }

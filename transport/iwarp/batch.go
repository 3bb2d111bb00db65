package iwarp

import (
	"encoding/binary"

	"github.com/rds-go/rds/internal/buf"
	"github.com/rds-go/rds/mr"
	"github.com/rds-go/rds/transport"
	"github.com/rds-go/rds/transport/iwarp/mpa"
)

// Bounds of one batch, which is what one vectored write takes.
const (
	batchBytes = 256 << 10
	// frameBytes is batchBytes for frames on a connection without a CRC. They are not copied,
	// and leave the batch if the socket does not take them, so that nothing waits behind them.
	frameBytes  = 1 << 20
	batchPieces = transport.MaxSlices // so that a write is short only when the socket is full
	// copyMost is the payload of a segment that is copied behind its header
	// rather than written from where it lies: a piece more costs the system
	// call more than so short a copy.
	copyMost = 2 << 10
	// stageLeast is the size of the buffer a batch starts with.
	stageLeast = 16 << 10
)

// batch is what is being written: FPDUs, as pieces of a staging buffer and of
// registered memory, and where in it segments, messages and answers end.
//
// With a CRC, payload that others may change is copied to the staging buffer
// first: what the peer reads, and everything on a connection that programs share.
// Memory that changed between the CRC's pass and the system call's would cost the
// connection. The memory of a Send or Write of a program's own connection must not
// change until it completes, so it is trusted.
type batch struct {
	pool    *buf.Pool
	crc     bool
	markers *mpa.MarkerWriter // puts markers into the stream; nil: no markers
	scratch []byte            // an FPDU before its markers are put in
	own     [][]byte          // memory that the caller of SendFrames lends, or that was found in a section, until unlend

	stage  *buf.Buf
	pieces []piece
	marks  []mark
	lends  bool // some pieces are registered memory
	// borrows: some are memory that is valid in the section at hand, as own; unlend
	// ends that.
	borrows bool
	undo    undo   // state before the FPDU that is being built
	ulpdu   int    // length of the ULPDU of the FPDU being built
	sum     uint32 // CRC of that FPDU's content up to summed
	summed  int    // bytes of the staging buffer, and of lent memory behind it, that sum covers
	staged  int    // bytes of the staging buffer that pieces cover
	size    int    // bytes in all pieces
	before  mpa.MarkerWriter

	written int // bytes of the batch that were written
	piece   int // the first piece that is not written whole
	off     int // bytes of that piece that were written
	mark    int // the first of marks that is not reached
	iov     [][]byte
}

// piece is a run of bytes: registered memory, or if key is 0 of the staging
// buffer, or if own is set one of batch.own.
type piece struct {
	key    mr.Key
	own    bool
	n      int
	use    *mr.Use // read of the peer that the memory is for, so the peer's rights count, in domain; nil: the memory is the program's own
	domain *mr.Domain
	addr   uint64 // address in the region; or offset in the staging buffer; or index in own
}

// mark is the end of an FPDU.
type mark struct {
	end      int              // bytes from the start of the batch
	requests uint32           // work requests that end at this byte
	markers  mpa.MarkerWriter // state of the marker writer after the FPDU
}

// undo is what begin changes.
type undo struct {
	stage, pieces, last, staged, size int
}

func (b *batch) empty() bool { return b.written == b.size }

// full tells whether the batch has no room for one more segment.
func (b *batch) full() bool {
	return b.size >= batchBytes || len(b.pieces) > batchPieces-MaxSGE-3
}

// fullOfFrames is full for one more segment of frames.
func (b *batch) fullOfFrames() bool {
	return b.size >= frameBytes || b.crc && b.size >= batchBytes || len(b.pieces) > batchPieces-2*frameSlices
}

// crammed tells whether it has none for a short message either. What was added last
// may be of any length.
func (b *batch) crammed() bool {
	return b.size >= batchBytes+mpa.MaxULPDU+shortMost || len(b.pieces) > batchPieces-MaxSGE-3
}

func (b *batch) reset() {
	b.pieces, b.marks = b.pieces[:0], b.marks[:0]
	b.lends, b.borrows = false, false
	clear(b.own)
	b.own = b.own[:0]
	b.staged, b.size, b.written, b.piece, b.off, b.mark = 0, 0, 0, 0, 0, 0
	if b.markers != nil {
		b.before = *b.markers
	}
	if b.stage != nil {
		b.stage.B = b.stage.B[:0]
	}
}

// release gives the staging buffer back while there is nothing to send.
func (b *batch) release() {
	if b.stage != nil {
		b.stage.Release()
		b.stage = nil
	}
}

// grow makes room for n more bytes in the staging buffer.
func (b *batch) grow(n int) {
	if b.stage != nil && cap(b.stage.B)-len(b.stage.B) >= n {
		return
	}
	have := 0
	if b.stage != nil {
		have = len(b.stage.B)
	}
	size := max(stageLeast, 2*(have+n))
	if b.crc && n >= stageLeast {
		size = max(size, batchBytes+n) // all of the batch is staged: there is nothing to grow a second time
	}
	next := b.pool.Get(size)
	next.B = next.B[:0]
	if b.stage != nil {
		next.B = append(next.B, b.stage.B...)
		b.stage.Release()
	}
	b.stage = next
}

// begin starts the FPDU of a ULPDU of n bytes. The ULPDU follows, by writes to
// stage.B and lend, in this order; then end, or drop.
func (b *batch) begin(n int) {
	b.grow(mpa.FPDULen(n))
	b.undo = undo{stage: len(b.stage.B), pieces: len(b.pieces), staged: b.staged, size: b.size}
	if len(b.pieces) > 0 {
		b.undo.last = b.pieces[len(b.pieces)-1].n
	}
	b.ulpdu, b.sum, b.summed = n, 0, len(b.stage.B)
	b.stage.B = binary.BigEndian.AppendUint16(b.stage.B, uint16(n))
}

// drop takes the FPDU that was begun out again.
func (b *batch) drop() {
	u := b.undo
	b.stage.B = b.stage.B[:u.stage]
	b.pieces = b.pieces[:u.pieces]
	if u.pieces > 0 {
		b.pieces[u.pieces-1].n = u.last
	}
	b.staged, b.size = u.staged, u.size
}

// copies tells whether a payload of n bytes belongs in the staging buffer. trusted
// is whether it stays as it is.
func (b *batch) copies(n int, trusted bool) bool {
	return b.crc && !trusted || b.markers != nil || n <= copyMost
}

// lend adds registered memory, which is looked up again when it is written.
func (b *batch) lend(p piece, mem []byte) {
	if b.crc {
		b.sum = mpa.UpdateCRC(b.sum, b.stage.B[b.summed:])
		b.sum = mpa.UpdateCRC(b.sum, mem)
		b.summed = len(b.stage.B)
	}
	b.cover()
	b.pieces = append(b.pieces, p)
	b.size += p.n
	b.lends = true
}

// lendOwn adds memory that stays where it is until unlend.
func (b *batch) lendOwn(mem []byte) {
	if b.crc {
		b.sum = mpa.UpdateCRC(b.sum, b.stage.B[b.summed:])
		b.sum = mpa.UpdateCRC(b.sum, mem)
		b.summed = len(b.stage.B)
	}
	b.cover()
	b.pieces = append(b.pieces, piece{own: true, n: len(mem), addr: uint64(len(b.own))})
	b.own = append(b.own, mem)
	b.size += len(mem)
}

// borrow adds memory of who sends frames.
func (b *batch) borrow(mem []byte) {
	if len(mem) <= copyLeast || b.crc {
		// With a CRC also since a program may share the memory with others: what they
		// change between the CRC and the write would cost the connection.
		b.stage.B = append(b.stage.B, mem...)
		return
	}
	b.lendOwn(mem)
	b.borrows = true
}

// copyLeast is how short a piece must be for its copy to cost less than an element more of
// the system call's vector.
const copyLeast = 256

// trim takes out what lies behind the first end bytes, where an FPDU ends, or the batch
// begins. Nothing of that is written.
func (b *batch) trim(end int) {
	for b.size > end {
		last := &b.pieces[len(b.pieces)-1]
		n := min(last.n, b.size-end)
		b.size -= n
		if last.n -= n; last.n == 0 {
			b.pieces = b.pieces[:len(b.pieces)-1]
		}
	}
	for k := len(b.marks); k > 0 && b.marks[k-1].end > end; k-- {
		b.marks = b.marks[:k-1]
	}
}

// cover makes a piece of what was added to the staging buffer.
func (b *batch) cover() {
	n := len(b.stage.B) - b.staged
	if n == 0 {
		return
	}
	if last := len(b.pieces) - 1; last >= 0 && b.pieces[last].key == 0 && !b.pieces[last].own {
		b.pieces[last].n += n // staged pieces are adjacent
	} else {
		b.pieces = append(b.pieces, piece{n: n, addr: uint64(b.staged)})
	}
	b.staged += n
	b.size += n
}

// end adds padding and CRC to the FPDU.
func (b *batch) end(m mark) {
	var zero [mpa.CRCLen]byte
	b.stage.B = append(b.stage.B, zero[:mpa.Pad(b.ulpdu)]...)
	content := b.stage.B[b.undo.stage:]
	switch {
	case b.markers != nil:
		b.scratch = append(b.scratch[:0], content...)
		b.stage.B = b.stage.B[:b.undo.stage]
		b.grow(len(b.scratch) + mpa.CRCLen + mpa.MarkerLen*mpa.MaxMarkers(len(b.scratch)))
		b.stage.B = b.markers.Append(b.stage.B, b.scratch, b.crc)
		m.markers = *b.markers
	case b.crc:
		sum := mpa.UpdateCRC(b.sum, b.stage.B[b.summed:])
		b.stage.B = append(b.stage.B, zero[:]...)
		mpa.PutCRC(b.stage.B[len(b.stage.B)-mpa.CRCLen:], sum)
	default:
		b.stage.B = append(b.stage.B, zero[:]...)
	}
	b.cover()
	m.end = b.size
	b.marks = append(b.marks, m)
}

// add puts in one whole ULPDU.
func (b *batch) add(ulpdu []byte) {
	b.begin(len(ulpdu))
	b.stage.B = append(b.stage.B, ulpdu...)
	b.end(mark{})
}

// slices lists what is left to write, up to registered memory that look does not
// find any more, and how much it is.
func (b *batch) slices(look func(*piece) ([]byte, bool)) (iov [][]byte, size int) {
	iov = b.iov[:0]
	for i := b.piece; i < len(b.pieces); i++ {
		p := &b.pieces[i]
		var mem []byte
		if p.own {
			mem = b.own[p.addr]
		} else if p.key == 0 {
			mem = b.stage.B[p.addr:][:p.n]
		} else if m, ok := look(p); ok {
			mem = m
		} else {
			break
		}
		if i == b.piece {
			mem = mem[b.off:]
		}
		iov = append(iov, mem)
		size += len(mem)
	}
	b.iov = iov
	return iov, size
}

// unlend copies what lendOwn has added and is not among the next n bytes, which are
// written.
func (b *batch) unlend(n int) {
	n += b.off
	rest := 0
	for i, end := b.piece, 0; i < len(b.pieces); i++ {
		if end += b.pieces[i].n; b.pieces[i].own && end > n {
			rest += b.pieces[i].n
		}
	}
	stage := b.pool.Get(len(b.stage.B) + rest)
	stage.B = append(stage.B[:0], b.stage.B...)
	for i, end := b.piece, 0; i < len(b.pieces); i++ {
		p := &b.pieces[i]
		if end += p.n; p.own && end > n {
			stage.B = append(stage.B, b.own[p.addr]...)
			*p = piece{n: p.n, addr: uint64(len(stage.B) - p.n)}
		}
	}
	b.stage.Release()
	b.stage, b.borrows = stage, false
}

// next is the first piece that is not written whole.
func (b *batch) next() *piece { return &b.pieces[b.piece] }

// wrote notes that n more bytes are written and counts what ended in them.
func (b *batch) wrote(n int) (requests uint32) {
	b.written += n
	for n > 0 {
		left := b.pieces[b.piece].n - b.off
		if n < left {
			b.off += n
			break
		}
		n -= left
		b.piece++
		b.off = 0
	}
	for b.mark < len(b.marks) && b.marks[b.mark].end <= b.written {
		requests += b.marks[b.mark].requests
		b.mark++
	}
	return requests
}

// cut ends the batch after the FPDU that is partly written, and returns the rest
// of that one as a copy. It is not ok if its memory is gone.
func (b *batch) cut(look func(*piece) ([]byte, bool)) (rest []byte, ok bool) {
	defer b.reset()
	if b.empty() || b.mark == len(b.marks) {
		return nil, true
	}
	begun, markers := 0, b.before
	if b.mark > 0 {
		begun, markers = b.marks[b.mark-1].end, b.marks[b.mark-1].markers
	}
	partly := b.written > begun
	if b.markers != nil {
		*b.markers = markers
		if partly {
			*b.markers = b.marks[b.mark].markers
		}
	}
	if !partly {
		return nil, true
	}
	end := b.marks[b.mark].end
	iov, size := b.slices(look)
	left := end - b.written
	if size < left {
		return nil, false
	}
	for _, p := range iov {
		n := min(left, len(p))
		rest = append(rest, p[:n]...)
		left -= n
	}
	return rest, true
}

package work

import (
	"encoding/binary"

	"github.com/rds-go/rds/mr"
	"github.com/rds-go/rds/transport/iwarp"
)

// Sizes of the records: a request, which a receive is one kind of, and a completion.
const (
	RequestSize    = 128
	CompletionSize = 64
	PostSize       = 8
)

// Quiet in the ID of a request says that its success is no news: nobody is woken for it.
const Quiet = 1 << 63

// News tells whether somebody who waits is to hear of a completion.
func News(c *iwarp.Completion) bool {
	return c.Initiator == 0 || c.ID&Quiet == 0 || c.Status != iwarp.Success
}

// MaxInline is the most bytes that a request carries itself.
const MaxInline = 64

// Offsets in a request. What depends on its kind begins at offBody: pieces of memory, 16 bytes
// each, or inline bytes; with an atomic one piece, and its operands behind it.
const (
	offID         = 0x00
	offOp         = 0x08
	offFlags      = 0x09
	offPieces     = 0x0a
	offInline     = 0x0b
	offWrites     = 0x0c
	offQueue      = 0x10
	offKey        = 0x14
	offAddr       = 0x18
	offInvalidate = 0x20
	offImmediate  = 0x28
	offBody       = 0x30
	offOperands   = 0x40
	pieceSize     = 16
)

var native = binary.NativeEndian

// Request is a work request, or a receive, with the memory that it names.
type Request struct {
	iwarp.WorkRequest
	sge    [iwarp.MaxSGE]iwarp.SGE
	inline [MaxInline]byte
}

// PutRequest makes a record of a request. It is false if no record has room for that.
func PutRequest(to []byte, w *iwarp.WorkRequest) bool {
	atomic := isAtomic(w.Op)
	if len(w.SGE) > iwarp.MaxSGE || len(w.Inline) > MaxInline || len(w.Local) > 0 ||
		len(w.SGE) > 0 && len(w.Inline) > 0 || atomic && (len(w.SGE) > 1 || len(w.Inline) > 0) || w.Writes > 0xff {
		return false
	}
	to = to[:RequestSize]
	native.PutUint64(to[offID:], w.ID)
	to[offOp], to[offFlags], to[offPieces], to[offInline] = byte(w.Op), byte(w.Flags), byte(len(w.SGE)), byte(len(w.Inline))
	native.PutUint32(to[offWrites:], w.Writes)
	native.PutUint32(to[offQueue:], w.Queue)
	native.PutUint32(to[offKey:], uint32(w.RemoteKey))
	native.PutUint64(to[offAddr:], w.RemoteAddr)
	native.PutUint32(to[offInvalidate:], uint32(w.Invalidate))
	native.PutUint64(to[offImmediate:], w.Immediate)
	for i := range w.SGE {
		putPiece(to[offBody+i*pieceSize:], &w.SGE[i])
	}
	copy(to[offBody:], w.Inline)
	if atomic {
		for i, v := range operands(w) {
			native.PutUint64(to[offOperands+8*i:], *v)
		}
	}
	return true
}

// Load reads a request from a record, of which the other side may be writing. It is false for
// what is none.
func (r *Request) Load(from []byte) bool {
	var b [RequestSize]byte
	copy(b[:], from)
	r.WorkRequest = iwarp.WorkRequest{
		ID: native.Uint64(b[offID:]), Op: iwarp.Op(b[offOp]), Flags: iwarp.Flags(b[offFlags]), Writes: native.Uint32(b[offWrites:]),
		Queue: native.Uint32(b[offQueue:]), RemoteKey: mr.Key(native.Uint32(b[offKey:])), RemoteAddr: native.Uint64(b[offAddr:]),
		Invalidate: mr.Key(native.Uint32(b[offInvalidate:])), Immediate: native.Uint64(b[offImmediate:]),
	}
	pieces, inline, atomic := int(b[offPieces]), int(b[offInline]), isAtomic(r.Op)
	if r.Op > iwarp.OpReceive || r.Flags > iwarp.Signaled|iwarp.Solicited|iwarp.Fence || pieces > iwarp.MaxSGE || inline > MaxInline ||
		pieces > 0 && inline > 0 || atomic && (pieces > 1 || inline > 0) || r.Writes > 0xff {
		return false
	}
	for i := range pieces {
		r.sge[i] = piece(b[offBody+i*pieceSize:])
	}
	r.SGE = r.sge[:pieces]
	r.Inline = r.inline[:copy(r.inline[:inline], b[offBody:])]
	if atomic {
		for i, v := range operands(&r.WorkRequest) {
			*v = native.Uint64(b[offOperands+8*i:])
		}
	}
	return true
}

func isAtomic(op iwarp.Op) bool { return op == iwarp.OpFetchAdd || op == iwarp.OpCompareSwap }

// operands are those of an atomic operation, in the order of the record.
func operands(w *iwarp.WorkRequest) [6]*uint64 {
	return [...]*uint64{&w.Add, &w.AddMask, &w.Compare, &w.CompareMask, &w.Swap, &w.SwapMask}
}

func putPiece(to []byte, g *iwarp.SGE) {
	native.PutUint32(to, uint32(g.Key))
	native.PutUint32(to[4:], g.Len)
	native.PutUint64(to[8:], g.Addr)
}

func piece(b []byte) iwarp.SGE {
	return iwarp.SGE{Key: mr.Key(native.Uint32(b)), Len: native.Uint32(b[4:]), Addr: native.Uint64(b[8:])}
}

// PutReceive makes a record of a receive.
func PutReceive(to []byte, r *iwarp.ReceiveRequest) bool {
	return PutRequest(to, &iwarp.WorkRequest{ID: r.ID, Op: iwarp.OpReceive, SGE: r.SGE})
}

// Offsets in a completion.
const (
	offDone        = 0x08 // operation
	offStatus      = 0x09
	offSolicited   = 0x0a
	offLen         = 0x0c
	offFrom        = 0x10 // receive: the shared receive queue
	offInitiator   = 0x14
	offVendor      = 0x18
	offInvalidated = 0x1c
	offGot         = 0x20 // immediate data
	offTarget      = 0x28 // receive: the target that the message came by
)

// PutCompletion makes a record of a completion.
func PutCompletion(to []byte, c *iwarp.Completion) {
	to = to[:CompletionSize]
	native.PutUint64(to[offID:], c.ID)
	to[offDone], to[offStatus], to[offSolicited] = byte(c.Op), byte(c.Status), 0
	if c.Solicited {
		to[offSolicited] = 1
	}
	native.PutUint32(to[offLen:], c.Len)
	native.PutUint32(to[offFrom:], c.Queue)
	native.PutUint32(to[offInitiator:], c.Initiator)
	native.PutUint32(to[offVendor:], c.Vendor)
	native.PutUint32(to[offInvalidated:], uint32(c.Invalidated))
	native.PutUint64(to[offGot:], c.Immediate)
	native.PutUint32(to[offTarget:], c.Target)
}

// LoadCompletion reads a completion.
func LoadCompletion(b []byte) iwarp.Completion {
	return iwarp.Completion{
		ID: native.Uint64(b[offID:]), Op: iwarp.Op(b[offDone]), Status: iwarp.Status(b[offStatus]), Solicited: b[offSolicited] != 0,
		Len: native.Uint32(b[offLen:]), Queue: native.Uint32(b[offFrom:]), Initiator: native.Uint32(b[offInitiator:]),
		Vendor: native.Uint32(b[offVendor:]), Invalidated: mr.Key(native.Uint32(b[offInvalidated:])), Immediate: native.Uint64(b[offGot:]), Target: native.Uint32(b[offTarget:]),
	}
}

// PutPost and LoadPost are of the record that says in which queue there are new ones.
func PutPost(to []byte, object uint32) { native.PutUint64(to, uint64(object)) }

// LoadPost is what PutPost has put.
func LoadPost(b []byte) uint32 { return uint32(native.Uint64(b)) }

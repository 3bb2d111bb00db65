package ipc

import "encoding/binary"

// About is what a submission says besides its payload: about memory, and how long the
// message may wait. In the data ring it is AboutSize bytes, 8 for Expires if
// AboutExpires is set, and PieceSize for each piece, in the machine's byte order.
type About struct {
	Flags uint32
	ID    uint64 // id of the operation, if there is one: the token of its OpDone
	Dest  uint64 // cookie of the region that the message offers

	// The access to the peer's region, and the pieces of the memory area that it
	// copies from or to.
	Cookie, Offset uint64
	Pieces         []Piece

	// The change of a word of the peer's region.
	Kind                       uint32
	AtomicCookie, AtomicOffset uint64
	Add, AddMask               uint64
	Compare, CompareMask       uint64
	Swap, SwapMask             uint64

	Expires int64 // the message's time limit, in nanoseconds since 1970
}

// Piece is Length bytes at Offset of the memory area.
type Piece struct{ Offset, Length uint32 }

// Flags of an About.
const (
	AboutRDMA         = 1 << iota // Cookie, Offset and Pieces count
	AboutWrite                    // the pieces are copied to the region
	AboutFence                    // the message waits for the end of a read
	AboutSilent                   // the access needs no message
	AboutAtomic                   // Kind and what follows it count
	AboutAtomicSilent             // the change needs no message
	AboutDest                     // Dest counts
	AboutExpires                  // Expires counts; only if the daemon has FeatureExpires

	aboutFlags = AboutExpires<<1 - 1
)

// Sizes of an About, without pieces, and of a piece; MaxPieces bounds these.
const (
	AboutSize = 112
	PieceSize = 8
	MaxPieces = 1024 // most pieces of datagram.RDMA.Local (UIO_MAXIOV)
)

// Offsets in an About.
const (
	offAboutFlags  = 0x00
	offAboutPieces = 0x04 // number of pieces
	offAboutKind   = 0x08
	offAboutWords  = 0x10
)

// words are the fields from offAboutWords on.
func (a *About) words() [12]*uint64 {
	return [...]*uint64{
		&a.ID, &a.Dest, &a.Cookie, &a.Offset, &a.AtomicCookie, &a.AtomicOffset,
		&a.Add, &a.AddMask, &a.Compare, &a.CompareMask, &a.Swap, &a.SwapMask,
	}
}

// AppendTo appends the bytes of an About to b.
func (a *About) AppendTo(b []byte) []byte {
	ne := binary.NativeEndian
	b = ne.AppendUint32(b, a.Flags)
	b = ne.AppendUint32(b, uint32(len(a.Pieces)))
	b = ne.AppendUint64(b, uint64(a.Kind))
	for _, w := range a.words() {
		b = ne.AppendUint64(b, *w)
	}
	if a.Flags&AboutExpires != 0 {
		b = ne.AppendUint64(b, uint64(a.Expires))
	}
	for _, p := range a.Pieces {
		b = ne.AppendUint32(b, p.Offset)
		b = ne.AppendUint32(b, p.Length)
	}
	return b
}

// HasOperation tells whether the bytes of an About, which may be none, have an operation.
func HasOperation(about []byte) bool {
	return len(about) >= AboutSize && binary.NativeEndian.Uint32(about[offAboutFlags:])&(AboutRDMA|AboutAtomic) != 0
}

// Load copies the About at off out of area, each byte once: the other side may
// write there meanwhile. It is false if the About is not within the area, or has
// a flag or a number of pieces that there is not. Pieces are appended to
// a.Pieces[:0]; where they lie is not checked.
func (a *About) Load(area []byte, off uint32) bool {
	if uint64(off)+AboutSize > uint64(len(area)) {
		return false
	}
	var b [AboutSize]byte
	copy(b[:], area[off:])
	ne := binary.NativeEndian
	a.Flags = ne.Uint32(b[offAboutFlags:])
	n := ne.Uint32(b[offAboutPieces:])
	kind := ne.Uint64(b[offAboutKind:])
	if a.Kind = uint32(kind); a.Flags&^aboutFlags != 0 || n > MaxPieces || kind>>32 != 0 {
		return false
	}
	for i, w := range a.words() {
		*w = ne.Uint64(b[offAboutWords+8*i:])
	}
	at := int(off) + AboutSize
	if a.Expires = 0; a.Flags&AboutExpires != 0 {
		if at+8 > len(area) {
			return false
		}
		a.Expires = int64(ne.Uint64(area[at:]))
		at += 8
	}
	if at+int(n)*PieceSize > len(area) {
		return false
	}
	a.Pieces = a.Pieces[:0]
	for range n {
		p := Piece{ne.Uint32(area[at:]), ne.Uint32(area[at+4:])}
		a.Pieces = append(a.Pieces, p)
		at += PieceSize
	}
	return true
}

package client

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"unsafe"

	"github.com/rds-go/rds/conn"
	"github.com/rds-go/rds/internal/ipc"
	"github.com/rds-go/rds/internal/lockorder"
	"github.com/rds-go/rds/internal/socket"
	"github.com/rds-go/rds/rds/config"
	"github.com/rds-go/rds/rds/datagram"
)

// arena is the memory of an attachment for regions and operations. It is
// the application's to divide up.
type arena struct {
	area []byte

	seg *ipc.Segment

	mu      lockorder.Mutex[arena] // guards the fields below
	arena   *ipc.Arena
	touched int // end of what was ever allocated
}

func (m *arena) init(seg *ipc.Segment) {
	m.seg = seg
	m.area, m.arena = seg.MemoryArea(), ipc.NewArena(seg.Memory)
}

// alloc returns n bytes.
func (m *arena) alloc(n int) (*datagram.Memory, error) {
	switch {
	case n <= 0:
		return nil, datagram.ErrInvalid
	case n > config.MaxMessage:
		return nil, datagram.ErrMessageTooLong
	}
	m.mu.Lock()
	off, size, ok := m.arena.Alloc(n)
	short := ok && !m.seg.MayTouch(&m.touched, off+size)
	if short {
		m.arena.Release(off)
		m.seg.Trim(m.arena, m.area, &m.touched)
	}
	m.mu.Unlock()
	switch {
	case short:
		return nil, fmt.Errorf("touched memory: %w", datagram.ErrQuota)
	case !ok:
		return nil, datagram.ErrWouldBlock
	}
	b := m.area[off : off+n : off+n]
	clear(b)
	return datagram.NewMemory(b, func() {
		m.mu.Lock()
		m.arena.Release(off)
		if m.seg.Short().IsSet() && m.arena.Empty(off) {
			m.seg.Trim(m.arena, m.area, &m.touched)
		}
		m.mu.Unlock()
	}), nil
}

// locate is where memory lies that alloc has returned.
func (m *arena) locate(b []byte) (ipc.Piece, error) {
	off := uintptr(unsafe.Pointer(unsafe.SliceData(b))) - uintptr(unsafe.Pointer(unsafe.SliceData(m.area)))
	if off > uintptr(len(m.area)) || uintptr(len(b)) > uintptr(len(m.area))-off { // Pointers below the area wrap to large offsets.
		return ipc.Piece{}, socket.ErrFault
	}
	return ipc.Piece{Offset: uint32(off), Length: uint32(len(b))}, nil
}

// halfMemory is what a half of a socket has exposed, and its operations under
// way.
type halfMemory struct {
	mu     lockorder.Mutex[halfMemory] // guards the fields below; a leaf
	keys   map[uint32]datagram.MRFlags // flags of the regions, by key
	ops    map[uint64]*operation
	lastOp uint64
	lost   bool
}

// operation is an operation whose end has not been told.
type operation struct {
	to        netip.AddrPort
	notify    bool
	token     uint64
	result    *uint64
	submitted bool
	id        uint64
	run       *operation // the operation submitted before this one in the same run
}

// begin notes an operation and numbers it.
func (m *halfMemory) begin(op *operation) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.ops == nil {
		m.ops = make(map[uint64]*operation)
	}
	m.lastOp++
	op.id = m.lastOp
	m.ops[op.id] = op
}

func (s *Socket) AllocMemory(n int) (*datagram.Memory, error) {
	h, err := s.session(context.Background(), false)
	switch {
	case err != nil:
		return nil, err
	case !h.att.operates:
		return nil, datagram.ErrNotSupported
	}
	return h.att.exposable.alloc(n)
}

// special is what a message says besides its payload, on its way to the ring.
type special struct {
	a      ipc.About
	about  []byte // a in the form that goes to the ring
	op     *operation
	mapped datagram.Cookie
	pieces [4]ipc.Piece                              // backing array for the pieces of a, if there are at most four
	room   [ipc.AboutSize + 8 + 4*ipc.PieceSize]byte // backing array for about, if a has at most four pieces
}

// said are the bytes that go before the payload.
func (x *special) said() []byte {
	if x == nil {
		return nil
	}
	return x.about
}

// special prepares what a message says besides its payload.
func (s *Socket) special(ctx context.Context, h *half, d *destination, to netip.AddrPort, o *datagram.Outgoing, block bool) (*special, error) {
	if socket.NeedsRDMA(o) && !h.att.operates {
		return nil, datagram.ErrNotSupported
	}
	x := new(special)
	if err := x.describe(h, o); err != nil {
		return nil, err
	}
	if socket.NeedsRDMA(o) {
		if err := s.reach(ctx, h, d, block); err != nil {
			return nil, err
		}
	}
	if m := o.Map; m != nil {
		c, err := h.getMR(m.Memory, netip.Addr{}, m.Flags)
		if err != nil {
			return nil, err
		}
		x.a.Flags, x.a.Dest, x.mapped = x.a.Flags|ipc.AboutDest, uint64(c), c
	}
	x.begin(h, to, o)
	return x, nil
}

// describe checks a message and notes what it says, but for what it maps.
func (x *special) describe(h *half, o *datagram.Outgoing) error {
	if err := socket.CheckSpecial(o); err != nil {
		return err
	}
	if o.HasDest && !h.memory.exposes(o.Dest) {
		return datagram.ErrInvalid
	}
	*x = special{}
	a := &x.a
	if !o.Expires.IsZero() {
		if !h.att.expires {
			return datagram.ErrNotSupported
		}
		a.Flags, a.Expires = ipc.AboutExpires, ipc.TellLimit(o.Expires)
	}
	a.Pieces = x.pieces[:0]
	if r := o.RDMA; r != nil {
		a.Flags |= ipc.AboutRDMA | when(r.Write, ipc.AboutWrite) | when(r.Fence, ipc.AboutFence) | when(r.Silent, ipc.AboutSilent)
		a.Cookie, a.Offset = uint64(r.Cookie), r.Offset
		for _, b := range r.Local {
			at, err := h.att.exposable.locate(b)
			if err != nil {
				return err
			}
			a.Pieces = append(a.Pieces, at)
		}
	}
	if t := o.Atomic; t != nil {
		a.Flags |= ipc.AboutAtomic | when(t.Silent, ipc.AboutAtomicSilent)
		a.Kind, a.AtomicCookie, a.AtomicOffset = uint32(t.Kind), uint64(t.Cookie), t.Offset
		a.Add, a.AddMask = t.Add, t.AddMask
		a.Compare, a.CompareMask, a.Swap, a.SwapMask = t.Compare, t.CompareMask, t.Swap, t.SwapMask
	}
	if o.HasDest {
		a.Flags, a.Dest = a.Flags|ipc.AboutDest, uint64(o.Dest)
	}
	return nil
}

// begin notes the operation that was described, if there is one, and makes the
// bytes for the ring.
func (x *special) begin(h *half, to netip.AddrPort, o *datagram.Outgoing) {
	if x.a.Flags&(ipc.AboutRDMA|ipc.AboutAtomic) != 0 {
		x.op = &operation{to: to, notify: o.Notify}
		if o.Notify {
			x.op.token = o.Token
		}
		if t := o.Atomic; t != nil {
			x.op.result = t.Result
		}
		h.memory.begin(x.op)
		x.a.ID = x.op.id
	}
	x.about = x.a.AppendTo(x.room[:0])
}

func when(b bool, flag uint32) uint32 {
	if b {
		return flag
	}
	return 0
}

// reach returns nil when the connection is one that carries operations, having
// made it connect if that is not known.
func (s *Socket) reach(ctx context.Context, h *half, d *destination, block bool) error {
	for {
		switch h.att.table.Carries(int(d.peer)) {
		case ipc.CarriesOperations:
			return nil
		case ipc.CarriesMessages:
			e := &socket.UnservedError{Peer: d.addr, Wire: string(config.WireTCP)}
			if name := h.att.table.Server(int(d.peer)).Transport(); name != "" {
				e.Wire = name
			}
			return e
		}
		if block {
			if err := s.stop(ctx, h); err != nil {
				return err
			}
		} else {
			ctx = context.Background() // The context bounds waiting, and TrySend does not wait.
		}
		_, err := h.att.call(ctx, ipc.Request{Op: ipc.CallReach, Socket: h.id, Peer: d.peer, Wait: block})
		if err == nil || !block || !errors.Is(err, datagram.ErrWouldBlock) {
			return err
		}
	}
}

// accepted follows the submission of a message.
func (x *special) accepted(s *Socket, h *half, o *datagram.Outgoing) {
	if o.Map != nil {
		o.Map.Cookie = x.mapped
	}
	if x.op != nil {
		s.submitted(h, x.op)
	}
}

// submitted follows the submission of an operation.
func (s *Socket) submitted(h *half, op *operation) {
	m := &h.memory
	m.mu.Lock()
	op.submitted = true
	_, pending := m.ops[op.id]
	lost := m.lost && pending
	if lost {
		delete(m.ops, op.id)
	}
	m.mu.Unlock()
	if lost {
		s.dropped(op)
	}
}

// undo follows the failure of a send.
func (x *special) undo(h *half) {
	if x.op != nil {
		m := &h.memory
		m.mu.Lock()
		delete(m.ops, x.op.id)
		m.mu.Unlock()
	}
	if x.mapped != 0 {
		_ = h.freeMR(x.mapped, 0) // no peer has heard of the key
	}
}

// operated is the end of an operation, of which e tells.
func (s *Socket) operated(t *attachment, e *ipc.Entry) {
	h := s.half.Load()
	if h == nil || h.att != t {
		return
	}
	status := datagram.Status(int32(e.Length()))
	m := &h.memory
	m.mu.Lock()
	op := m.ops[e.Token()]
	delete(m.ops, e.Token())
	if op != nil && op.result != nil && status == datagram.StatusSuccess {
		*op.result = e.Result()
	}
	m.mu.Unlock()
	if op != nil && e.Flags()&ipc.FlagTold != 0 {
		s.Fate(conn.Fate{Token: op.token, Status: status})
	}
}

// loseOperations ends the operations under way with the daemon.
func (s *Socket) loseOperations(h *half) {
	m := &h.memory
	var lost []*operation
	m.mu.Lock()
	m.lost = true
	for id, op := range m.ops {
		if op.submitted {
			delete(m.ops, id)
			lost = append(lost, op)
		}
	}
	m.mu.Unlock()
	for _, op := range lost {
		s.dropped(op)
	}
}

// dropped tells of an operation that was lost with the daemon.
func (s *Socket) dropped(op *operation) {
	if op.notify || s.RecvErrOn.Load() {
		s.Fate(conn.Fate{Token: op.token, Status: datagram.StatusDropped})
	}
}

// keepOff sees to it that no result is written any more of the operations to a
// destination, or to any if it is not valid.
func (m *halfMemory) keepOff(to netip.AddrPort) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, op := range m.ops {
		if !to.IsValid() || op.to == to {
			op.result = nil
		}
	}
}

package client

import (
	"context"
	"net/netip"
	"slices"
	"syscall"
	"time"

	"github.com/rds-go/rds/internal/ipc"
	"github.com/rds-go/rds/internal/lockorder"
	"github.com/rds-go/rds/internal/socket"
	"github.com/rds-go/rds/rds/config"
	"github.com/rds-go/rds/rds/datagram"
)

// exposures is one run of OpExpose submissions at a time, of whichever socket.
type exposures struct {
	turn     chan struct{}    // token (cap 1): its holder has the run
	answered socket.WaitQueue // the holder of turn waits for the last answer

	mu      lockorder.Mutex[exposures] // guards the fields below; a leaf
	cookies []datagram.Cookie          // answers, by token; nil: there is no run
	asked   int                        // submissions of the run; 0: not all are on the ring yet
	done    int                        // answers that have come
	errnos  []syscall.Errno            // by token; nil: no answer was an error
}

// begin starts a run whose answers go to cookies.
func (x *exposures) begin(cookies []datagram.Cookie) {
	x.mu.Lock()
	x.cookies, x.asked, x.done, x.errnos = cookies, 0, 0, nil
	x.mu.Unlock()
}

// end ends the run.
func (x *exposures) end() []syscall.Errno {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.cookies = nil
	return x.errnos
}

// put notes that the run has n submissions, all of which are on the ring.
func (x *exposures) put(n int) {
	x.mu.Lock()
	x.asked = n
	x.mu.Unlock()
}

func (x *exposures) over() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.done == x.asked
}

// exposed takes an answer.
func (t *attachment) exposed(e *ipc.Entry) {
	x := &t.exposures
	x.mu.Lock()
	i := e.Token()
	if i >= uint64(len(x.cookies)) {
		x.mu.Unlock()
		return
	}
	x.cookies[i] = datagram.Cookie(e.Result())
	if errno := e.Length(); errno != 0 {
		if x.errnos == nil {
			x.errnos = make([]syscall.Errno, len(x.cookies))
		}
		x.errnos[i] = syscall.Errno(errno)
	}
	x.done++
	over := x.done == x.asked
	x.mu.Unlock()
	if over {
		x.answered.Wake(-1)
	}
}

// exposeRun exposes memory by the ring, cookies[i] being for at[i], and returns how many
// pieces. If not all are, the next one is for a call, which waits and tells why it fails.
func (h *half) exposeRun(cookies []datagram.Cookie, at []ipc.Piece, flags datagram.MRFlags) (n int, err error) {
	t := h.att
	x := &t.exposures
	select {
	case x.turn <- struct{}{}:
	case <-t.gone:
		return 0, t.lossError()
	}
	defer func() { <-x.turn }()
	x.begin(cookies)
	n = t.submission.expose(h.id, at, flags)
	x.put(n)
	for {
		w := x.answered.Add()
		over := x.over()
		select {
		case <-t.gone:
			err = t.lossError()
		default:
		}
		if !over && err == nil {
			_ = t.wait(context.Background(), w, true)
		}
		x.answered.Done(w)
		if over || err != nil {
			break
		}
	}
	errnos := x.end()
	if err != nil {
		return 0, err
	}
	if i := slices.IndexFunc(errnos, func(e syscall.Errno) bool { return e != 0 }); i >= 0 {
		for k := i + 1; k < n; k++ { // no piece behind the failed one is exposed
			if errnos[k] == 0 {
				h.tellFree(cookies[k], 0)
			}
		}
		n = i
	}
	h.memory.expose(cookies[:n], flags)
	return n, nil
}

// expose notes regions that were made.
func (m *halfMemory) expose(cookies []datagram.Cookie, flags datagram.MRFlags) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.keys == nil {
		m.keys = make(map[uint32]datagram.MRFlags)
	}
	for _, c := range cookies {
		m.keys[c.Key()] = flags
	}
}

func (m *halfMemory) exposes(c datagram.Cookie) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, ok := m.keys[c.Key()]
	return ok
}

func (m *halfMemory) retired(key uint32) {
	m.mu.Lock()
	delete(m.keys, key)
	m.mu.Unlock()
}

// conceal forgets a region, and tells whether it was there, with the flags of its GetMR.
func (m *halfMemory) conceal(c datagram.Cookie) (flags datagram.MRFlags, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	flags, ok = m.keys[c.Key()]
	delete(m.keys, c.Key())
	return flags, ok
}

// operating returns the socket's half at a daemon that carries operations.
func (s *Socket) operating() (*half, error) {
	h, err := s.session(context.Background(), false)
	if err == nil && !h.att.operates {
		err = datagram.ErrNotSupported
	}
	return h, err
}

func (s *Socket) GetMR(mem []byte, dest netip.Addr, flags datagram.MRFlags) (datagram.Cookie, error) {
	h, err := s.operating()
	if err != nil {
		return 0, err
	}
	return h.getMR(mem, dest, flags)
}

func (s *Socket) GetMRBatch(cookies []datagram.Cookie, mem [][]byte, flags datagram.MRFlags) (int, error) {
	h, err := s.operating()
	if err != nil {
		return 0, err
	}
	return h.getMRs(cookies, mem, flags)
}

func (h *half) getMR(mem []byte, dest netip.Addr, flags datagram.MRFlags) (datagram.Cookie, error) {
	if !dest.IsValid() {
		cookies := make([]datagram.Cookie, 1)
		_, err := h.getMRs(cookies, [][]byte{mem}, flags)
		return cookies[0], err
	}
	at, err := h.exposable(mem, flags)
	if err != nil {
		return 0, err
	}
	return h.tellExpose(at, dest, flags)
}

// exposable checks what is to be exposed, and finds where it lies.
func (h *half) exposable(mem []byte, flags datagram.MRFlags) (ipc.Piece, error) {
	switch err := socket.CheckMRFlags(flags); {
	case err != nil:
		return ipc.Piece{}, err
	case len(mem) == 0:
		return ipc.Piece{}, datagram.ErrInvalid
	case len(mem) > config.MaxMessage:
		return ipc.Piece{}, datagram.ErrMessageTooLong
	}
	return h.att.exposable.locate(mem)
}

func (h *half) getMRs(cookies []datagram.Cookie, mem [][]byte, flags datagram.MRFlags) (n int, err error) {
	at := make([]ipc.Piece, 0, len(mem))
	for _, b := range mem {
		var piece ipc.Piece
		if piece, err = h.exposable(b, flags); err != nil {
			break
		}
		at = append(at, piece)
	}
	for n < len(at) {
		if h.att.regions {
			k, lost := h.exposeRun(cookies[n:], at[n:][:min(len(at)-n, ipc.MaxExposing)], flags)
			if n += k; lost != nil {
				return n, lost
			}
			if n == len(at) {
				break
			}
		}
		c, failed := h.tellExpose(at[n], netip.Addr{}, flags)
		if failed != nil {
			return n, failed
		}
		cookies[n] = c
		n++
	}
	return n, err
}

// tellExpose is a call that makes a region.
func (h *half) tellExpose(at ipc.Piece, dest netip.Addr, flags datagram.MRFlags) (datagram.Cookie, error) {
	r, err := h.tell(ipc.Request{Op: ipc.CallExpose, Offset: at.Offset, Length: at.Length, Flags: uint32(flags), Remote: dest})
	if err != nil {
		return 0, err
	}
	c := datagram.Cookie(r.Cookie)
	h.memory.expose([]datagram.Cookie{c}, flags)
	return c, nil
}

func (s *Socket) FreeMR(c datagram.Cookie, flags datagram.MRFlags) error {
	h, err := s.freeing(flags)
	if err != nil {
		return err
	}
	return h.freeMR(c, flags)
}

func (s *Socket) FreeMRBatch(cookies []datagram.Cookie, flags datagram.MRFlags) (n int, err error) {
	h, err := s.freeing(flags)
	if err != nil {
		return 0, err
	}
	for ; n < len(cookies); n++ {
		if err := h.freeMR(cookies[n], flags&^datagram.MRInvalidate); err != nil {
			return n, err
		}
	}
	if flags&datagram.MRInvalidate != 0 {
		err = h.tellFree(0, flags)
	}
	return n, err
}

// freeing returns the half for a call that ends regions.
func (s *Socket) freeing(flags datagram.MRFlags) (*half, error) {
	h, err := s.operating()
	if err == datagram.ErrNotSupported || err == nil && flags&^socket.MrFlags != 0 {
		err = datagram.ErrInvalid
	}
	return h, err
}

func (h *half) freeMR(c datagram.Cookie, flags datagram.MRFlags) error {
	if c == 0 {
		return h.tellFree(0, flags)
	}
	had, ok := h.memory.conceal(c)
	if !ok {
		return datagram.ErrInvalid
	}
	// Of a use-once region only the daemon knows whether it is there to be ended.
	if waits := datagram.MRInvalidate | datagram.MRUseOnce; h.att.regions && (flags|had)&waits == 0 && h.att.conceal(h.id, c) {
		return nil
	}
	return h.tellFree(c, flags)
}

// tellFree is a call that ends a region.
func (h *half) tellFree(c datagram.Cookie, flags datagram.MRFlags) error {
	_, err := h.tell(ipc.Request{Op: ipc.CallConceal, Cookie: uint64(c), Flags: uint32(flags)})
	return err
}

func (s *Socket) retired(t *attachment, key uint32) {
	if h := s.half.Load(); h != nil && h.att == t {
		h.memory.retired(key)
	}
}

// expose submits that memory is to be exposed, and returns for how many pieces there was
// room.
func (u *submission) expose(id uint32, at []ipc.Piece, flags datagram.MRFlags) (n int) {
	u.mu.Lock()
	for n < len(at) && u.roomLocked(len(u.ends)/returnShare) == nil {
		u.appendLocked(ipc.MakeEntry(ipc.OpExpose, 0, 0, id, 0, at[n].Length, at[n].Offset, uint32(flags), uint64(n)))
		n++
	}
	if n > 0 {
		u.publishLocked()
	}
	u.mu.Unlock()
	if n > 0 {
		u.wake()
	}
	return n
}

// concealDelay is how long the daemon need not hear of the end of a region.
const concealDelay = time.Millisecond

// conceal submits the end of a region, if there is room. A daemon that sleeps is woken a
// little later: a bell costs more than all the rest.
func (t *attachment) conceal(id uint32, c datagram.Cookie) bool {
	u := &t.submission
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.roomLocked(len(u.ends)/returnShare) != nil {
		return false
	}
	u.appendLocked(ipc.MakeEntry(ipc.OpConceal, 0, 0, id, 0, 0, 0, 0, uint64(c)))
	u.ring.Publish()
	if !u.concealed {
		u.concealed = true
		if u.later == nil {
			u.later = time.AfterFunc(concealDelay, t.concealed)
		} else {
			u.later.Reset(concealDelay)
		}
	}
	return true
}

// concealed wakes the daemon for regions that have ended.
func (t *attachment) concealed() {
	u := &t.submission
	u.mu.Lock()
	u.concealed = false
	over := u.dead
	u.mu.Unlock()
	if !over {
		u.wake()
	}
}

package client

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/rds-go/rds/conn"
	"github.com/rds-go/rds/internal/ipc"
	"github.com/rds-go/rds/internal/lockorder"
	"github.com/rds-go/rds/internal/socket"
	"github.com/rds-go/rds/rds/datagram"
	"github.com/rds-go/rds/rds/info"
)

// attachment is a session as the application has it: one with one daemon. Its
// two goroutines take completions, if no receiver does, and answers to calls.
type attachment struct {
	c       *Client
	conn    *ipc.Conn
	table   *ipc.Table
	ear     *ipc.Ear
	welcome ipc.Welcome
	submission
	budget    budget
	bars      atomic.Uint64 // Table.Bars as last heard of
	waitDown  atomic.Int32  // senders that wait for room for a peer that is down
	attempts  sync.Map      // peers for which a call of half.attempt is under way
	listening listening
	memory    memory
	exposable arena
	objects   objectsOf
	exposures exposures
	operates  bool             // the daemon has a transport that carries operations
	regions   bool             // the daemon makes and ends regions by the ring
	expires   bool             // the daemon takes messages with a time limit
	maps      socket.WaitQueue // senders that wait for a congestion map

	endOnce sync.Once
	gone    chan struct{}
	cause   error // set before dead is closed

	sendMu lockorder.Mutex[attachmentSendMu] // one call at a time on the socket
	callMu lockorder.Mutex[attachmentCallMu] // guards lastID and calls
	lastID uint64
	calls  map[uint64]chan *ipc.Reply

	peerMu   lockorder.RWMutex[attachmentPeerMu] // guards resolved and origins
	resolved map[[2]netip.Addr]uint32
	origins  map[uint32]origin

	sockMu lockorder.Mutex[attachmentSockMu]
	socks  [ipc.MaxSockets]atomic.Pointer[Socket] // sockets by index; written under sockMu
	closed map[uint32]uint16                      // by index: number of the last socket there that was closed
	early  map[uint32][]socket.Item               // messages of sockets that are not registered yet
	fates  map[uint32][]conn.Fate                 // fates of messages submitted again, of sockets that are not registered yet
	coming map[uint32]comingSocket                // sockets that are being bound again, by number
}

func newAttachment(c *Client, control *ipc.Conn) (*attachment, error) {
	features := []string{ipc.FeatureRDMA, ipc.FeatureChoice, ipc.FeatureXRC, ipc.FeatureTCP, ipc.FeatureExpires, ipc.FeatureSpill, ipc.FeatureMoves, ipc.FeatureSlots, ipc.FeatureObjects, ipc.FeatureRegions}
	if c.config.Reconnect {
		features = append(features, ipc.FeatureAgain)
	}
	if err := control.Send(&ipc.Hello{Protocol: ipc.Protocol, Version: ipc.Version, Features: features, Secret: c.secret[:]}); err != nil {
		return nil, fmt.Errorf("%w: %w", datagram.ErrNoDaemon, err)
	}
	t := &attachment{
		c: c, conn: control, gone: make(chan struct{}), calls: make(map[uint64]chan *ipc.Reply),
		resolved: make(map[[2]netip.Addr]uint32), origins: make(map[uint32]origin),
		closed: make(map[uint32]uint16), early: make(map[uint32][]socket.Item),
		fates: make(map[uint32][]conn.Fate), coming: make(map[uint32]comingSocket),
	}
	files, err := control.ReceiveFiles(&t.welcome, ipc.WelcomeFiles)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", datagram.ErrNoDaemon, err)
	}
	w := &t.welcome
	if w.Error != "" || w.Version != ipc.Version || len(files) != ipc.WelcomeFiles {
		ipc.CloseFiles(files)
		if w.Error == "" {
			return nil, fmt.Errorf("%w: the daemon speaks version %d", datagram.ErrNotSupported, w.Version)
		}
		return nil, socket.RemoteError(w.Errno, w.Error)
	}
	var bell *ipc.Bell
	seg, err := ipc.OpenSegment(files[0])
	if err == nil {
		t.table, err = ipc.OpenTable(files[1])
	}
	ipc.CloseFiles(files[:2]) // mappings outlive the descriptors
	if err == nil {
		bell, err = control.OpenBell(files[2])
	}
	if err == nil {
		t.ear, err = control.OpenEar(files[3])
	}
	if err != nil {
		ipc.CloseFiles(files[2:])
		mappings{seg: seg, table: t.table}.close()
		return nil, err
	}
	t.submission.init(seg, bell)
	t.budget.account.SetLimit(w.SendBudget)
	t.listening.init(t)
	t.memory.init(t)
	t.exposable.init(t.seg)
	runtime.AddCleanup(t, mappings.close, mappings{t.seg, t.table, t.memory.blocks, t.exposable.arena})
	t.operates = slices.Contains(w.Features, ipc.FeatureRDMA)
	t.expires = slices.Contains(w.Features, ipc.FeatureExpires)
	t.regions = slices.Contains(w.Features, ipc.FeatureRegions)
	t.exposures.turn = make(chan struct{}, 1)
	return t, nil
}

// mappings is the shared memory of an attachment. It is unmapped when nothing points
// to the attachment any more, so that no reader of a cell ever meets an unmapped page:
// sockets, messages and Memory that were not released do.
type mappings struct {
	seg     *ipc.Segment
	table   *ipc.Table
	blocks  map[uint32]*block // blocks of messages that were not released; they point to the attachment
	exposed *ipc.Arena        // allocated in it: what AllocMemory has given out
}

func (m mappings) close() {
	if m.exposed != nil && m.exposed.Free() != m.exposed.Size() {
		return // the application has the bytes, though not the Memory
	}
	if m.seg != nil {
		_ = m.seg.Close()
	}
	if m.table != nil {
		_ = m.table.Close()
	}
}

// call asks the daemon and waits for its answer.
func (t *attachment) call(ctx context.Context, q ipc.Request) (*ipc.Reply, error) {
	c, id, err := t.ask(&q)
	if err != nil {
		return nil, err
	}
	defer t.forgetCall(id)
	return t.answer(ctx, c)
}

func (t *attachment) ask(q *ipc.Request, files ...*os.File) (chan *ipc.Reply, uint64, error) {
	c := make(chan *ipc.Reply, 1)
	t.callMu.Lock()
	t.lastID++
	q.ID = t.lastID
	t.calls[q.ID] = c
	t.callMu.Unlock()
	t.sendMu.Lock()
	err := t.conn.Send(q, files...)
	t.sendMu.Unlock()
	if err != nil {
		t.forgetCall(q.ID)
		t.end(err)
		return nil, 0, t.lossError()
	}
	return c, q.ID, nil
}

func (t *attachment) forgetCall(id uint64) {
	t.callMu.Lock()
	delete(t.calls, id)
	t.callMu.Unlock()
}

func (t *attachment) answer(ctx context.Context, c chan *ipc.Reply) (*ipc.Reply, error) {
	select {
	case r := <-c:
		if r.Error != "" {
			return nil, socket.RemoteError(r.Errno, r.Error)
		}
		return r, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-t.gone:
		return nil, t.lossError()
	}
}

// report fetches the daemon's Info as JSON, with a part if one is named.
func (t *attachment) report(ctx context.Context, part info.InfoPart) ([]byte, error) {
	c, id, err := t.ask(&ipc.Request{Op: ipc.CallInfo, Option: string(part)})
	if err != nil {
		return nil, err
	}
	defer t.forgetCall(id)
	var b []byte
	for {
		r, err := t.answer(ctx, c)
		if err != nil {
			return nil, err
		}
		b = append(b, r.Data...)
		if !r.More {
			return b, nil
		}
	}
}

// replies takes the answers to calls, until the daemon has gone.
func (t *attachment) replies() {
	for {
		r := new(ipc.Reply)
		files, err := t.conn.ReceiveFiles(r, 1)
		if err != nil {
			t.end(err)
			return
		}
		if r.ID == 0 && len(files) == 1 {
			t.moved(files[0])
			continue
		}
		ipc.CloseFiles(files)
		t.callMu.Lock()
		c := t.calls[r.ID]
		t.callMu.Unlock()
		if c == nil {
			continue // the call was given up
		}
		select {
		case c <- r:
		case <-t.gone:
		}
	}
}

// moved follows a change of the daemon: another process serves the session, and f is its
// table. What was waited for in the old one is looked for again.
func (t *attachment) moved(f *os.File) {
	err := t.table.Replace(f)
	_ = f.Close()
	if err != nil {
		t.end(err)
		return
	}
	t.objects.end()
	t.maps.Wake(-1)
	t.space.Wake(-1)
	for _, s := range t.c.sockets() {
		s.writers.Wake(-1)
		s.Readers.Wake(-1)
	}
}

// lossError is what calls on a dead attachment fail with.
func (t *attachment) lossError() error {
	<-t.gone
	if errors.Is(t.cause, net.ErrClosed) {
		return net.ErrClosed
	}
	return datagram.ErrDaemonLost
}

// end ends the attachment and wakes everybody who waits for something of it.
// Messages received stay readable, and those that the daemon had put on the ring are
// received.
func (t *attachment) end(cause error) {
	t.endOnce.Do(func() {
		t.cause = cause
		close(t.gone)
		_ = t.conn.Close()
		_ = t.ear.Close()
		t.submission.end()
		if !errors.Is(cause, net.ErrClosed) {
			t.takeRest()
			t.salvage(cause)
		}
		t.objects.end()
		t.c.lost(t)
		t.maps.Wake(-1) // after the sockets know: a sender that is woken before would wait again
		t.space.Wake(-1)
		t.exposures.answered.Wake(-1)
	})
}

// resolve finds the number of the connection between two addresses.
func (t *attachment) resolve(ctx context.Context, local, remote netip.Addr) (uint32, error) {
	key := [2]netip.Addr{local, remote}
	t.peerMu.RLock()
	i, ok := t.resolved[key]
	t.peerMu.RUnlock()
	if ok {
		return i, nil
	}
	r, err := t.call(ctx, ipc.Request{Op: ipc.CallResolve, Local: local, Remote: remote})
	if err != nil {
		return 0, err
	}
	t.peerMu.Lock()
	t.resolved[key] = r.Peer
	t.peerMu.Unlock()
	return r.Peer, nil
}

var noAddr netip.Addr

// origin is what was read of a slot of the table.
type origin struct {
	slot   uint32 // generation of the slot
	remote *netip.Addr
}

// origin is the remote address of a connection that an entry of a ring names. It is looked
// up once, and again when the slot is another connection's.
func (t *attachment) origin(i uint32) origin {
	slot := t.table.Slot(int(i))
	t.peerMu.RLock()
	o := t.origins[i]
	t.peerMu.RUnlock()
	if o.remote != nil && o.slot == slot {
		return o
	}
	_, remote, ok := t.table.Peer(int(i))
	if !ok {
		return origin{slot, &noAddr}
	}
	o = origin{slot, &remote}
	t.peerMu.Lock()
	defer t.peerMu.Unlock()
	t.origins[i] = o
	return o
}

// boundBy finds the half that a call has bound, nil if there is none.
func (t *attachment) boundBy(call uint64) *half {
	for i := range t.seg.Sockets {
		if c := t.seg.Cell(i); c.BoundBy.Load() == call {
			return &half{att: t, id: c.Number.Load(), cell: c}
		}
	}
	return nil
}

// register makes a socket known to the dispatcher, and gives it what has arrived before. With
// use, h is the socket's half from then on.
func (t *attachment) register(s *Socket, h *half, use bool) {
	id := h.id
	t.sockMu.Lock()
	defer t.sockMu.Unlock()
	if use {
		s.half.Store(h)
	}
	delete(t.coming, id)
	early := t.early[id]
	delete(t.early, id)
	s.Queue.Mu.Lock()
	for _, it := range early {
		pushClientLocked(&s.Queue, it)
		s.Queue.Bytes.Add(int64(it.Length))
	}
	s.Queue.Count.Add(int64(len(early)))
	s.Queue.Mu.Unlock()
	for _, f := range t.fates[id] { // before others find the socket, to keep the order
		s.fateOf(h, f)
	}
	delete(t.fates, id)
	t.socks[id&0xffff].Store(s)
}

// unregister makes a socket unknown.
func (t *attachment) unregister(s *Socket, id uint32) {
	t.sockMu.Lock()
	defer t.sockMu.Unlock()
	t.socks[id&0xffff].CompareAndSwap(s, nil)
	t.closed[id&0xffff] = uint16(id >> 16)
}

// socket finds a socket by its number.
func (t *attachment) socket(id uint32) *Socket {
	if i := id & 0xffff; i < ipc.MaxSockets {
		if s := t.socks[i].Load(); s != nil {
			if h := s.half.Load(); h != nil && h.id == id && h.att == t {
				return s
			}
		}
	}
	return nil
}

// keepEarly keeps a message for a socket that is not registered yet. It returns
// false if the socket was closed, or true with s if it has just come.
func (t *attachment) keepEarly(id uint32, it socket.Item) (s *Socket, kept bool) {
	t.sockMu.Lock()
	defer t.sockMu.Unlock()
	if s := t.socket(id); s != nil {
		return s, false
	}
	if t.wasClosedLocked(id) {
		return nil, false
	}
	t.early[id] = append(t.early[id], it)
	return nil, true
}

// fated reports a fate to a socket, or keeps it for one that is not registered yet.
func (t *attachment) fated(id uint32, f conn.Fate) {
	s := t.socket(id)
	if s == nil {
		t.sockMu.Lock()
		if s = t.socket(id); s == nil && !t.wasClosedLocked(id) {
			t.fates[id] = append(t.fates[id], f)
		}
		t.sockMu.Unlock()
	}
	if s == nil {
		return
	}
	if h := s.half.Load(); h != nil && h.att == t { // without a half, loseFates has told the program
		s.fateOf(h, f)
	}
}

// expect notes a socket that is bound again, and is registered when what it has left is
// submitted.
func (t *attachment) expect(s *Socket, h *half) {
	t.sockMu.Lock()
	defer t.sockMu.Unlock()
	t.coming[h.id] = comingSocket{s, h}
}

// comingSocket is a socket that is not registered yet.
type comingSocket struct {
	s *Socket
	h *half
}

// owner is whose the number of a socket is, nil if it was closed.
func (t *attachment) owner(id uint32) (*Socket, *half) {
	if s := t.socket(id); s != nil {
		return s, s.half.Load()
	}
	t.sockMu.Lock()
	defer t.sockMu.Unlock()
	c := t.coming[id]
	return c.s, c.h
}

// wasClosedLocked tells whether the socket of a number was closed.
func (t *attachment) wasClosedLocked(id uint32) bool {
	last, ok := t.closed[id&0xffff]
	return ok && int16(uint16(id>>16)-last) <= 0
}

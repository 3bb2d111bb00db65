package daemon

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"slices"
	"time"
	"unsafe"

	"github.com/rds-go/rds/conn"
	"github.com/rds-go/rds/internal/ipc"
	"github.com/rds-go/rds/internal/node"
	"github.com/rds-go/rds/internal/socket"
	"github.com/rds-go/rds/rds/datagram"
)

// legacyOfNode describes the node as it is after its links have ended.
func legacyOfNode(ctx context.Context, n *node.Node, svc *Service) (_ *Legacy, err error) {
	l := &Legacy{StateFile: -1}
	defer func() {
		if err != nil {
			l.Close()
		}
	}()
	st := &legacyState{Version: LegacyVersion, Generation: n.Generation, StateFile: -1, Number: n.HighestNumber()}
	if d := n.Regions(); d != nil {
		st.Secret = d.Secret()
	}
	for _, la := range n.AllLocals() {
		st.Addresses = append(st.Addresses, la.Addr)
		la.Mu.Lock()
		keepers := len(la.Keepers)
		la.Mu.Unlock()
		if keepers > 0 {
			return nil, errors.New("messages wait for ports of the predecessor")
		}
	}
	for _, t := range n.Listeners {
		listening, err := t.Listening()
		for _, x := range listening {
			st.Listeners = append(st.Listeners, legacyListener{x.Local, l.add(x.File)})
		}
		if err != nil {
			return nil, err
		}
	}
	var file *os.File
	if f := n.Succession.File; f != nil {
		file = f.File()
	}
	if file != nil {
		d, err := ipc.Duplicate(file)
		if err != nil {
			return nil, err
		}
		l.StateFile = l.add(d)
		st.StateFile = l.StateFile
	}
	if st.Stored = ctx.Value(forStore{}) != nil; file == nil || st.Stored {
		st.Sequences = n.Sequences.Bequeath()
	}
	n.Mu.RLock()
	peers := maps.Clone(n.Peers)
	st.Told = slices.Clone(n.Index.Told)
	n.Mu.RUnlock()
	moves := make(map[uint64]bool)
	var lingers map[*appSocket]bool
	if svc != nil {
		if st.Service, err = svc.legacy(l); err != nil {
			return nil, err
		}
		for i := range st.Service.Sessions {
			moves[st.Service.Sessions[i].ID] = true
		}
		if lingers = svc.legacyOfLingering(st.Service); len(lingers) > 0 && !svc.moving.Load().lingers {
			return nil, errors.New("sockets linger of an application that has just ended")
		}
	}
	for key, p := range peers {
		y, err := legacyOfPeer(p, moves, lingers)
		if err != nil {
			return nil, err
		}
		y.Passive = key.Passive
		st.Peers = append(st.Peers, y)
	}
	slices.SortFunc(st.Peers, func(a, b legacyPeer) int { return int(a.Index) - int(b.Index) })
	l.State, err = st.encode()
	return l, err
}

// add adds a file, which belongs to the Legacy from then on, and returns its number.
func (l *Legacy) add(f *os.File) int {
	l.Files = append(l.Files, f)
	return len(l.Files) - 1
}

// drop closes the files from number n on, which are not the Legacy's any more.
func (l *Legacy) drop(n int) {
	for _, f := range l.Files[n:] {
		_ = f.Close()
	}
	l.Files = l.Files[:n]
}

// legacyOfPeer describes a peer, and what is queued for it of the sessions that move, and of the sockets
// that linger. What of these is for the memory of an application that has ended does not move.
func legacyOfPeer(p *node.Peer, moves map[uint64]bool, lingers map[*appSocket]bool) (legacyPeer, error) {
	p.Lock()
	defer p.Unlock()
	out := legacyPeer{Index: p.Index, Local: p.Local.Addr, Remote: p.Remote, Core: p.Core.Legacy(), Carries: uint8(p.Carries)}
	for i := range conn.MaxPaths {
		out.Received[i], out.Loose[i] = p.Inbound(i).Next(), p.Inbound(i).Loose()
	}
	if p.Choice != nil {
		out.Wire = p.Choice.Chosen(p.Local.Addr, p.Remote)
	}
	epoch := p.Core.Epoch()
	waits := func(m *conn.QueuedMessage) {
		a, ok := m.Account.Owner.(*node.Socket).Owner.(*appSocket)
		if !ok || !moves[a.sess.id] && !(lingers[a] && m.Op == nil) {
			return
		}
		q := legacyQueued{
			Session: a.sess.id, Socket: a.id, Path: m.Path, Sequence: m.Sequence, Written: m.Written, Sport: m.Sport, Dport: m.Dport,
			Token: m.Token, Notify: m.Notify, Failure: m.Failure, Deadline: m.Deadline, Data: slices.Clone(m.Payload),
		}
		if m.Extended() {
			q.Extensions = slices.Clone(m.Extensions[:])
		}
		if m.Lent != nil {
			if b, ok := m.Lent.Owner().(*sendBody); ok {
				q.Lent, q.Offset = true, b.off
			}
		}
		if m.Op != nil {
			q.Op = legacyOf(m.Op, epoch)
		}
		out.Queue = append(out.Queue, q)
	}
	if !p.Core.Queue(waits) {
		return out, fmt.Errorf("an operation on the memory of %v is under way: %w", p.Remote, datagram.ErrBusy)
	}
	for _, f := range p.Flows { // behind what is queued, as the peer's budget has no room
		for _, it := range f.Queue.All() {
			m := conn.QueuedMessage{Message: it.M, Path: p.Core.PathFor(it.M.Sport), Lent: it.M.Body}
			if m.Body != nil {
				m.Payload = m.Body.B
			}
			waits(&m)
		}
	}
	return out, nil
}

// legacy describes the service.
func (s *Service) legacy(l *Legacy) (*legacyService, error) {
	f, err := s.listener.File()
	if err != nil {
		return nil, err
	}
	st := &legacyService{Attach: l.add(f), Maps: s.table.Maps(), Slots: s.slots()}
	if s.file != nil {
		st.Path = s.file.Path()
	}
	s.mu.Lock()
	st.Next = s.next
	kept := s.kept
	s.mu.Unlock()
	for _, o := range kept {
		f, err := o.c.File()
		if err != nil {
			return nil, err
		}
		st.Openings = append(st.Openings, l.add(f))
	}
	all := s.all()
	slices.SortFunc(all, func(a, b *session) int { return int(int64(a.id) - int64(b.id)) })
	for _, x := range all {
		if !x.moves { // such an application attaches to the successor when this process has ended
			continue
		}
		files := len(l.Files)
		y, err := x.legacy(l)
		switch {
		case errors.Is(err, net.ErrClosed): // it ends just now, with this process at the latest
			l.drop(files)
			continue
		case err != nil:
			return nil, err
		}
		st.Sessions = append(st.Sessions, y)
	}
	return st, nil
}

// legacy describes the session, for which nobody works.
func (x *session) legacy(l *Legacy) (st legacySession, err error) {
	x.node.Tally()
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.overLocked() != nil {
		return st, net.ErrClosed
	}
	st = legacySession{
		ID: x.id, Cred: x.cred, Owner: x.owner, Command: x.command, Since: x.since, Again: x.again, Spills: x.spills, Slots: x.slots, Promised: x.promised,
		Backlog: x.queue.limit, Soft: x.mem.soft, Layout: x.seg.Layout, Submitted: x.sq.At(), Ahead: x.ahead, Gens: x.gens,
		SentMessages: x.sentMessages.Load(), SentBytes: x.sentBytes.Load(), RecvMessages: x.recvMessages.Load(), RecvBytes: x.recvBytes.Load(),
		Stalls: x.flows.Stalls.Load(), Blocked: x.congBlocked.Load(), Congested: x.congErrors.Load(), RunFull: x.queueFull.Load(),
	}
	for _, f := range []struct {
		at   *int
		open func() (*os.File, error)
	}{
		{&st.Conn, x.conn.File},
		{&st.Segment, func() (*os.File, error) { return ipc.Duplicate(x.segFile) }},
		{&st.Ear, x.ear.Duplicate},
		{&st.Self, func() (*os.File, error) { return ipc.Duplicate(x.self.File()) }},
		{&st.Bell, func() (*os.File, error) { return ipc.Duplicate(x.out.bell.File()) }},
	} {
		d, err := f.open()
		if err != nil {
			return st, err
		}
		*f.at = l.add(d)
	}
	st.Heard = x.heard.Legacy()
	x.svc.mu.Lock()
	for p := range x.met {
		st.Met = append(st.Met, p.Index)
	}
	x.svc.mu.Unlock()
	c := &x.out
	c.mu.Lock()
	c.publish()
	st.Completed, st.Spill = c.ring.At(), c.spill.State()
	st.Frees, st.Events, st.Left = slices.Clone(c.frees), slices.Clone(c.events), slices.Clone(c.left)
	c.mu.Unlock()
	for _, a := range x.sockets {
		if a == nil {
			continue
		}
		s, err := a.legacy(&st)
		if err != nil {
			return st, err
		}
		st.Sockets = append(st.Sockets, s)
	}
	x.mem.mu.Lock()
	defer x.mem.mu.Unlock()
	for off, k := range x.mem.blocks {
		if n := k.lent.Load(); n > 0 {
			st.Blocks = append(st.Blocks, legacyBlock{off, k.size, n, k.sock.id})
		}
	}
	return st, nil
}

// legacy describes the socket, and adds its fates to those of the session.
func (a *appSocket) legacy(x *legacySession) (st legacySocket, err error) {
	s := a.s
	send, receive := s.Buffers()
	st = legacySocket{
		ID: a.id, Bound: s.Local(), Connected: s.Remote(), SendBuffer: send, ReceiveSize: receive, Linger: time.Duration(s.Linger.Load()),
		RecvErr: s.RecvErrOn.Load(), Sent: s.Sent.Load(), TOS: s.TosValue.Load(), GaveBytes: a.gaveBytes.Load(), GaveCount: a.gaveCount.Load(),
	}
	a.mu.Lock()
	st.Settled = [2]uint64{a.bytes, a.messages}
	t := &a.counted
	st.Counted = [...]uint64{t.takenBytes, t.takenMessages, t.blocked, t.congested, t.full}
	a.mu.Unlock()
	s.Fates.Mu.Lock()
	for _, f := range s.Fates.Queue.All() {
		x.Left = append(x.Left, a.fateEntry(f))
	}
	s.Fates.Mu.Unlock()
	q := &s.Queue
	q.TakeMu.Lock()
	defer q.TakeMu.Unlock()
	q.Mu.Lock()
	defer q.Mu.Unlock()
	for i, items := range [...][]socket.Item{q.Out[q.OutPos:], q.In} {
		dests := [...][]datagram.Cookie{q.OutDest, q.InDest}[i]
		for _, it := range items {
			m := legacyMessage{Peer: it.Peer, Sequence: it.Seq, Sport: it.Sport, Path: it.Path, HasDest: it.Dest}
			if it.Dest {
				m.Dest, dests = uint64(dests[0]), dests[1:]
			}
			if it.Buf != nil {
				m.Data = slices.Clone(it.Buf.B[it.Off : it.Off+it.Length])
			}
			st.Messages = append(st.Messages, m)
		}
	}
	return st, a.legacyRegions(&st)
}

// legacyRegions describes the socket's regions.
func (a *appSocket) legacyRegions(st *legacySocket) error {
	t := &a.s.Exposed
	t.Mu.Lock()
	defer t.Mu.Unlock()
	for k, flags := range t.Keys {
		kept, mem, err := t.Owner.Keep(k)
		if err != nil {
			continue // the region was for one use, or is being revoked
		}
		off := uintptr(unsafe.Pointer(unsafe.SliceData(mem))) - uintptr(unsafe.Pointer(unsafe.SliceData(a.sess.memory)))
		st.Regions = append(st.Regions, legacyRegion{kept, uint32(flags), int(off), len(mem)})
	}
	return nil
}

// fateEntry is a fate as the completion ring has it.
func (a *appSocket) fateEntry(f conn.Fate) ipc.Entry {
	if f.Op != nil {
		return completion(f.Op.Work.(*node.Operation), a.id, f.Status)
	}
	return ipc.MakeEntry(ipc.OpFate, 0, 0, a.id, 0, uint32(f.Status), 0, 0, f.Token)
}

// listenerOf makes a listener of a descriptor that was passed, and closes f.
func listenerOf[L net.Listener](f *os.File) (L, error) {
	defer f.Close()
	var none L
	l, err := net.FileListener(f)
	if err != nil {
		return none, err
	}
	t, ok := l.(L)
	if !ok {
		_ = l.Close()
		return none, fmt.Errorf("a descriptor of %v is of another kind", l.Addr())
	}
	return t, nil
}

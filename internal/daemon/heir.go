package daemon

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/rds-go/rds/conn"
	"github.com/rds-go/rds/internal/control"
	"github.com/rds-go/rds/internal/gnetloop"
	"github.com/rds-go/rds/internal/ipc"
	"github.com/rds-go/rds/internal/node"
	"github.com/rds-go/rds/internal/socket"
	"github.com/rds-go/rds/internal/statefile"
	"github.com/rds-go/rds/mr"
	"github.com/rds-go/rds/rds/config"
	"github.com/rds-go/rds/rds/datagram"
)

// Heir is a node, and its service, that take the place of another process's. Both are
// complete and do nothing yet.
type Heir struct {
	Node    *node.Node
	Service *Service // nil: the predecessor had none

	in *estate
}

// estate is what a Heir takes over.
type estate struct {
	state *legacyState
	files []*os.File    // nil where a file was taken
	begin chan struct{} // closed by Heir.Begin
	peers []*node.Peer  // connections taken over, which are held until Begin
}

// Succeed is Succeed of package rds.
func Succeed(cfg config.Node, service config.Service, l *Legacy) (*Heir, error) {
	defer l.Close()
	fail := func(err error) (*Heir, error) { return nil, &datagram.OpError{Op: "succeed", Err: err} }
	st, err := decodeLegacy(l.State)
	if err != nil {
		return fail(err)
	}
	in := &estate{state: st, files: l.Files, begin: make(chan struct{})}
	cfg.Memory.Seed = st.Secret
	file, err := in.stateFile(cfg.Logger)
	switch {
	case err != nil && !st.Stored: // the predecessor goes on with it
		return fail(err)
	case err != nil && cfg.Logger != nil:
		cfg.Logger.Warn("no state file: a restart may lose messages", zap.Error(err))
	}
	n, err := node.NewHeir(cfg, &node.Inheritance{Generation: st.Generation, Begin: in.begin, Sockets: in.sockets(), StateFile: file, Number: st.Number, Restore: in.restore})
	if err != nil {
		return nil, err
	}
	h := &Heir{Node: n, in: in}
	if st.Service == nil {
		return h, nil
	}
	service.Path = ""
	if service.Listener, err = listenerOf[*net.UnixListener](in.take(st.Service.Attach)); err != nil {
		return fail(err)
	}
	service.Listener.SetUnlinkOnClose(false)
	if h.Service, err = newHeir(n, service, in); err != nil {
		return nil, err
	}
	return h, nil
}

// Begin is Heir.Begin of package rds.
func (h *Heir) Begin() {
	n := h.Node
	if f := n.Succession.File; f != nil {
		f.Begin()
	}
	close(h.in.begin)
	n.Serving()
	n.Succession.Open()
	if h.Service != nil {
		h.Service.takeUp()
	}
	for _, st := range h.in.state.Peers {
		if p := n.PeerAt(st.Index); p != nil && st.Core.Linked {
			p.Lock()
			p.Core.Reconnect(time.Now())
			p.Arm()
			p.Commit()
		}
	}
	for _, p := range h.in.peers {
		p.Release() // sessions hold theirs by now
	}
}

// take returns a file, which belongs to the caller. It may be nil.
func (in *estate) take(i int) *os.File {
	if i < 0 || i >= len(in.files) {
		return nil
	}
	f := in.files[i]
	in.files[i] = nil
	return f
}

// sockets is what a transport takes over.
func (in *estate) sockets() *gnetloop.Inheritance {
	return &gnetloop.Inheritance{Begin: in.begin, Listener: func(local netip.AddrPort) *net.TCPListener {
		for _, x := range in.state.Listeners {
			if x.Local != local {
				continue
			}
			if f := in.take(x.File); f != nil {
				if l, err := listenerOf[*net.TCPListener](f); err == nil {
					return l
				}
			}
		}
		return nil
	}}
}

// stateFile takes the state file over, nil if the predecessor had none.
func (in *estate) stateFile(log *zap.Logger) (*statefile.File, error) {
	f := in.take(in.state.StateFile)
	if f == nil {
		return nil, nil
	}
	return statefile.Adopt(f, func(err error) {
		if log != nil {
			log.Warn("no state file: a restart may lose messages", zap.Error(err))
		}
	})
}

// restore has the node take over the addresses and connections of the predecessor.
func (in *estate) restore(n *node.Node) error {
	for _, a := range in.state.Addresses {
		if _, err := n.Listen(a); err != nil {
			return fmt.Errorf("listen on %v: %w", a, err)
		}
	}
	if n.Succession.File == nil {
		n.Sequences.Adopt(in.state.Sequences, time.Now())
	}
	for _, st := range in.state.Peers {
		la := n.Local(st.Local)
		if la == nil || !n.SkipTo(st.Index) {
			return fmt.Errorf("connection %d from %v: %w", st.Index, st.Local, datagram.ErrInvalid)
		}
		p, err := n.PeerByKey(la, node.PeerKey{Local: st.Local, Remote: st.Remote, Passive: st.Passive})
		if err != nil {
			return err
		}
		p.Lock()
		p.Core.Inherit(st.Core)
		p.Carries = node.Carriage(st.Carries)
		p.Sync()
		p.Told.Store(true)
		for i := range conn.MaxPaths {
			if p.Inbound(i).Next() == 0 && st.Received[i] > 0 { // there is no sequence: nothing came for a bound port
				p.Resume(i, conn.Received{Generation: st.Core.Generation, Next: st.Received[i]})
			}
			p.Inbound(i).Loosen(st.Loose[i])
		}
		p.Unlock()
		in.peers = append(in.peers, p)
		if p.Choice != nil {
			p.Choice.Inherit(st.Local, st.Remote, st.Wire, "taken over")
		}
	}
	n.InheritTold(in.state.Told)
	return nil
}

// inherit takes over the sessions of the predecessor.
func (s *Service) inherit(in *estate) error {
	st := in.state.Service
	s.table.Succeed(st.Maps+1, st.Slots)
	for _, x := range in.state.Told {
		if x.Index < ipc.MaxPeers && s.node.PeerAt(x.Index) == nil {
			_ = s.table.SetPeer(int(x.Index), x.Local, x.Remote) // its zones have been written before
		}
	}
	if st.Path != "" {
		s.file = control.Adopt(st.Path)
	}
	s.next = st.Next
	for _, i := range st.Openings {
		c, err := ipc.OpenConn(in.take(i))
		if err != nil {
			return err
		}
		s.kept = append(s.kept, &opening{c: c})
	}
	for i := range st.Sessions {
		if err := s.resume(&st.Sessions[i], in); err != nil {
			return fmt.Errorf("session %d: %w", st.Sessions[i].ID, err)
		}
	}
	lingering, err := s.resumeLingering(st)
	if err != nil {
		return fmt.Errorf("sockets that linger: %w", err)
	}
	for i := range in.state.Peers {
		if err := s.requeue(in.peers[i], in.state.Peers[i].Queue, lingering); err != nil {
			return fmt.Errorf("messages for %v: %w", in.peers[i].Remote, err)
		}
	}
	return nil
}

// resume makes a session of the predecessor. Nobody works for the session yet.
func (s *Service) resume(st *legacySession, in *estate) (err error) {
	x := &session{
		svc: s, node: s.node, id: st.ID, cred: st.Cred, gids: append(st.Cred.Groups, st.Cred.GID), command: st.Command, since: st.Since,
		promised: st.Promised, budget: int64(st.Promised) * 3 / 2, congested: make(map[*appSocket]struct{}),
		done: make(chan struct{}), again: st.Again, spills: st.Spills, slots: st.Slots, moves: true, holds: 1, ahead: st.Ahead, gens: st.Gens,
	}
	x.log = s.log.With(zap.Uint64("session", x.id), zap.Int("pid", x.cred.PID), zap.Uint32("uid", x.cred.UID), zap.String("command", x.command))
	if x.conn, err = ipc.OpenConn(in.take(st.Conn)); err != nil {
		return err
	}
	x.conn.Bound()
	var (
		seg        *ipc.Segment
		self, bell *ipc.Bell
		ear        *ipc.WatchedEar
	)
	file := in.take(st.Segment)
	if seg, err = ipc.AdoptSegment(st.Layout, file); err != nil {
		return err
	}
	if self, err = ipc.OpenBell(in.take(st.Self)); err == nil {
		if bell, err = ipc.OpenBell(in.take(st.Bell)); err == nil {
			ear, err = ipc.OpenWatchedEar(in.take(st.Ear))
		}
	}
	if err != nil {
		return err
	}
	if x.owner = st.Owner; x.owner == nil {
		x.owner = ownerOf(&x.cred, nil)
	}
	s.node.Attached(x.owner)
	x.regions.sess = x
	x.exposes.Store(true)
	x.queue.limit = st.Backlog
	x.heard.Inherit(st.Heard)
	s.mu.Lock()
	s.live++
	x.user = s.userLocked(x.cred.UID)
	x.user.sessions++
	for _, i := range st.Met {
		if p := s.node.PeerAt(i); p != nil {
			x.user.useLocked(x, p)
		}
	}
	x.queue.open(s.node.Xrc, fmt.Sprintf("application %d", x.id))
	s.mu.Unlock()
	x.equip(seg, file, st.Soft, self, ear, bell)
	x.sq.Seek(st.Submitted)
	x.out.ring.Seek(st.Completed)
	x.out.left, x.out.frees, x.out.events = st.Left, st.Frees, st.Events
	for _, e := range st.Events {
		switch e.Op() {
		case ipc.OpRetired:
			x.out.retired++
		case ipc.OpExposed:
			x.out.exposed++
		}
	}
	for _, v := range []struct {
		to interface{ Store(uint64) }
		v  uint64
	}{
		{&x.sentMessages, st.SentMessages}, {&x.sentBytes, st.SentBytes}, {&x.recvMessages, st.RecvMessages}, {&x.recvBytes, st.RecvBytes},
		{&x.flows.Stalls, st.Stalls}, {&x.congBlocked, st.Blocked}, {&x.congErrors, st.Congested}, {&x.queueFull, st.RunFull},
	} {
		v.to.Store(v.v)
	}
	if err := x.resumeMemory(st); err != nil {
		return err
	}
	return s.enlist(x)
}

// resumeMemory makes the session's sockets, and takes over what of the receive arena is in
// use.
func (x *session) resumeMemory(st *legacySession) error {
	for i := range st.Sockets {
		if err := x.resumeSocket(&st.Sockets[i]); err != nil {
			return fmt.Errorf("socket %v: %w", st.Sockets[i].Bound, err)
		}
	}
	closed := &appSocket{sess: x, s: new(node.Socket)} // owner of blocks whose socket was closed
	closed.gone.Store(true)
	r := x.mem
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, b := range st.Blocks {
		a, _ := x.socket(b.Socket)
		if a == nil {
			a = closed
		}
		if !r.resume(a, b) {
			return fmt.Errorf("block %d of %d bytes: %w", b.Off, b.Size, datagram.ErrInvalid)
		}
	}
	if !x.out.spill.Restore(st.Spill) {
		return fmt.Errorf("spilled completions: %w", datagram.ErrInvalid)
	}
	for _, off := range st.Spill.Blocks {
		if !r.arena.Take(int(off), ipc.SpillBlock) {
			return fmt.Errorf("spilled completions at %d: %w", off, datagram.ErrInvalid)
		}
		r.account(ipc.SpillBlock)
	}
	x.queue.add(x, int64(x.out.spill.Len())*socket.ItemCost)
	return nil
}

// resume allocates a block that the application has messages in. The caller holds mu.
func (r *receiveMemory) resume(a *appSocket, b legacyBlock) bool {
	if b.Lent <= 0 || b.Lent > 1<<30 || !r.arena.Take(int(b.Off), b.Size) {
		return false
	}
	r.touched = max(r.touched, int(b.Off)+b.Size)
	r.account(b.Size)
	k := &block{mem: r, sock: a, off: b.Off, size: b.Size, late: r.late.Load()}
	a.arena.Add(int64(b.Size))
	r.blocks[k.off] = k
	r.seg.hold()
	k.Lend(r.area[b.Off:int(b.Off)+b.Size:int(b.Off)+b.Size], k)
	k.Retain(int(b.Lent) - 1)
	k.lent.Store(b.Lent)
	return true
}

// resumeSocket makes a socket of the session.
func (x *session) resumeSocket(st *legacySocket) error {
	i := int(st.ID & 0xffff)
	if i >= x.seg.Sockets || i >= len(x.gens) {
		return datagram.ErrInvalid
	}
	for len(x.sockets) <= i {
		x.sockets = append(x.sockets, nil)
	}
	a := &appSocket{sess: x, id: st.ID, cell: x.seg.Cell(i), bytes: st.Settled[0], messages: st.Settled[1], before: st.Settled}
	c := &st.Counted
	a.counted = tallies{takenBytes: c[0], takenMessages: c[1], blocked: c[2], congested: c[3], full: c[4]}
	a.gaveBytes.Store(st.GaveBytes)
	a.gaveCount.Store(st.GaveCount)
	s, err := x.node.BindFor(st.Bound, x.owner, func(s *node.Socket) {
		s.Owner, a.s = a, s
		s.Queue.Source = a
		s.Account.Every = true
	})
	if err != nil {
		return err
	}
	x.svc.mu.Lock()
	x.user.occupyLocked(st.Bound.Addr())
	x.svc.mu.Unlock()
	x.sockets[i] = a
	x.bound.Add(1)
	s.Account.SetLimit(st.SendBuffer)
	s.ReceiveBuffer.Store(int64(st.ReceiveSize))
	s.Linger.Store(int64(st.Linger))
	s.RecvErrOn.Store(st.RecvErr)
	s.Sent.Store(st.Sent)
	s.TosValue.Store(st.TOS)
	if st.Connected.IsValid() {
		s.ToPort.Store(&st.Connected)
	}
	a.showHeld()
	for _, r := range st.Regions {
		if err := a.resumeRegion(r); err != nil {
			return fmt.Errorf("region %v: %w", r.Kept.Key, err)
		}
	}
	return a.resumeMessages(st.Messages)
}

// resumeRegion gives a piece of the session's memory the key that it had.
func (a *appSocket) resumeRegion(r legacyRegion) error {
	mem := a.sess.piece(uint32(r.Offset), uint32(r.Len))
	if r.Offset < 0 || r.Len <= 0 || mem == nil {
		return datagram.ErrInvalid
	}
	t := &a.s.Exposed
	owner, domain, err := a.s.OpenRegions()
	if err != nil {
		return err
	}
	lent := a.Lend()
	released := lent
	if r.Kept.Once {
		released = (&node.OnceRegion{Socket: a.s, Lent: lent, Key: r.Kept.Key}).Released
	}
	if err := owner.Restore(mem, r.Kept, mr.Options{Domain: domain, Released: released}); err != nil {
		lent()
		return err
	}
	t.Mu.Lock()
	t.Keys[r.Kept.Key] = datagram.MRFlags(r.Flags)
	t.Mu.Unlock()
	return nil
}

// resumeMessages queues what had found no room in the application's memory.
func (a *appSocket) resumeMessages(list []legacyMessage) error {
	q, bytes := &a.s.Queue, int64(0)
	from := make([]*netip.Addr, len(list))
	for i := range list {
		from[i] = a.s.Node.RemoteOf(list[i].Peer)
	}
	q.Mu.Lock()
	defer q.Mu.Unlock()
	for i, m := range list {
		if from[i] == nil || len(m.Data) > config.MaxMessage {
			return datagram.ErrInvalid
		}
		it := socket.Item{From: from[i], Peer: m.Peer, Seq: m.Sequence, Length: uint32(len(m.Data)), Sport: m.Sport, Path: m.Path, Dest: m.HasDest}
		if len(m.Data) > 0 {
			it.Buf = a.s.Node.Pool.Get(len(m.Data))
			copy(it.Buf.B, m.Data)
		}
		if m.HasDest {
			q.InDest = append(q.InDest, datagram.Cookie(m.Dest))
		}
		q.PushLocked(it)
		a.PlacedLocked(it.Buf)
		bytes += int64(len(m.Data))
	}
	n := int64(len(list))
	q.Bytes.Add(bytes)
	q.Count.Add(n)
	a.Received(bytes, n)
	return nil
}

// takeUp begins the work for sessions that were taken over, and accepts applications. An
// application that does not read what it is told is served when it has, or has not for
// callTimeout; no other one waits for that.
func (s *Service) takeUp() {
	for _, x := range s.all() {
		s.resuming.Go(x.takeUp)
	}
	for _, x := range s.orphans {
		x.finishResumed()
	}
	s.orphans = nil
	s.admitKept()
	s.begin()
}

func (x *session) takeUp() {
	_ = x.conn.SetWriteDeadline(time.Now().Add(callTimeout))
	if err := x.conn.Send(&ipc.Reply{}, x.svc.tableFD); err != nil {
		x.log.Info("application has gone", zap.Error(err)) // calls hears of its end
	}
	x.mu.Lock()
	socks := slices.Clone(x.sockets)
	x.mu.Unlock()
	for _, a := range socks {
		if a != nil {
			a.s.Congest()
			a.Deliver()
		}
	}
	x.log.Info("application taken over")
	x.serve()
	x.finishResumed()
}

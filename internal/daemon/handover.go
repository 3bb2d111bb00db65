package daemon

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/rds-go/rds/internal/ipc"
	"github.com/rds-go/rds/internal/node"
	"github.com/rds-go/rds/rds/datagram"
)

// errMoving: a handshake is left to the process that takes the daemon's place.
var errMoving = errors.New("rds: the service moves")

// bequeathTime bounds Bequeath, whatever the linger time: nobody receives anything meanwhile.
const bequeathTime = 8 * time.Second

// forStore is the key of ForStore.
type forStore struct{}

// ForStore is for Bequeath of a process that ends before another one takes its place. That one may know no
// owners in the state file, and refuse the file: it finds the receive sequences in the Legacy, too.
func ForStore(ctx context.Context) context.Context { return context.WithValue(ctx, forStore{}, true) }

// Bequeath is node.Node.Bequeath.
func Bequeath(ctx context.Context, n *node.Node) (*Legacy, error) {
	fail := func(err error) (*Legacy, error) { return nil, &datagram.OpError{Op: "bequeath", Err: err} }
	if len(n.Listeners) == 0 {
		return fail(datagram.ErrNotSupported)
	}
	ctx, cancel := context.WithTimeout(ctx, min(max(n.Config.Linger, time.Second), bequeathTime))
	defer cancel()
	svc, _ := n.Server().(*Service)
	if svc != nil {
		svc.rest(ctx.Value(lingering{}) != nil)
	}
	err := settle(ctx, n, svc)
	if err == nil {
		n.EndSessions()                                  // they do not move
		for _, t := range slices.Backward(n.Listeners) { // the preferred one last, as it listens first
			t.Pause()
		}
		err = depart(ctx, n)
	}
	if err == nil && svc != nil {
		err = svc.freeze(ctx)
	}
	if err == nil {
		var l *Legacy
		if l, err = legacyOfNode(ctx, n, svc); err == nil {
			return l, nil
		}
	}
	Return(n)
	return fail(err)
}

// Return is node.Node.Return.
func Return(n *node.Node) {
	if f := n.Succession.File; f != nil {
		f.Keep()
	}
	n.NoteNumbers()
	n.Leaving.Store(false)
	for _, la := range n.AllLocals() {
		la.Leaving.Store(false)
	}
	for _, t := range n.Listeners {
		t.Resume()
	}
	n.EachPeer(func(p *node.Peer) {
		p.Lock()
		p.Core.Return(time.Now())
		p.Arm()
		p.Commit()
	})
	for _, la := range n.AllLocals() {
		la.Announce(n)
	}
	if svc, ok := n.Server().(*Service); ok {
		svc.wake()
	}
}

// rest has the service take no more connections, and sessions no more calls and
// submissions. What comes waits.
func (s *Service) rest(lingers bool) {
	s.resuming.Wait() // at most callTimeout, and only right after another takeover
	s.looking.Lock()  // a look under way gives pages back, which will be another process's to do
	s.moving.Store(&halt{make(chan struct{}), lingers})
	s.looking.Unlock()
	_ = s.listener.SetDeadline(time.Unix(1, 0))
	s.accepting.Wait()
	s.mu.Lock()
	for _, o := range s.opening {
		_ = o.c.SetReadDeadline(time.Unix(1, 0))
	}
	s.mu.Unlock()
	s.entering.Wait()
	for _, x := range s.all() {
		_ = x.conn.SetReadDeadline(time.Unix(1, 0))
		x.mu.Lock()
		if slices.ContainsFunc(x.sockets, func(a *appSocket) bool { return a != nil && a.closing }) {
			_ = x.catchUp() // what was submitted before a call of Close is sent first
		}
		x.left = true
		x.mu.Unlock()
	}
}

// rush has a handshake end at once when the service rests.
func (s *Service) rush(o *opening) {
	if s.moving.Load() != nil {
		_ = o.c.SetReadDeadline(time.Unix(1, 0))
	}
}

// keeps tells whether a connection whose Hello did not come is kept for admitKept, of this
// service or of the one of the process that takes the daemon's place.
func (s *Service) keeps(o *opening, err error) bool {
	if s.moving.Load() == nil || !errors.Is(err, os.ErrDeadlineExceeded) {
		return false
	}
	_ = o.c.SetDeadline(time.Time{})
	s.mu.Lock()
	s.kept = append(s.kept, o)
	s.mu.Unlock()
	return true
}

// wake undoes rest and freeze.
func (s *Service) wake() {
	for _, x := range s.all() {
		_ = x.conn.SetReadDeadline(time.Time{})
		x.mu.Lock()
		x.left = false
		x.overBudget.Store(false)
		x.mu.Unlock()
	}
	if h := s.moving.Swap(nil); h != nil {
		close(h.resume)
	}
	_ = s.listener.SetDeadline(time.Time{})
	s.begin()
	s.admitKept()
	for _, x := range s.all() {
		x.hear()
		x.poke()
	}
}

// admitKept shakes hands with the applications whose connections were kept.
func (s *Service) admitKept() {
	s.mu.Lock()
	kept := s.kept
	s.kept = nil
	s.mu.Unlock()
	for _, o := range kept {
		s.welcome(o)
	}
}

// begin accepts applications.
func (s *Service) begin() {
	s.watching.Do(func() { s.work.Go(s.watchPages) })
	if s.place != nil {
		s.place.Accept(func(c *ipc.Conn) { s.welcome(&opening{c: c}) })
		return
	}
	s.accepting.Add(1)
	s.work.Go(func() {
		defer s.accepting.Done()
		s.accept()
	})
}

// settle marks all ports congested and waits until everything that was sent is
// acknowledged, but for what waits for hosts that are down and ports that are stopped, and
// no socket that was closed waits for that, unless it moves.
func settle(ctx context.Context, n *node.Node, svc *Service) error {
	n.BeginLeaving()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for {
		messages := 0
		for _, s := range n.Sockets() {
			messages += s.Account.Messages()
		}
		staying := 0
		if svc != nil {
			staying = svc.staying(&messages)
		}
		if staying == 0 && (messages == 0 || settled(n)) {
			return nil
		}
		for _, la := range n.AllLocals() {
			n.PollAcks(la)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("%d messages are not acknowledged: %w", messages, ctx.Err())
		}
	}
}

// staying is how many sockets cannot move as they are: they are being closed, or linger while those do not
// move. Messages of sockets that linger are added up.
func (s *Service) staying(messages *int) (n int) {
	for _, x := range s.all() {
		x.mu.Lock()
		for _, a := range x.sockets {
			if a != nil && a.closing {
				n++
			}
		}
		x.mu.Unlock()
	}
	lingers := s.moving.Load().lingers
	s.mu.Lock()
	defer s.mu.Unlock()
	for a := range s.lingering {
		*messages += a.s.Account.Messages()
		if !lingers {
			n++
		}
	}
	return n
}

// settled tells whether no message is under way that a peer could acknowledge.
func settled(n *node.Node) bool {
	settled := true
	n.EachPeer(func(p *node.Peer) {
		p.Lock()
		settled = settled && p.Core.Settled() && (len(p.Flows) == 0 || p.Linked() == 0)
		p.Unlock()
	})
	return settled
}

// depart ends all links, so that nothing is lost.
func depart(ctx context.Context, n *node.Node) error {
	until, _ := ctx.Deadline()
	left := time.Until(until)
	dialed, silent := make(chan struct{}), make(chan struct{})
	defer time.AfterFunc(left/10, func() { close(dialed) }).Stop()
	defer time.AfterFunc(left/2, func() { close(silent) }).Stop() // peers that do not answer pings
	var (
		wg   sync.WaitGroup
		mu   sync.Mutex
		late []netip.Addr // guarded by mu
	)
	n.EachPeer(func(p *node.Peer) {
		wg.Go(func() {
			if !p.Part(dialed, silent, ctx.Done(), nil) {
				mu.Lock()
				late = append(late, p.Remote)
				mu.Unlock()
			}
		})
	})
	wg.Wait()
	if len(late) > 0 {
		return fmt.Errorf("links to %v did not end in time: %w", late, context.DeadlineExceeded)
	}
	return nil
}

// freeze has no event loop work for a session any more, and waits until no goroutine does.
func (s *Service) freeze(ctx context.Context) error {
	tick := time.NewTicker(100 * time.Microsecond)
	defer tick.Stop()
	all := s.all()
	for _, x := range all {
		x.deafen(false)
	}
	s.mu.Lock()
	for a := range s.lingering {
		all = append(all, a.sess)
	}
	s.mu.Unlock()
	for _, x := range all {
		for x.working.Load() > 0 {
			select {
			case <-tick.C:
			case <-ctx.Done():
				return fmt.Errorf("a call of process %d does not end: %w", x.cred.PID, ctx.Err())
			}
		}
	}
	return nil
}

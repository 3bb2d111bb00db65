//go:build !live

package node

import (
	"net/netip"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/rds-go/rds/conn"
	"github.com/rds-go/rds/internal/buf"
	"github.com/rds-go/rds/internal/rdstest"
	"github.com/rds-go/rds/rds/config"
	"github.com/rds-go/rds/transport"
)

// Sessions take turns on a connection that does not take what they send, a
// quantum of bytes each, in order within each; what came before the gate closed
// goes first.
func TestSessionsTakeTurns(t *testing.T) {
	l := newLoopLab(t)
	n := l.node(config.Node{})
	la := &Local{Addr: rdstest.NewAddr()}
	p := newPeer(n, la, PeerKey{Local: la.Addr, Remote: rdstest.NewAddr()}, conn.Acceptor)
	defer p.close()
	p.Accepted(deadLink{}, 32768) // there is a link, and nothing is written
	const size = 32 << 10
	sessions := make([]FlowSet, 3)
	socks := make([]*Socket, 3)
	for i := range sessions {
		socks[i] = newSocket(n, la)
		socks[i].Port = uint16(100 + i)
		socks[i].Account.SetLimit(1 << 30)
	}
	send := func(i, n int) {
		m := conn.Message{Sport: socks[i].Port, Dport: 9, Account: &socks[i].Account, Admitted: true}
		b := new(buf.Buf)
		b.Lend(make([]byte, n), nowhereToGo{})
		m.Body = b
		socks[i].Account.Admit(n)
		was := socks[i].Account.Messages()
		if p.AcceptLocked(&sessions[i], socks[i], &m); socks[i].Account.Messages() != was {
			t.Fatal("refused")
		}
	}
	queued := func() (ports []uint16) {
		for _, m := range p.Core.Messages(false, 1000) {
			ports = append(ports, m.Sport)
		}
		return ports
	}
	p.Lock()
	defer p.Unlock()
	for range 40 { // a flood,
		send(0, size)
	}
	send(1, 64) // two small messages,
	send(1, 64)
	for range 6 { // and another flood
		send(2, size)
	}
	direct := flowGate / (size + 48)
	if direct*(size+48) < flowGate {
		direct++
	}
	if got := queued(); len(got) != direct {
		t.Fatalf("%d messages went to the log before the gate closed, want %d", len(got), direct)
	}
	p.Core.Cancel(&socks[0].Account, 9, true) // the log is empty again
	if got := queued(); len(got) != 0 {
		t.Fatalf("%d messages left", len(got))
	}
	for len(p.Flows) > 0 {
		if !p.serveLocked() {
			t.Fatal("nobody was served with an open gate")
		}
		if unsent := p.Core.Unsent(0); unsent > flowGate+size+48 {
			t.Fatalf("%d unwritten bytes were let through", unsent)
		}
		got := queued()
		if i := slices.Index(got, 101); len(p.Flows) == 3 && i < 0 || i > flowQuantum/size+1 {
			t.Errorf("the small messages are number %d, behind more than a quantum of the flood: %v", i, got)
		}
		for _, s := range socks {
			p.Core.Cancel(&s.Account, 9, true)
		}
	}
	for i, s := range socks {
		if s.Account.Messages() != 0 || !sessions[i].of[p].empty() {
			t.Errorf("socket %d: %d messages left", i, s.Account.Messages())
		}
	}
}

// However many time limits are over one after the other, looking for them in flows takes
// little: each look is followed by a pause.
func TestLooksAtFlowsAreBounded(t *testing.T) {
	rdstest.Bubble(t, func(t *testing.T) {
		la := &Local{Addr: rdstest.NewAddr()}
		p := newPeer(newLoopLab(t).node(config.Node{PeerBudget: 1000}), la, PeerKey{Local: la.Addr, Remote: rdstest.NewAddr()}, conn.ByAddress)
		defer p.close()
		p.Lock()
		defer p.Unlock()
		s, x := newSocket(p.Node, la), new(FlowSet)
		s.Port = 100
		s.Account.SetLimit(1 << 30)
		const messages = 20_000
		start := time.Now().Add(time.Hour)
		for i := range messages {
			m := conn.Message{Sport: 100, Dport: 9, Account: &s.Account, Admitted: true, Deadline: start.Add(time.Duration(i) * 10 * time.Microsecond)}
			p.AcceptLocked(x, s, &m)
		}
		parked, looks := x.of[p].Queue.Len(), 0
		for at := p.limits.Next(); !at.IsZero() && looks < messages; at = p.limits.Next() {
			p.expireLocked(at)
			looks++
			if left, most := x.of[p].Queue.Len(), messages-int(at.Sub(start)/(10*time.Microsecond)); left > max(0, most) {
				t.Errorf("at %v %d messages are left", at.Sub(start), left)
			}
		}
		if looks > 150 || parked < messages/2 || int(p.expired) != parked || !x.of[p].empty() { // 200 ms
			t.Errorf("%d looks, %d of %d ended", looks, p.expired, parked)
		}
	})
}

// flowing is the owner of a socket whose messages wait in flows. It notes the tokens of fates.
type flowing struct {
	Owner
	flows FlowSet
	held  func() // called while the fate of message 0 is told

	mu   sync.Mutex
	told []uint64 // guarded by mu
}

func (o *flowing) Flows() *FlowSet { return &o.flows }

func (o *flowing) Ended(f conn.Fate) {
	if f.Token == 0 {
		o.held()
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.told = append(o.told, f.Token)
}

// Fates of messages of which some are in the log, others wait in a flow, and the last one comes
// when the peer is not taken any more, are told in the order of the messages, also where who tells
// of the first ones is held up.
func TestFatesOfFlowsAreToldInOrder(t *testing.T) {
	for name, end := range map[string]func(p *Peer, s *Socket){
		"not allowed": func(p *Peer, _ *Socket) { p.bar(true) },
		"canceled":    func(p *Peer, s *Socket) { p.cancel(s, 0, true) },
		"abandoned":   func(p *Peer, s *Socket) { p.abandon(s) },
	} {
		t.Run(name, func(t *testing.T) {
			la := &Local{Addr: rdstest.NewAddr()}
			p := newPeer(newLoopLab(t).node(config.Node{}), la, PeerKey{Local: la.Addr, Remote: rdstest.NewAddr()}, conn.Acceptor)
			defer p.close()
			linked := name != "not allowed" // a link may have written some: then their fates come when it has ended
			if linked {
				p.Accepted(deadLink{}, 32768) // nothing is written
			}
			s := newSocket(p.Node, la)
			o := &flowing{Owner: s.Owner}
			s.Port, s.Owner = 100, o
			s.Account.SetLimit(1 << 30)
			account := &s.Share(p).Account
			const messages, size = 20, 32 << 10
			send := func(token uint64) {
				b := new(buf.Buf)
				b.Lend(make([]byte, size), nowhereToGo{})
				account.Admit(size)
				p.Lock()
				p.AcceptLocked(&o.flows, s, &conn.Message{Sport: 100, Dport: 9, Account: account, Admitted: true, Body: b, Notify: true, Token: token})
				p.Commit()
			}
			for i := range uint64(messages) {
				send(i)
			}
			if f := o.flows.of[p]; linked && (f.empty() || f.Queue.Len() == messages) {
				t.Fatal("not some in the log and some in the flow")
			}
			var other sync.WaitGroup
			o.held = func() {
				other.Go(func() {
					send(messages)
					p.cancel(s, 0, true)
				})
				for range 100_000 { // enough for the other one to tell of its message, if it does
					runtime.Gosched()
				}
			}
			end(p, s)
			other.Wait()
			var want []uint64
			for i := range uint64(messages + 1) {
				want = append(want, i)
			}
			if !slices.Equal(o.told, want) {
				t.Errorf("told of %d", o.told)
			}
		})
	}
}

// deadLink is a link that takes nothing.
type deadLink struct{ transport.Plain }

func (deadLink) Start(transport.Handler) error                         { return nil }
func (deadLink) Send([]transport.Frame) (t transport.Taken, err error) { return t, err }
func (deadLink) Acked() uint64                                         { return 0 }
func (deadLink) Close(transport.CloseMode)                             {}
func (deadLink) LocalAddr() (a netip.AddrPort)                         { return a }
func (deadLink) RemoteAddr() (a netip.AddrPort)                        { return a }
func (deadLink) Stats() (s transport.LinkStats)                        { return s }

// nowhereToGo owns what the test throws away.
type nowhereToGo struct{}

func (nowhereToGo) Put(*buf.Buf) {}

// A flow in which there always is a message takes no more memory than what waits in it.
func TestFlowThatIsNeverEmptyDoesNotGrow(t *testing.T) {
	t.Parallel()
	const waiting, messages = 3000, 1 << 18
	f := new(flow)
	for i := range uint64(messages) {
		f.park(nil, nil, &conn.Message{Token: i})
		if i < waiting {
			continue
		}
		if got := f.Queue.All()[0].M.Token; got != i-waiting {
			t.Fatalf("message %d is the first, not %d", got, i-waiting)
		}
		f.pop()
		if n := f.Queue.Len(); n != waiting {
			t.Fatalf("%d wait", n)
		}
	}
	if n := cap(f.Queue.All()); n > 4*waiting {
		t.Errorf("room for %d messages, and %d wait", n, waiting)
	}
}

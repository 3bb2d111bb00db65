package rds

import (
	"slices"
	"testing"

	"github.com/rds-go/rds/conn"
	"github.com/rds-go/rds/internal/buf"
	"github.com/rds-go/rds/transport"
)

// Sessions take turns on a connection that does not take what they send, a
// quantum of bytes each, in order within each; what came before the gate closed
// goes first.
func TestSessionsTakeTurns(t *testing.T) {
	l := newLoopLab(t)
	n := l.node(Config{})
	la := &localAddr{addr: newAddr()}
	p := newPeer(n, la, newAddr(), conn.ByAddress)
	defer p.close()
	p.path[0].link = deadLink{} // there is one, and nothing is written
	const size = 32 << 10
	sessions := make([]*session, 3)
	socks := make([]*nodeSocket, 3)
	for i := range sessions {
		sessions[i] = &session{flows: make(map[*peer]*flow)}
		socks[i] = &nodeSocket{node: n, la: la, port: uint16(100 + i)}
		socks[i].account.SetLimit(1 << 30)
	}
	send := func(i, n int) {
		m := conn.Message{Sport: socks[i].port, Dport: 9, Account: &socks[i].account, Admitted: true}
		b := new(buf.Buf)
		b.Lend(make([]byte, n), nowhereToGo{})
		m.Body = b
		socks[i].account.Admit(n)
		if p.acceptLocked(sessions[i], socks[i], &m); len(p.refused) > 0 {
			t.Fatal("refused")
		}
	}
	queued := func() (ports []uint16) {
		for _, m := range p.core.Messages(false, 1000) {
			ports = append(ports, m.Sport)
		}
		return ports
	}
	p.mu.Lock()
	defer p.mu.Unlock()
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
	p.core.Cancel(&socks[0].account, 9, true) // the log is empty again
	if got := queued(); len(got) != 0 {
		t.Fatalf("%d messages left", len(got))
	}
	for len(p.flows) > 0 {
		if !p.serveLocked() {
			t.Fatal("nobody was served with an open gate")
		}
		if unsent := p.core.Unsent(0); unsent > flowGate+size+48 {
			t.Fatalf("%d unwritten bytes were let through", unsent)
		}
		got := queued()
		if i := slices.Index(got, 101); len(p.flows) == 3 && i < 0 || i > flowQuantum/size+1 {
			t.Errorf("the small messages are number %d, behind more than a quantum of the flood: %v", i, got)
		}
		for _, s := range socks {
			p.core.Cancel(&s.account, 9, true)
		}
	}
	for i, s := range socks {
		if s.account.Messages() != 0 || !sessions[i].flows[p].empty() {
			t.Errorf("socket %d: %d messages left", i, s.account.Messages())
		}
	}
}

// deadLink is a link that nobody writes to.
type deadLink struct{ transport.Link }

func (deadLink) Close(transport.CloseMode) {}

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
		if got := f.queue.All()[0].m.Token; got != i-waiting {
			t.Fatalf("message %d is the first, not %d", got, i-waiting)
		}
		f.pop()
		if n := f.queue.Len(); n != waiting {
			t.Fatalf("%d wait", n)
		}
	}
	if n := cap(f.queue.All()); n > 4*waiting {
		t.Errorf("room for %d messages, and %d wait", n, waiting)
	}
}

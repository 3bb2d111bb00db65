package daemon

import (
	"context"
	"errors"
	"net/netip"
	"sync"
	"testing"

	"github.com/rds-go/rds/internal/node"
	"github.com/rds-go/rds/internal/rdstest"
	"github.com/rds-go/rds/internal/socket"
	"github.com/rds-go/rds/mr"
	"github.com/rds-go/rds/rds/config"
	"github.com/rds-go/rds/transport"
	"github.com/rds-go/rds/transport/loop"
)

// An opNet is a network in memory whose links carry operations: they are done
// on the regions of the node that the link leads to, before Operate returns, and
// are reported from a goroutine of their own.
type opNet struct {
	net   *loop.Network
	hosts sync.Map // netip.Addr to *opTransport

	mu    sync.Mutex
	links []*opLink
	plain bool // new links carry no operations
	hold  bool // operations are begun, and done and reported only by release
	full  bool // links take none, and call tried then, once, unless it is nil
	tried func()
	late  bool // what a link loses is reported by lose, not at its end
	fail  bool // what a link takes has failed here
	held  []heldOp
	begun []*transport.Operation
}

type heldOp struct {
	l  *opLink
	op *transport.Operation
}

// newOpLab makes a lab whose nodes have RDMA.
func newOpLab(t testing.TB) (*lab, *opNet) {
	n := &opNet{net: loop.NewNetwork()}
	return &lab{TB: t, net: n.net}, n
}

// node starts a node with RDMA, on cfg.Transport if that is set.
func (n *opNet) node(l *lab, cfg config.Node) *node.Node {
	l.Helper()
	dev, err := mr.New(mr.Config{})
	if err != nil {
		l.Fatal(err)
	}
	if cfg.Transport == nil {
		cfg.Transport = n.net.Transport()
	}
	cfg.Domain = dev.NewDomain()
	cfg.Transport = &opTransport{Transport: cfg.Transport, net: n, dev: dev, domain: cfg.Domain}
	return l.node(cfg)
}

// pair is a socket on each of two nodes with RDMA.
func (n *opNet) pair(l *lab) (a, b *socket.Socket) {
	return l.bind(n.node(l, config.Node{})), l.bind(n.node(l, config.Node{}))
}

// eachRDMA runs a test in memory, on XRC, and between addresses of one node. node
// makes nodes of one lab, or returns that one.
func eachRDMA(t *testing.T, test func(t *testing.T, l *lab, node func() *node.Node)) {
	t.Run("memory", func(t *testing.T) {
		t.Parallel()
		l, n := newOpLab(t)
		test(t, l, func() *node.Node { return n.node(l, config.Node{}) })
	})
	t.Run("xrc", func(t *testing.T) {
		t.Parallel()
		l := newLab(t)
		test(t, l, func() *node.Node { return l.node(config.Node{Wire: config.WireXRC}) })
	})
	t.Run("own", func(t *testing.T) {
		t.Parallel()
		l := newLab(t)
		n := l.node(config.Node{Wire: config.WireXRC})
		test(t, l, func() *node.Node { return n })
	})
}

// set changes how links behave.
func (n *opNet) set(change func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	change()
}

// waitHeld waits until so many operations are held.
func (n *opNet) waitHeld(t testing.TB, count int) {
	t.Helper()
	rdstest.Eventually(t, "operations at the link", func() bool {
		n.mu.Lock()
		defer n.mu.Unlock()
		return len(n.held) >= count
	})
}

// release does and reports what was held, and holds nothing any more.
func (n *opNet) release() {
	n.mu.Lock()
	n.hold = false
	held := n.held
	n.held = nil
	n.mu.Unlock()
	for _, h := range held {
		h.op.Done(h.op, h.l.do(h.op))
	}
}

// open lets links take operations again.
func (n *opNet) open() {
	n.set(func() { n.full = false })
	n.writable()
}

// writable has links that took no operation be tried again.
func (n *opNet) writable() {
	n.mu.Lock()
	links := n.links
	n.mu.Unlock()
	for _, l := range links {
		l.mu.Lock()
		h, refused := l.h, l.refused
		l.refused = false
		l.mu.Unlock()
		if refused {
			h.Writable()
		}
	}
}

// opTransport is one node's.
type opTransport struct {
	transport.Transport
	net    *opNet
	dev    *mr.Device
	domain *mr.Domain
}

func (t *opTransport) Close() error { return errors.Join(t.Transport.Close(), t.dev.Close()) }

func (t *opTransport) Listen(a netip.Addr, accept func(transport.Link)) error {
	err := t.Transport.Listen(a, func(l transport.Link) { accept(t.net.link(l)) })
	if err == nil {
		t.net.hosts.Store(a, t)
	}
	return err
}

func (t *opTransport) Dial(ctx context.Context, local, remote netip.Addr, path int) (transport.Link, error) {
	l, err := t.Transport.Dial(ctx, local, remote, path)
	if err != nil {
		return nil, err
	}
	return t.net.link(l), nil
}

func (n *opNet) link(l transport.Link) transport.Link {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.plain {
		return l
	}
	ol := &opLink{Link: l, net: n}
	n.links = append(n.links, ol)
	return ol
}

// opLink is a link that carries operations.
type opLink struct {
	transport.Link
	net *opNet

	mu      sync.Mutex
	h       transport.Handler
	refused bool   // operations were, for want of room
	begun   bool   // operations of the frame that is next are begun
	skip    bool   // the message behind the operation is not delivered
	written uint64 // by the link inside
	part    int    // octets of the frame that is next which the link inside has taken
	skipped []rdstest.Skipped
}

func (l *opLink) Start(h transport.Handler) error {
	l.mu.Lock()
	l.h = h
	l.mu.Unlock()
	return l.Link.Start(opHandler{h, l})
}

func (l *opLink) Caps() transport.Caps {
	c := l.Link.Caps()
	c.Operations = true
	return c
}

func (l *opLink) Send(frames []transport.Frame) (t transport.Taken, err error) {
	for ; t.Frames < len(frames); t.Frames++ {
		f := frames[t.Frames]
		if len(f.Ops) > 0 && !l.begun {
			if !l.operate(f.Ops) {
				return t, nil
			}
			l.begun, t.Ops = true, true
		}
		if f.Size() > 0 && !(l.begun && l.skips(f.Size())) {
			f.Ops = nil
			n, err := l.Link.Send([]transport.Frame{f})
			l.mu.Lock()
			l.part += n.Octets
			l.written += uint64(n.Octets)
			if n.Frames == 1 {
				l.written += uint64(f.Size() - l.part)
				l.part = 0
			}
			l.mu.Unlock()
			if n.Frames == 0 {
				t.Octets = n.Octets
				return t, err
			}
		}
		l.begun, t.Ops = false, false
	}
	return t, nil
}

// skips passes over a message of n octets if its operation was refused.
func (l *opLink) skips(n int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.skip {
		l.skipped = append(l.skipped, rdstest.Skipped{At: l.written, N: uint64(n)})
	}
	return l.skip
}

func (l *opLink) Acked() uint64 { return l.acked(l.Link.Acked()) }

func (l *opLink) acked(inside uint64) uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	total := inside
	for _, s := range l.skipped {
		if s.At <= inside {
			total += s.N
		}
	}
	return total
}

func (l *opLink) operate(ops []*transport.Operation) bool {
	n := l.net
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.full {
		l.mu.Lock()
		l.refused = true
		l.mu.Unlock()
		if tried := n.tried; tried != nil {
			n.tried = nil
			tried()
		}
		return false
	}
	l.mu.Lock()
	l.skip = false
	l.mu.Unlock()
	for _, op := range ops {
		n.begun = append(n.begun, op)
		if n.hold {
			n.held = append(n.held, heldOp{l, op})
			continue
		}
		status := transport.OpFailed
		if !n.fail {
			status = l.do(op)
		}
		if op.Kind == transport.OpWrite && status != transport.OpSuccess {
			l.mu.Lock()
			l.skip = true
			l.mu.Unlock()
		}
		go op.Done(op, status)
	}
	return true
}

// do executes an operation on the regions of the host that the link leads to.
func (l *opLink) do(op *transport.Operation) transport.OpStatus {
	at, _ := l.net.hosts.Load(l.RemoteAddr().Addr())
	host := at.(*opTransport)
	r := host.dev.NewReader("test")
	defer r.Close()
	req := mr.Request{Key: mr.Key(op.Key), Domain: host.domain, From: l.LocalAddr().Addr(), Claim: uint64(l.LocalAddr().Addr().As4()[3]) + 1, Addr: op.Addr}
	for _, b := range op.Local {
		req.Len += uint64(len(b))
	}
	req.Rights = map[transport.OpKind]mr.Rights{
		transport.OpWrite: mr.RemoteWrite, transport.OpRead: mr.RemoteRead,
		transport.OpFetchAdd: mr.RemoteAtomic, transport.OpCompareSwap: mr.RemoteAtomic,
	}[op.Kind]
	r.Enter()
	defer r.Leave()
	mem, fault := r.Check(&req)
	if fault != mr.None {
		return transport.OpRefused
	}
	switch op.Kind {
	case transport.OpFetchAdd:
		rdstest.PutWord(op.Local[0], mr.FetchAdd(mem, op.Add, op.AddMask))
	case transport.OpCompareSwap:
		rdstest.PutWord(op.Local[0], mr.CompareSwap(mem, op.Compare, op.CompareMask, op.Swap, op.SwapMask))
	default:
		for _, b := range op.Local {
			if op.Kind == transport.OpWrite {
				copy(mem, b)
			} else {
				copy(b, mem)
			}
			mem = mem[len(b):]
		}
	}
	return transport.OpSuccess
}

// opHandler reports what a link loses before its end.
type opHandler struct {
	transport.Handler
	l *opLink
}

func (h opHandler) Closed(cause error, acked uint64) {
	if n := h.l.net; !n.isLate() {
		n.lose(h.l)
	}
	h.Handler.Closed(cause, h.l.acked(acked))
}

func (n *opNet) isLate() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.late
}

// lose reports what is held of a link, or of all of them, as lost.
func (n *opNet) lose(l *opLink) {
	n.mu.Lock()
	var lost, rest []heldOp
	for _, h := range n.held {
		if l == nil || h.l == l {
			lost = append(lost, h)
		} else {
			rest = append(rest, h)
		}
	}
	n.held = rest
	n.mu.Unlock()
	for _, h := range lost {
		h.op.Done(h.op, transport.OpLost)
	}
}

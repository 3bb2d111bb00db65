package rdstest

import (
	"context"
	"encoding/binary"
	"errors"
	"net/netip"
	"sync"
	"testing"

	"github.com/rds-go/rds/mr"
	"github.com/rds-go/rds/rds/config"
	"github.com/rds-go/rds/transport"
	"github.com/rds-go/rds/transport/loop"
)

// OpNet is a network in memory whose links carry operations: they are done
// on the regions of the node that the link leads to, before Operate returns, and
// are reported from a goroutine of their own.
type OpNet struct {
	Net   *loop.Network
	hosts sync.Map // netip.Addr to *opTransport

	mu    sync.Mutex
	links []*opLink
	Plain bool // new links carry no operations
	Hold  bool // operations are begun, and done and reported only by Release
	Full  bool // links take none, and call Tried then, once, unless it is nil
	Tried func()
	Late  bool // what a link loses is reported by Lose, not at its end
	Fail  bool // what a link takes has failed here
	held  []heldOp
	Begun []*transport.Operation
}

type heldOp struct {
	l  *opLink
	op *transport.Operation
}

// skippedOctets are n octets that the peer's node never sees, behind at of others.
type skippedOctets struct{ at, n uint64 }

// PutWord stores what a word was.
func PutWord(b []byte, w uint64) { binary.NativeEndian.PutUint64(b, w) }

// NewOpNet makes a network.
func NewOpNet() *OpNet { return &OpNet{Net: loop.NewNetwork()} }

// With gives a node RDMA, on cfg.Transport if that is set.
func (n *OpNet) With(t testing.TB, cfg config.Node) config.Node {
	t.Helper()
	dev, err := mr.New(cfg.Memory)
	Must(t, err)
	if cfg.Transport == nil {
		cfg.Transport = n.Net.Transport()
	}
	cfg.Domain = dev.NewDomain()
	cfg.Transport = &opTransport{Transport: cfg.Transport, net: n, dev: dev, domain: cfg.Domain}
	return cfg
}

// Set changes how links behave.
func (n *OpNet) Set(change func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	change()
}

// Count is the number of operations begun.
func (n *OpNet) Count() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.Begun)
}

// Held is the number of operations that are held.
func (n *OpNet) Held() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.held)
}

// WaitHeld waits until so many operations are held.
func (n *OpNet) WaitHeld(t testing.TB, count int) {
	t.Helper()
	Eventually(t, "operations at the link", func() bool { return n.Held() >= count })
}

// Release does and reports what was held, and holds nothing any more.
func (n *OpNet) Release() {
	n.mu.Lock()
	n.Hold = false
	held := n.held
	n.held = nil
	n.mu.Unlock()
	for _, h := range held {
		h.op.Done(h.op, h.l.do(h.op))
	}
}

// Open lets links take operations again.
func (n *OpNet) Open() {
	n.Set(func() { n.Full = false })
	n.Writable()
}

// Writable has links that took no operation be tried again.
func (n *OpNet) Writable() {
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
	net    *OpNet
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

func (n *OpNet) link(l transport.Link) transport.Link {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.Plain {
		return l
	}
	ol := &opLink{Link: l, net: n}
	n.links = append(n.links, ol)
	return ol
}

// opLink is a link that carries operations.
type opLink struct {
	transport.Link
	net *OpNet

	mu      sync.Mutex
	h       transport.Handler
	refused bool   // operations were, for want of room
	begun   bool   // operations of the frame that is next are begun
	skip    bool   // the message behind the operation is not delivered
	written uint64 // by the link inside
	part    int    // octets of the frame that is next which the link inside has taken
	skipped []skippedOctets
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
		l.skipped = append(l.skipped, skippedOctets{l.written, uint64(n)})
	}
	return l.skip
}

func (l *opLink) Acked() uint64 { return l.acked(l.Link.Acked()) }

func (l *opLink) acked(inside uint64) uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	total := inside
	for _, s := range l.skipped {
		if s.at <= inside {
			total += s.n
		}
	}
	return total
}

func (l *opLink) operate(ops []*transport.Operation) bool {
	n := l.net
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.Full {
		l.mu.Lock()
		l.refused = true
		l.mu.Unlock()
		if tried := n.Tried; tried != nil {
			n.Tried = nil
			tried()
		}
		return false
	}
	l.mu.Lock()
	l.skip = false
	l.mu.Unlock()
	for _, op := range ops {
		n.Begun = append(n.Begun, op)
		if n.Hold {
			n.held = append(n.held, heldOp{l, op})
			continue
		}
		status := transport.OpFailed
		if !n.Fail {
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
	r := host.dev.NewReader("test", nil)
	defer r.Close()
	req := mr.Request{Key: mr.Key(op.Key), Domain: host.domain, From: l.LocalAddr().Addr(), Use: new(mr.Use), Addr: op.Addr}
	for _, b := range op.Local {
		req.Len += uint64(len(b))
	}
	req.Rights = map[transport.OpKind]mr.Rights{
		transport.OpWrite: mr.RemoteWrite, transport.OpRead: mr.RemoteRead,
		transport.OpFetchAdd: mr.RemoteAtomic, transport.OpCompareSwap: mr.RemoteAtomic,
	}[op.Kind]
	r.Enter()
	defer func() {
		r.Leave()
		host.dev.Finish(req.Use, true)
	}()
	mem, fault := r.Check(&req)
	if fault != mr.None {
		return transport.OpRefused
	}
	switch op.Kind {
	case transport.OpFetchAdd:
		PutWord(op.Local[0], mr.FetchAdd(mem, op.Add, op.AddMask))
	case transport.OpCompareSwap:
		PutWord(op.Local[0], mr.CompareSwap(mem, op.Compare, op.CompareMask, op.Swap, op.SwapMask))
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
		n.Lose(h.l)
	}
	h.Handler.Closed(cause, h.l.acked(acked))
}

func (n *OpNet) isLate() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.Late
}

// Lose reports what is held of a link, or of all of them, as lost.
func (n *OpNet) Lose(l *opLink) {
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

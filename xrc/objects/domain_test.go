//go:build !live

package objects

import (
	"errors"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/rds-go/rds/transport/iwarp"
)

func TestOpenDomain(t *testing.T) {
	g := parallelRig(t, Config{})
	s := g.session("s")
	fresh, shared := g.file("fresh"), g.process("owner", g.file("shared"))
	old := int(shared.dom.xrcd.file.Fd())
	const badFD = 1<<31 - 1 // one that was closed is another test's soon
	const cr, ex = os.O_CREATE, os.O_EXCL
	for _, c := range []struct {
		name  string
		fd    int
		flags int
		want  syscall.Errno
	}{
		{"no such descriptor", badFD, cr, syscall.EBADF},
		{"no such descriptor, nothing to make", badFD, 0, syscall.EBADF},
		{"private", -1, cr, 0},
		{"private, exclusive", -1, cr | ex, 0},
		{"private without O_CREATE", -1, 0, syscall.EINVAL},
		{"exists", old, 0, 0},
		{"exists, O_CREATE", old, cr, 0},
		{"exists, O_EXCL", old, ex, syscall.EINVAL},
		{"exists, both", old, cr | ex, syscall.EINVAL},
		{"absent", int(fresh.Fd()), 0, syscall.EAGAIN},
		{"absent, O_EXCL", int(fresh.Fd()), ex, syscall.EAGAIN},
		{"absent, O_CREATE", int(fresh.Fd()), cr, 0},
		{"absent, both", int(fresh.Fd()), cr | ex, 0},
	} {
		dom, err := s.OpenDomain(c.fd, c.flags)
		if c.want == 0 && err == nil {
			g.ok(dom.Close())
		} else if !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
	}
	same(t, "domains", g.Stats().Domains, 1)
}

// The file is what counts, not its name, the descriptor or how it is open.
func TestDomainGoesByTheInode(t *testing.T) {
	g := parallelRig(t, Config{})
	f := g.file("job")
	a := g.process("a", f)
	ro, err := os.Open(f.Name())
	g.ok(err)
	g.ok(f.Close())
	g.ok(os.Remove(f.Name()))
	b := g.process("b", ro)
	g.ok(ro.Close())
	if a.dom.Tag() != b.dom.Tag() {
		t.Error("two domains for one file")
	}
	again, err := os.Create(f.Name())
	g.ok(err)
	defer again.Close()
	if c := g.process("c", again); c.dom.Tag() == a.dom.Tag() {
		t.Error("a file of the same name has the same domain")
	}
	private := func() *Domain {
		d, err := a.OpenDomain(-1, os.O_CREATE)
		g.ok(err)
		return d
	}
	if one, two := private(), private(); one.Tag() == two.Tag() {
		t.Error("a private domain is shared")
	}
}

func TestOneOfManyExclusiveOpenersWins(t *testing.T) {
	g := parallelRig(t, Config{})
	f := g.file("job")
	var won atomic.Int32
	var wg sync.WaitGroup
	for range 8 {
		s := g.session("s")
		wg.Go(func() {
			if _, err := s.OpenDomain(int(f.Fd()), os.O_CREATE|os.O_EXCL); err == nil {
				won.Add(1)
			}
		})
	}
	wg.Wait()
	if won.Load() != 1 {
		t.Errorf("%d won", won.Load())
	}
}

// The table of what happens in the wrong order, and what is left then.
func TestXRCREQ40DestructionOrder(t *testing.T) {
	g, a, b := twoProcesses(t)
	q := a.srq(2)
	g.want(a.dom.Close(), ErrBusy)
	g.ok(q.Close(ctx))
	r := a.target()
	g.want(a.dom.Close(), ErrBusy)
	g.ok(errOf(b.Register(b.dom, r.Number)))
	g.ok(a.Unregister(ctx, a.dom, r.Number))
	if i, err := b.QueryTarget(b.dom, r.Number); err != nil || i.Registered != 1 {
		t.Errorf("%+v, %v", i, err)
	}
	spare, err := a.OpenDomain(int(a.dom.xrcd.file.Fd()), 0)
	g.ok(err)
	g.ok(a.dom.Close()) // only b has something in it
	g.want(a.dom.Close(), ErrForeign)
	g.ok(spare.Close())
	if g.Stats().Domains != 1 {
		t.Error("the domain went while b had it")
	}
	// What a queue and a queue pair complete in, and are protected by.
	q = b.srq(2)
	g.want(b.cq.Close(ctx), ErrBusy)
	g.want(b.pd.Close(), ErrBusy)
	tgt, c := b.connect(r, peer(1))
	posted(t, q, 1)
	n := q.Num()
	g.ok(q.Close(ctx)) // with a target connected
	g.want(g.send(tgt, n), ErrUnknownSRQ)
	i := b.initiator()
	g.want(b.cq.Close(ctx), ErrBusy)
	g.want(b.pd.Close(), ErrBusy)
	other := iwarp.Completion{ID: 7, Initiator: i.Ref().Number + 1}
	b.cq.Push(iwarp.Completion{Initiator: i.Ref().Number}, other, iwarp.Completion{Initiator: i.Ref().Number})
	ended := 0
	if !i.OnEnd(func() { ended++ }) {
		t.Error("the initiator has ended")
	}
	g.ok(i.Destroy(ctx))
	g.want(i.Destroy(ctx), ErrForeign)
	left := make([]iwarp.Completion, 4)
	if n := b.cq.Poll(left); n != 1 || left[0] != other {
		t.Errorf("%+v is left", left[:n])
	}
	if i.OnEnd(func() {}) || ended != 1 {
		t.Errorf("the end was told %d times", ended)
	}
	g.ok(b.cq.Close(ctx))
	g.want(b.cq.Close(ctx), ErrForeign)
	g.ok(b.pd.Close())
	g.want(b.pd.Close(), ErrForeign)
	g.want(b.dom.Close(), ErrBusy)
	h, err := b.OpenTarget(b.dom, r.Number)
	g.ok(err)
	g.ok(b.Unregister(ctx, b.dom, r.Number))
	g.alive(c)
	g.want(b.dom.Close(), ErrBusy)
	g.ok(h.Destroy(ctx))
	g.ended(c, ErrDestroyed)
	g.ok(b.dom.Close())
	if g.Stats().Domains != 0 || len(g.domains) != 0 {
		t.Error("the domain is left")
	}
}

func TestXRCREQ43ANewDomainOfTheSameFileKnowsNoOldNumbers(t *testing.T) {
	g := parallelRig(t, Config{})
	f := g.file("job")
	a := g.process("a", f)
	old, srqn, tag := a.target(), a.srq(1).Num(), a.dom.Tag()
	g.ok(a.Session.Close(ctx))
	b := g.process("b", f)
	if b.dom.Tag() == tag {
		t.Error("the same domain")
	}
	g.want(errOf(b.Register(b.dom, old.Number)), ErrNumber)
	tgt, _ := b.up(peer(1))
	g.want(g.send(tgt, srqn), ErrUnknownSRQ)
}

// Not parallel: it counts the descriptors of the process.
func TestDomainsKeepOneDescriptor(t *testing.T) {
	g := newRig(t, Config{})
	f := g.file("job")
	p := g.process("p", f)
	open := func() int {
		list, err := os.ReadDir("/dev/fd")
		if err != nil {
			t.Skip("needs /dev/fd: ", err)
		}
		return len(list)
	}
	before := open()
	for range 100 {
		d, err := p.OpenDomain(int(f.Fd()), 0)
		g.ok(err)
		g.ok(d.Close())
		g.want(errOf(p.OpenDomain(int(f.Fd()), os.O_EXCL)), ErrExists)
	}
	if n := open(); n > before+10 {
		t.Errorf("%d descriptors more", n-before)
	}
	g.ok(p.Session.Close(ctx))
	if n := open(); n > before+10 {
		t.Errorf("%d descriptors more", n-before)
	}
}

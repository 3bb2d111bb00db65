package xrc

import (
	"errors"
	"syscall"
	"testing"

	"github.com/rds-go/rds/mr"
	"github.com/rds-go/rds/transport/iwarp"
)

func TestCreateInitiator(t *testing.T) {
	t.Parallel()
	g, h := newRig(t, Config{}), newRig(t, Config{})
	f := g.file("job")
	p, other, far := g.process("p", f), g.process("other", f), h.process("far", f)
	good := InitiatorAttr{PD: p.pd, SendCQ: p.cq, MaxSend: 4}
	closed, err := p.CreateCQ(cqEntries)
	g.ok(err)
	g.ok(closed.Close(ctx))
	for _, c := range []struct {
		name   string
		change func(*InitiatorAttr)
	}{
		{"no protection domain", func(a *InitiatorAttr) { a.PD = nil }},
		{"no completion queue", func(a *InitiatorAttr) { a.SendCQ = nil }},
		{"a closed completion queue", func(a *InitiatorAttr) { a.SendCQ = closed }},
		{"protection domain of another session", func(a *InitiatorAttr) { a.PD = other.pd }},
		{"completion queue of another device", func(a *InitiatorAttr) { a.SendCQ = far.cq }},
		{"nothing to send", func(a *InitiatorAttr) { a.MaxSend = 0 }},
	} {
		a := good
		c.change(&a)
		if _, err := p.CreateInitiator(a); !errors.Is(err, syscall.EINVAL) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	if n := p.Used().Initiators; n != 0 {
		t.Errorf("%d initiators", n)
	}
	i, err := p.CreateInitiator(good)
	g.ok(err)
	info, err := i.Query()
	g.ok(err)
	if info.MaxSend != 4 || info.Attr.State != StateReset || KindOf(info.Ref.Number) != KindInitiator {
		t.Errorf("%+v", info)
	}
	g.ok(i.Destroy(ctx))
	_, err = i.Query()
	g.want(err, ErrForeign)
	g.want(i.Modify(Attr{State: StateInit}, MaskState|initMask), ErrNumber)
}

func TestCreateTarget(t *testing.T) {
	t.Parallel()
	g, h := newRig(t, Config{}), newRig(t, Config{})
	f := g.file("job")
	p, other, far := g.process("p", f), g.process("other", f), h.process("far", f)
	for _, c := range []struct {
		name string
		a    TargetAttr
	}{
		{"no domain", TargetAttr{}},
		{"domain of another session", TargetAttr{Domain: other.dom}},
		{"domain of another device", TargetAttr{Domain: far.dom}},
	} {
		if _, err := p.CreateTarget(c.a); !errors.Is(err, syscall.EINVAL) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	if n := g.Stats().TotalTargets(); n != 0 {
		t.Errorf("%d targets", n)
	}
}

func TestOpenTarget(t *testing.T) {
	t.Parallel()
	g := newRig(t, Config{})
	f := g.file("job")
	p, foreign := g.process("p", f), g.process("foreign", g.file("other"))
	r, dead := p.target(), p.target()
	g.ok(p.Unregister(ctx, p.dom, dead.Number))
	good := HandleAttr{Mask: allHandle, Domain: p.dom, Number: r.Number, Type: TypeTarget}
	for _, c := range []struct {
		name   string
		change func(*HandleAttr)
		want   syscall.Errno
	}{
		{"type RC", func(a *HandleAttr) { a.Type = TypeRC }, syscall.EINVAL},
		{"type initiator", func(a *HandleAttr) { a.Type = TypeInitiator }, syscall.EINVAL},
		{"number of an initiator", func(a *HandleAttr) { a.Number = p.initiator().Ref().Number }, syscall.EINVAL},
		{"number of the dead", func(a *HandleAttr) { a.Number = dead.Number }, syscall.EINVAL},
		{"target of another domain", func(a *HandleAttr) { a.Number = foreign.target().Number }, syscall.EINVAL},
		{"without the number", func(a *HandleAttr) { a.Mask &^= HandleNumber }, syscall.EINVAL},
		{"without the domain", func(a *HandleAttr) { a.Mask &^= HandleDomain }, syscall.EINVAL},
		{"without the type", func(a *HandleAttr) { a.Mask &^= HandleType }, syscall.EINVAL},
		{"an unknown bit", func(a *HandleAttr) { a.Mask |= 1 << 2 }, syscall.EOPNOTSUPP},
		{"no domain", func(a *HandleAttr) { a.Domain = nil }, syscall.EINVAL},
	} {
		a := good
		c.change(&a)
		if _, err := p.OpenTarget(a); !errors.Is(err, c.want) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	h, err := p.OpenTarget(good)
	g.ok(err)
	g.ok(h.Modify(Attr{State: StateInit}, MaskState|initMask))
	g.ok(h.Destroy(ctx))
	_, err = h.Query()
	g.want(err, ErrForeign)
	g.want(h.Modify(Attr{State: StateError}, MaskState), ErrForeign)
}

// A protection domain stays while regions are mapped in it.
func TestProtectionDomainWithRegions(t *testing.T) {
	t.Parallel()
	g := newRig(t, Config{})
	p := g.process("p", g.file("job"))
	m, err := p.pd.RegMR(make([]byte, 64), mr.RemoteRead, 0)
	g.ok(err)
	other, err := p.AllocPD()
	g.ok(err)
	if !p.pd.Owns(m.Key()) || other.Owns(m.Key()) {
		t.Error("a region is not of the domain that it was registered in, and of no other")
	}
	g.want(p.pd.Close(), syscall.EBUSY)
	g.ok(other.Close())
	g.want(other.Close(), ErrForeign)
	g.ok(p.Session.Close(ctx)) // ends the region
	if p.pd.Owns(m.Key()) {
		t.Error("a region of an ended session")
	}
}

func TestCreateCQ(t *testing.T) {
	t.Parallel()
	g := newRig(t, Config{})
	p := g.process("p", g.file("job"))
	_, err := p.CreateCQ(0)
	g.want(err, syscall.EINVAL)
	g.ok(p.cq.Close(ctx))
	g.want(p.cq.Wait(ctx), iwarp.ErrClosed)
	g.want(p.cq.Close(ctx), ErrForeign)
}

//go:build !live

package objects

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
	same(t, "initiators", p.Used().Initiators, 0)
	i, err := p.CreateInitiator(good)
	g.ok(err)
	info, err := i.Query()
	g.ok(err)
	if info.MaxSend != 4 || info.Attr.State != StateReset || KindOf(info.Ref.Number) != KindInitiator {
		t.Errorf("%+v", info)
	}
	g.ok(i.Destroy(ctx))
	g.want(errOf(i.Query()), ErrForeign)
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
	same(t, "targets", g.Stats().TotalTargets(), 0)
}

func TestOpenTarget(t *testing.T) {
	g := parallelRig(t, Config{})
	f := g.file("job")
	p, foreign := g.process("p", f), g.process("foreign", g.file("other"))
	r, dead := p.target(), p.target()
	g.ok(p.Unregister(ctx, p.dom, dead.Number))
	for _, c := range []struct {
		name   string
		dom    *Domain
		number uint32
	}{
		{"number of an initiator", p.dom, p.initiator().Ref().Number},
		{"number of the dead", p.dom, dead.Number},
		{"target of another domain", p.dom, foreign.target().Number},
		{"no domain", nil, r.Number},
	} {
		if _, err := p.OpenTarget(c.dom, c.number); !errors.Is(err, syscall.EINVAL) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	h, err := p.OpenTarget(p.dom, r.Number)
	g.ok(err)
	g.ok(h.Modify(Attr{State: StateInit}, MaskState|initMask))
	g.ok(h.Destroy(ctx))
	g.want(errOf(h.Query()), ErrForeign)
	g.want(h.Modify(Attr{State: StateError}, MaskState), ErrForeign)
}

// A protection domain stays while regions are mapped in it.
func TestProtectionDomainWithRegions(t *testing.T) {
	g, p := oneProcess(t)
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
	g, p := oneProcess(t)
	g.want(errOf(p.CreateCQ(0)), syscall.EINVAL)
	g.ok(p.cq.Close(ctx))
	g.want(p.cq.Wait(ctx), iwarp.ErrClosed)
	g.want(p.cq.Close(ctx), ErrForeign)
}

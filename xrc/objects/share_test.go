//go:build !live

package objects

import (
	"net/netip"
	"os"
	"testing"
)

// userSession is a session of a user, and a domain of its own that has no file.
func (g *rig) userSession(uid uint32, unbound bool) *process {
	g.Helper()
	s, err := g.NewSession(SessionConfig{User: User{UID: uid}, Unbound: unbound})
	g.ok(err)
	p := &process{Session: s, g: g}
	p.dom, err = s.OpenDomain(-1, os.O_CREATE)
	g.ok(err)
	return p
}

// The files that the sessions of a user keep with their domains are bounded together. To join a domain
// costs nothing, and what has gone makes room.
func TestFilesAreAShareOfTheUser(t *testing.T) {
	g := parallelRig(t, Config{Shares: Shares{Files: 2}})
	a, b, other, free := g.userSession(1, false), g.userSession(1, false), g.userSession(2, false), g.userSession(1, true)
	open := func(p *process, f *os.File) (*Domain, error) { return p.OpenDomain(int(f.Fd()), os.O_CREATE) }
	one, two, three, four := g.file("1"), g.file("2"), g.file("3"), g.file("4")
	first, err := open(a, one)
	g.ok(err)
	g.ok(errOf(open(b, two)))
	g.want(errOf(open(a, three)), ErrShare)
	g.want(errOf(open(b, three)), ErrShare)
	g.ok(errOf(open(b, two)))
	g.ok(errOf(open(other, three)))
	g.ok(errOf(open(free, four)))
	joined, err := open(other, one)
	g.ok(err)
	g.ok(first.Close())
	g.want(errOf(open(a, g.file("5"))), ErrShare) // the domain lives on
	g.ok(joined.Close())
	g.want(errOf(open(a, g.file("6"))), ErrShare) // what is unbound counts all the same
	g.ok(free.Close(ctx))
	g.ok(errOf(open(a, g.file("7"))))
}

// So are the targets of a user's sessions, those included that outlive their session.
func TestTargetsAreAShareOfTheUser(t *testing.T) {
	g := parallelRig(t, Config{Shares: Shares{Targets: 3}})
	f := g.file("job")
	user := func(name string) *process { return g.process(name, f) }
	a, b := user("a"), user("b")
	make := func(p *process) error { return errOf(p.CreateTarget(TargetAttr{Domain: p.dom})) }
	kept := a.target()
	g.ok(make(a))
	g.ok(make(b))
	g.want(make(a), ErrShare)
	g.want(make(b), ErrShare)
	g.ok(g.userSession(7, false).overShare(3))
	g.ok(errOf(b.Register(b.dom, kept.Number)))
	g.ok(a.Close(ctx)) // its other target goes with it
	g.ok(make(b))
	g.want(make(b), ErrShare)
	g.ok(b.Unregister(ctx, b.dom, kept.Number))
	g.ok(make(b))
}

// overShare makes n targets.
func (p *process) overShare(n int) error {
	for range n {
		if _, err := p.CreateTarget(TargetAttr{Domain: p.dom}); err != nil {
			return err
		}
	}
	return nil
}

// No host has more targets of a service than it leaves free: the next host gets some, too.
func TestNoHostTakesAllTargets(t *testing.T) {
	g := parallelRig(t, Config{Limits: Limits{Targets: 8}})
	g.advertised("p", g.file("job"), serviceID)
	connect := func(host netip.Addr, n uint32) (ConnectReply, Status) {
		r := request(peer(n), serviceID)
		r.From.Host = host
		return g.Connect(r)
	}
	fill := func(host netip.Addr, from uint32) (n uint32) {
		for ; n < 20; n++ {
			if _, st := connect(host, from+n); st != StatusFound {
				same(t, "status", st, StatusBusy)
				break
			}
		}
		return n
	}
	a, b, c := hostA, hostB, netip.MustParseAddr("10.9.9.9")
	same(t, "targets of the first host", fill(a, 1), 4)
	same(t, "of the second", fill(b, 1), 2)
	same(t, "of the third", fill(c, 1), 1)
	reply, st := connect(a, 1)
	if st != StatusFound || !reply.Reused {
		t.Errorf("%v, %+v: what a host has goes on", st, reply)
	}
	for n := range uint32(4) {
		g.PeerGone(a, peer(n+1).QP)
	}
	if n := fill(c, 2); n < 1 {
		t.Errorf("%d more for the third when the first has gone", n)
	}
}

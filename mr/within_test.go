package mr

import "testing"

// What owners hold counts together against the owner that they are within.
func TestOwnersWithinAnother(t *testing.T) {
	g := parallelRig(t, Config{Small: PoolConfig{Items: 100}})
	user := g.NewOwner(OwnerConfig{Items: 10, Pinned: 2 * SmallSize})
	a, b := g.NewOwner(OwnerConfig{Within: user}), g.NewOwner(OwnerConfig{Within: user, Items: 9})
	opt := g.options(RemoteRead)
	for range 6 {
		g.mapped(a, make([]byte, 64), opt)
	}
	k := g.mapped(b, make([]byte, 64), opt)
	for range 3 {
		g.mapped(b, make([]byte, 64), opt)
	}
	g.want(errOf(a.Map(make([]byte, 64), opt)), ErrExhausted)
	g.want(errOf(b.Map(make([]byte, 64), opt)), ErrExhausted)
	g.mapped(g.own, make([]byte, 64), opt) // somebody else
	g.ok(b.FreeInvalidate(t.Context(), k))
	g.mapped(a, make([]byte, 64), opt)

	g.ok(a.Close(t.Context()))
	g.ok(errOf(b.Map(make([]byte, SmallSize), opt)))
	g.want(errOf(b.Map(make([]byte, SmallSize), opt)), ErrPinned)
	g.ok(b.Close(t.Context()))
	same(t, "bytes are held by nobody", user.Pinned(), 0)
}

// Without limits of its own an owner may have, with all that are within it, as much as it
// leaves free.
func TestOwnersWithinAnotherLeaveHalf(t *testing.T) {
	g := parallelRig(t, Config{Small: PoolConfig{Items: 100}})
	user := g.NewOwner(OwnerConfig{})
	n := 0
	for range 20 {
		o := g.NewOwner(OwnerConfig{Within: user})
		for {
			if _, err := o.Map(make([]byte, 64), g.options(RemoteRead)); err != nil {
				break
			}
			n++
		}
	}
	if n != 50 {
		t.Errorf("20 owners of one have %d of 100 regions, want 50", n)
	}
}

package mr

import "testing"

// A key is its owner's while its region lives, and nobody else's.
func TestOwnerKnowsItsKeys(t *testing.T) {
	g := parallelRig(t, Config{})
	a, b := g.NewOwner(OwnerConfig{}), g.NewOwner(OwnerConfig{})
	k := g.mapped(a, make([]byte, 64), g.options(RemoteRead))
	if !a.Owns(k) || b.Owns(k) || a.Owns(k+1) {
		t.Errorf("%v, %v, %v", a.Owns(k), b.Owns(k), a.Owns(k+1))
	}
	g.ok(a.Free(k))
	if a.Owns(k) {
		t.Error("a region that has ended")
	}
	k = g.mapped(b, make([]byte, 64), g.options(RemoteRead))
	g.ok(b.Close(t.Context()))
	if b.Owns(k) {
		t.Error("a region of a closed owner")
	}
	g.ok(a.Close(t.Context()))
}

package mr

import (
	"net"
	"strings"
	"testing"
	"time"
)

func TestConfigNamesEveryFieldOutOfBounds(t *testing.T) {
	t.Parallel()
	if err := (Config{}).Validate(); err != nil {
		t.Errorf("the zero value: %v", err)
	}
	c := Config{
		Small: PoolConfig{Items: -1}, Large: PoolConfig{Items: 1<<23 + 1}, Registered: PoolConfig{Pinned: -1},
		Bases: 1 << 24, Quarantine: 25 * time.Hour, Linger: 1, Stuck: time.Hour, MapWait: 2 * time.Hour,
		LogInterval: 1, Peers: 1 << 17,
	}
	_, err := New(c)
	if err == nil {
		t.Fatal("New accepts it")
	}
	for _, field := range []string{"Small.Items", "Large.Items", "Registered.Pinned", "Bases", "Quarantine", "Linger", "Stuck", "MapWait", "LogInterval", "Peers"} {
		if !strings.Contains(err.Error(), "Config."+field+":") {
			t.Errorf("the error does not name %s: %v", field, err)
		}
	}
}

func TestRightsAreThoseOfVerbs(t *testing.T) {
	t.Parallel()
	for r := range Rights(0xff) {
		known := r < 16
		change := r&(RemoteWrite|RemoteAtomic) != 0
		if want := known && (!change || r&LocalWrite != 0); (r.Validate() == nil) != want {
			t.Errorf("%v: %v", r, r.Validate())
		}
	}
	for r, want := range map[Rights]string{
		0:                        "local-read",
		LocalWrite | RemoteWrite: "local-write|remote-write",
		RemoteRead | 64:          "remote-read|unknown",
	} {
		if got := r.String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestFaultsAreErrors(t *testing.T) {
	t.Parallel()
	texts := map[string]bool{}
	for f := NoRegion; f < faults; f++ {
		if f.Err() != error(f) || !strings.HasPrefix(f.Error(), "mr: ") || texts[f.Error()] {
			t.Errorf("fault %d: %v", f, f.Err())
		}
		texts[f.Error()] = true
	}
	if None.Err() != nil || faults.Err() == nil || faults.Error() == "" {
		t.Error("None or an unknown fault")
	}
}

func TestClosedDeviceRefuses(t *testing.T) {
	g := parallelRig(t, Config{})
	k, _ := g.region(8, 0, 0)
	r := g.reader("r")
	g.ok(g.Close())
	_, err := g.own.Map(make([]byte, 8), g.options(0))
	g.want(err, ErrClosed)
	g.want(err, net.ErrClosed)
	g.want(errOf(g.NewOwner(OwnerConfig{}).Map(make([]byte, 8), g.options(0))), ErrClosed)
	g.want(g.own.Free(k), ErrKey)
	g.wantFault(r, &Request{Key: k, Domain: g.dom, Len: 1}, Revoked)
	g.ok(g.own.Barrier(t.Context()))
	g.ok(g.own.Close(t.Context()))
}

//go:build live

package xrc

import (
	"slices"
	"testing"

	"github.com/rds-go/rds/internal/rdstest"
	"github.com/rds-go/rds/xrc/objects"
)

// What an idle object costs the daemon, in bytes of its heap. Not parallel: it measures the memory of the process, where
// the daemon is; applications, and the daemon of the other host, are processes of their own.
func TestIdleObjectsAreSmall(t *testing.T) {
	const (
		targets = 4 * idleInitiators
		queues  = 17 * idleQueues
	)
	l := rdstest.NewLab(t)
	near, far := &hostProcess{path: t.TempDir() + "/s", addr: rdstest.NewAddr()}, newHost(t, &l)
	near.start(&l)
	f := domainFile(t)
	startWorker(t, far, f, 7)
	keeper := startWorker(t, far, f, 8)
	peer, other := startProcess(t, nil, idlerRole, near.path, far.addr.String()), startProcess(t, nil, idlerRole, far.path, far.addr.String())
	peer.hear("ready")
	other.hear("ready")
	// cost is the growth of the heap by each of n objects.
	cost := func(what string, n int, most int64, make func()) {
		t.Helper()
		before := rdstest.Heap()
		make()
		each := (rdstest.Heap() - before) / int64(n)
		if t.Logf("%s: %d bytes, at most %d", what, each, most); each > most {
			t.Errorf("%s: %d bytes, more than %d", what, each, most)
		}
	}
	peer.do("session")
	peer.do("initiator") // makes the connection of the hosts
	cost("a target, connected and idle", targets, 1<<10, func() {
		for range targets/idleInitiators - 1 {
			peer.do("session")
		}
		peer.do("initiators")
	})
	all := far.node.Xrc.Objects().List(1 << 20)
	shared := slices.IndexFunc(all.Domains, func(d objects.DomainEntry) bool { return !d.Private })
	var numbers []uint32
	for i := range all.Targets {
		if x := &all.Targets[i]; x.Domain == all.Domains[shared].Tag {
			numbers = append(numbers, x.Ref.Number)
		}
	}
	if len(numbers) != targets+1 {
		t.Fatalf("%d targets, want %d", len(numbers), targets+1)
	}
	cost("a registration", targets, 128, func() {
		for _, n := range numbers {
			keeper.do("register", n)
		}
	})
	for range queues / idleQueues {
		other.do("session")
	}
	cost("a shared receive queue", queues, 2<<10, func() { other.do("queues") })
}

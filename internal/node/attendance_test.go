//go:build !live

package node

import (
	"errors"
	"os"
	"testing"
	"time"

	"github.com/rds-go/rds/internal/rdstest"
	"github.com/rds-go/rds/internal/statefile"
	"github.com/rds-go/rds/rds/config"
	"github.com/rds-go/rds/rds/datagram"
)

// A port of the predecessor is bound by whose it was, at once; by another process of the same
// user if that one has ended, or has had time to come back and has not; by nobody else until the
// grace is over, whatever the time.
func TestPortsAreKeptForTheirOwners(t *testing.T) {
	t.Parallel()
	alive, dead := statefile.ProcessOf(os.Getpid()), statefile.ProcessOf(os.Getpid())
	dead.Start++
	other := alive // another process
	other.PID++
	owner := func(uid uint32, place uint64, secret byte, p statefile.Process) *statefile.Owner {
		return &statefile.Owner{UID: uid, Place: place, Secret: [16]byte{secret}, Process: p}
	}
	had := owner(1, 0, 1, alive)
	for _, c := range []struct {
		name     string
		had      *statefile.Owner
		who      *statefile.Owner
		after    time.Duration
		attached *statefile.Owner // is there again
		bound    bool
	}{
		{name: "the same application", had: had, who: owner(1, 0, 1, other), bound: true},
		{name: "the same application as another user", had: had, who: owner(9, 3, 1, other), bound: true},
		{name: "this process", had: had, bound: true},
		{name: "the same process with another secret", had: had, who: owner(1, 0, 2, alive), bound: true},
		{name: "another user", had: had, who: owner(2, 0, 2, other)},
		{name: "another user, later", had: had, who: owner(2, 0, 2, other), after: 50 * time.Minute},
		{name: "another user, of a dead process", had: owner(1, 0, 1, dead), who: owner(2, 0, 2, other)},
		{name: "another user without a secret", had: had, who: owner(2, 0, 0, other), after: 50 * time.Minute},
		{name: "another user, of an application without a secret", had: owner(1, 0, 0, alive), who: owner(2, 0, 0, other)},
		{name: "another container", had: owner(0, 7, 1, alive), who: owner(0, 8, 2, other), after: 50 * time.Minute},
		{name: "a container and the host", had: owner(0, 0, 1, alive), who: owner(0, 8, 2, other), after: 50 * time.Minute},
		{name: "the same user, at once", had: had, who: owner(1, 0, 2, other), after: 900 * time.Millisecond},
		{name: "the same user, in time", had: had, who: owner(1, 0, 2, other), after: time.Second, bound: true},
		{name: "the same user, with the owner there", had: had, who: owner(1, 0, 2, other), after: time.Minute, attached: owner(1, 0, 1, alive)},
		{name: "the same user, of a dead process", had: owner(1, 0, 1, dead), who: owner(1, 0, 2, other), bound: true},
		{name: "the same user, of an application without a secret", had: owner(1, 0, 0, alive), who: owner(1, 0, 0, other), bound: true},
		{name: "another user, after the grace", had: had, who: owner(2, 0, 2, other), after: 2 * time.Hour, bound: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			rdstest.Bubble(t, func(t *testing.T) {
				h := newHeirs(t, newLoopLab(t), config.WireAuto)
				at := rdstest.AddrOf(h.at, 4000)
				n := h.next()
				had := *c.had
				n.Attached(&had)
				_, err := n.BindFor(at, &had, nil)
				rdstest.Must(t, err)
				h.end(n)
				n = h.next()
				n.Serving()
				if c.attached != nil {
					n.Attached(c.attached)
				}
				<-time.After(c.after)
				_, err = n.BindFor(at, c.who, nil)
				if bound := err == nil; bound != c.bound || !bound && !errors.Is(err, datagram.ErrAddressInUse) {
					t.Errorf("bound %v: %v", bound, err)
				}
			})
		})
	}
}

// What was parked for a port is its owner's, though somebody else has tried first.
func TestParkedMessagesAreTheOwners(t *testing.T) {
	bubbleOn(t, bothWires, func(t *testing.T, w config.Wire) {
		h := newHeirs(t, newMemLab(t), w)
		far, at := h.far(), rdstest.AddrOf(h.at, 4000)
		owner, thief := &statefile.Owner{UID: 1, Secret: [16]byte{1}}, &statefile.Owner{UID: 2, Secret: [16]byte{2}}
		n := h.next()
		n.Attached(owner)
		_, err := n.BindFor(at, owner, nil)
		rdstest.Must(t, err)
		h.end(n)
		rdstest.MustSend(t, far, at, []byte("for the owner"))
		n = h.next()
		n.Serving()
		for range 20 {
			<-time.After(100 * time.Millisecond) // the gate opens
			if _, err := n.BindFor(at, thief, nil); !errors.Is(err, datagram.ErrAddressInUse) {
				t.Fatalf("another user has the port: %v", err)
			}
		}
		_, err = n.BindFor(at, owner, nil)
		rdstest.Must(t, err)
		rdstest.Eventually(t, "the message to be the owner's", func() bool {
			s := n.Local(h.at).lookup(4000)
			return s != nil && s.Queue.Count.Load() == 1
		})
	})
}

// Numbers of messages never go back, whatever the clock says: neither when a connection has ended,
// nor after a restart, nor after a SIGKILL.
func TestNumbersNeverGoBack(t *testing.T) {
	t.Parallel()
	path := t.TempDir() + "/state"
	open := func() (*Node, *statefile.File) {
		f, err := statefile.Open(path, func(err error) { t.Error(err) })
		rdstest.Must(t, err)
		n := new(Node)
		n.numbers.open(f)
		return n, f
	}
	now := time.Unix(1_700_000_000, 0)
	hour := uint64(time.Hour)
	n, f := open()
	first := n.numbers.first(now)
	if first != uint64(now.UnixNano()) {
		t.Errorf("the first number is %d", first)
	}
	n.numbers.note(first+500, first+7)
	if v := n.numbers.first(now.Add(-time.Hour)); v != first+501 {
		t.Errorf("%d above the first, want 501", v-first)
	}
	if v := f.Number(); v < first+500+hour/2 || v > first+501+hour {
		t.Errorf("%d are reserved", v-first)
	}
	f.Close() // SIGKILL
	n, f = open()
	if v := n.numbers.first(now.Add(-time.Hour)); v <= first+501 || v > first+502+hour {
		t.Errorf("after a SIGKILL %d above the first", v-first)
	}
	exact := n.HighestNumber()
	f.Close()
	n, f = open()
	defer f.Close()
	if v := n.numbers.first(now.Add(-time.Hour)); v != exact+1 {
		t.Errorf("after an end %d above the last number", v-exact)
	}
	if v := n.numbers.first(now.Add(1000 * time.Hour)); v != uint64(now.Add(1000*time.Hour).UnixNano()) {
		t.Errorf("the clock is ahead and the number %d", v)
	}
}

// A connection begins above all numbers that were given before, and leaves those that it has given.
func TestConnectionsBeginAboveAllNumbers(t *testing.T) {
	bubble(t, newMemLab, func(t *testing.T, l *lab) {
		n, far := l.node(config.Node{Wire: config.WireTCP}), l.bindOne(config.Node{Wire: config.WireTCP})
		future := uint64(time.Now().Add(time.Hour).UnixNano()) // the clock was set back
		n.numbers.note(future)
		s := l.bind(n)
		for range 3 {
			rdstest.MustSend(t, s, far.LocalAddrPort(), []byte("x"))
			rdstest.Expect(t, far, "x")
		}
		p := n.Known(s.LocalAddrPort().Addr(), far.LocalAddrPort().Addr())
		if next := p.Core.Legacy().Next[0]; next <= future+3 {
			t.Errorf("the next number is %d below the highest one", future-next)
		}
		_ = s.Close() // whether all was acknowledged does not matter
		_ = nodeOf(far).Close()
		rdstest.Eventually(t, "the connection to end", func() bool { return rdstest.Peers(n) == 0 })
		if v := n.numbers.first(time.Now()); v <= future+4 {
			t.Errorf("the next connection begins with %d above the first number of this one", v-future)
		}
	})
}

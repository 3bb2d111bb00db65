//go:build live

package node

import (
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/rds-go/rds/internal/rdstest"
	"github.com/rds-go/rds/rds/datagram"
)

// The transports by their ports of a relay.
const (
	byTCP = iota
	byXRC
)

// relayed is a mover whose nodes have a relay between them and do not wait for minutes
// until they move. The log is of the node that dials.
func relayed(t testing.TB, patience time.Duration) (*mover, *rdstest.Relay, *observer.ObservedLogs) {
	l := newLab(t)
	r := newRelay(l)
	core, log := observer.New(zap.InfoLevel)
	m := &mover{lab: l, near: r.Near, there: r.There, here: r.Here, far: r.Far, a: l.quick(zap.New(core), patience), b: l.quick(zap.NewNop(), patience)}
	m.pair = m.a.choice
	return m, r, log
}

// Port 18634 is closed, or its packets dropped, while a pair is in use, and opened again:
// the pair moves to TCP and back by itself, with one warning each, and nothing is lost.
func TestFallBackAndReturn(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		close  func(r *rdstest.Relay)
		reason string
	}{
		{"refused", func(r *rdstest.Relay) { r.Refuse(byXRC) }, "xrc is refused"},
		{"dropped", func(r *rdstest.Relay) { r.Drop(byXRC) }, "xrc does not answer for"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			m, r, log := relayed(t, 500*time.Millisecond)
			m.streams(3)
			defer m.finish()
			m.moved("xrc")
			x := m.bind(m.a, rdstest.AddrOf(m.near, 3000))
			for range 2 {
				log.TakeAll()
				c.close(r)
				r.Cut(byXRC)
				m.moved("tcp")
				var op datagram.Cookie
				err := x.TrySendMessage(&datagram.Outgoing{To: rdstest.AddrOf(m.there, 4000), RDMA: &datagram.RDMA{Cookie: op, Local: [][]byte{make([]byte, 8)}, Write: true}})
				rdstest.WantErr(t, "RDMA", err, datagram.ErrNotSupported, syscall.EOPNOTSUPP)
				for _, part := range []string{m.there.String() + " is served by tcp", c.reason} {
					if err == nil || !strings.Contains(err.Error(), part) {
						t.Errorf("%v does not say %q", err, part)
					}
				}
				r.Forward(byXRC)
				m.moved("xrc")
				warned := log.FilterLevelExact(zap.WarnLevel).FilterMessage("peer is served by another transport").All()
				if len(warned) != 2 || !strings.Contains(warned[0].ContextMap()["reason"].(string), c.reason) || warned[1].ContextMap()["transport"] != "xrc" {
					t.Errorf("%d warnings: %v", len(warned), warned)
				}
			}
		})
	}
}

// SYNs to port 18634 that are lost at the first contact cost time, and not XRC.
func TestLostSYNsAtFirstContact(t *testing.T) {
	t.Parallel()
	m, r, log := relayed(t, 0)
	r.Drop(byXRC)
	opened := time.AfterFunc(1200*time.Millisecond, func() { r.Forward(byXRC) })
	defer opened.Stop()
	a, b := m.bind(m.a, rdstest.AddrOf(m.near, 4000)), m.bind(m.b, rdstest.AddrOf(m.far, 4000))
	rdstest.MustSend(t, a, rdstest.AddrOf(m.there, 4000), []byte("late"))
	rdstest.Expect(t, b, "late")
	if by := m.serving(); by != "xrc" {
		t.Errorf("served by %q", by)
	}
	if l := log.FilterMessage("peer is served by another transport").All(); len(l) > 0 {
		t.Errorf("%v", l)
	}
}

// A host that speaks TCP and drops what comes to port 18634 is reached in the stated
// time, and at once the next time.
func TestFirstContactWithFirewall(t *testing.T) {
	t.Parallel()
	m, r, _ := relayed(t, 500*time.Millisecond)
	r.Drop(byXRC)
	a, b := m.bind(m.a, rdstest.AddrOf(m.near, 4000)), m.bind(m.b, rdstest.AddrOf(m.far, 4000))
	start := time.Now()
	rdstest.MustSend(t, a, rdstest.AddrOf(m.there, 4000), []byte("first"))
	rdstest.Expect(t, b, "first")
	if took := time.Since(start); took < 500*time.Millisecond {
		t.Errorf("took %v: XRC was not waited for", took)
	}
	if s := m.pair.State(m.near, m.there); s.Wire != "tcp" || !strings.Contains(s.Reason, "does not answer") || s.Next.IsZero() {
		t.Errorf("%+v", s)
	}
	rdstest.MustSend(t, b, rdstest.AddrOf(m.here, 4000), []byte("back"))
	rdstest.Expect(t, a, "back")
	r.Forward(byXRC)
	rdstest.Eventually(t, "xrc", func() bool { return m.serving() == "xrc" })
	rdstest.MustSend(t, b, rdstest.AddrOf(m.here, 4000), []byte("moved"))
	rdstest.Expect(t, a, "moved")
}

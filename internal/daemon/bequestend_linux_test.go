//go:build live

package daemon

import (
	"testing"

	"github.com/rds-go/rds/conn"
	"github.com/rds-go/rds/internal/ipc"
	"github.com/rds-go/rds/internal/rdstest"
	"github.com/rds-go/rds/rds/config"
)

// A session that is about to end, by its own end or because its application breaks the rules, stays behind
// with its messages, and does not keep the others from moving.
func TestSessionsAtTheirEndDoNotMove(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	cfg := config.Node{Wire: config.WireTCP, Linger: -1}
	n, svc, path := served(t, l, cfg, config.Service{})
	here, nobody := rdstest.NewAddr(), rdstest.NewAddr()
	sent := func() (uint64, *evil) {
		e := intrude(t, path, ipc.FeatureSpill, ipc.FeatureMoves)
		id, port := e.bind(rdstest.AddrOf(here, 0))
		e.submit(ipc.MakeEntry(ipc.OpSend, 0, port, id, e.resolve(here, nobody), 0, 0, 0, 0))
		return e.w.Session, e
	}
	good, e := sent()
	ends, _ := sent()
	breaks, _ := sent()
	rdstest.Eventually(t, "three messages for a host that there is not", func() bool {
		p := n.Known(here, nobody)
		p.Lock()
		defer p.Unlock()
		queued := 0
		return p.Core.Queue(func(*conn.QueuedMessage) { queued++ }) && queued == 3
	})
	for _, id := range []uint64{ends, breaks} {
		x := svc.sessions[id]
		x.mu.Lock()
		x.ended, x.bad = id == ends, map[uint64]error{breaks: errViolation}[id]
		x.mu.Unlock()
	}
	left, err := Bequeath(rdstest.Background(t), n)
	rdstest.Must(t, err)
	st, err := decodeLegacy(left.State)
	rdstest.Must(t, err)
	if s := st.Service.Sessions; len(s) != 1 || s[0].ID != good {
		t.Errorf("sessions %+v move", s)
	}
	if q := st.Peers[0].Queue; len(q) != 1 || q[0].Session != good {
		t.Errorf("messages %+v move", q)
	}
	cfg.Port = l.Port
	h, err := Succeed(cfg, config.Service{}, left)
	rdstest.Must(t, err)
	h.Begin()
	if r := e.ask(ipc.Request{Op: ipc.CallResolve, Local: here, Remote: nobody}); r.Error != "" {
		t.Errorf("the session that moved: %+v", r)
	}
	_ = h.Service.Close()
	_ = h.Node.Close()
	Return(n)
}

//go:build live

package daemon

import (
	"path/filepath"
	"testing"

	"github.com/rds-go/rds/internal/rdstest"
	"github.com/rds-go/rds/rds/config"
)

// What a daemon leaves to one that begins after its end has the receive sequences twice: in the state
// file, and beside it for a daemon that refuses the file. One that has the file takes them from there.
func TestLegacyForTheStore(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	cfg := config.Node{Wire: config.WireTCP, State: filepath.Join(t.TempDir(), "state")}
	n := l.node(cfg)
	s, far := l.bind(n), l.bindOne(config.Node{Wire: config.WireTCP})
	rdstest.MustSend(t, far, s.LocalAddrPort(), []byte("x"))
	rdstest.Expect(t, s, "x")
	ctx := rdstest.Background(t)
	for _, stored := range []bool{false, true} {
		leave := ctx
		if stored {
			leave = ForStore(ctx)
		}
		left, err := Bequeath(leave, n)
		rdstest.Must(t, err)
		st, err := decodeLegacy(left.State)
		rdstest.Must(t, err)
		if st.Stored != stored || len(st.Sequences) > 0 != stored || left.StateFile < 0 || st.Number == 0 {
			t.Errorf("for the store %v: %d sequences, state file %d, number %d", stored, len(st.Sequences), left.StateFile, st.Number)
		}
		if !stored {
			left.Close()
			Return(n)
			continue
		}
		cfg.Port, cfg.Linger = l.Port, -1
		h, err := Succeed(cfg, config.Service{}, left)
		rdstest.Must(t, err)
		h.Begin()
		if list := h.Node.Sequences.Bequeath(); len(list) != len(st.Sequences) || list[0].Next != st.Sequences[0].Next {
			t.Errorf("sequences %v, left were %v", list, st.Sequences)
		}
		rdstest.Must(t, h.Node.Close())
	}
}

package node

import (
	"github.com/rds-go/rds/internal/rdstest"
)

// moved waits until a transport serves the pair and messages pass by it.
func (m *mover) moved(to string) {
	m.Helper()
	rdstest.Eventually(m, to, func() bool { return m.serving() == to })
	got := m.got.Load()
	rdstest.Eventually(m, "traffic by "+to, func() bool { return m.got.Load() > got+100 })
	if m.serving() != to {
		m.Errorf("%+v", m.pair.State(m.near, m.there))
	}
}

//go:build !live

package node

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/rds-go/rds/internal/wire"
)

// Each port has the time when it was marked, and none when it is not; of a peer whose maps change
// everywhere not more is kept than of others.
func TestPortMarks(t *testing.T) {
	t.Parallel()
	var m portMarks
	var marked wire.CongestionMap
	at := func(s int) time.Time { return time.Unix(int64(1000+s), 0) }
	look := func(port uint16, want time.Time) {
		t.Helper()
		if got := m.at(port); !got.Equal(want) {
			t.Errorf("port %d was marked at %v, want %v", port, got, want)
		}
	}
	look(5, time.Time{})
	marked.Set(5)
	m.update(at(1), &marked)
	marked.Set(65535)
	m.update(at(2), &marked)
	look(5, at(1))
	look(65535, at(2))
	look(6, time.Time{})
	for range 10 { // a stranger's
		for i := range marked {
			marked[i] = byte(rand.Uint32())
		}
		marked.Set(5)
		m.update(at(3), &marked)
	}
	if len(m.since) > 2*maxMarks {
		t.Errorf("%d times are kept", len(m.since))
	}
	look(5, at(3))
	marked.Clear(5)
	m.update(at(4), &marked)
	look(5, time.Time{})
	marked.Set(5)
	m.update(at(5), &marked)
	look(5, at(5))
	if !m.any() {
		t.Error("no port is marked")
	}
	m.update(at(6), nil)
	look(5, time.Time{})
	if m.any() {
		t.Error("a port is marked")
	}
}

// BenchmarkRandomMaps is a peer whose map changes everywhere, as a stranger's may.
func BenchmarkRandomMaps(b *testing.B) {
	var m portMarks
	var maps [16]wire.CongestionMap
	for i := range maps {
		for j := range maps[i] {
			maps[i][j] = byte(rand.Uint32())
		}
	}
	for i := 0; b.Loop(); i++ {
		m.update(time.Time{}, &maps[i%len(maps)])
	}
}

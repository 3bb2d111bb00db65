package rds

import (
	"errors"
	"net/netip"
	"strings"
	"sync"
	"testing"

	"github.com/rds-go/rds/internal/rdstest"
)

// dials waits until the daemon lets one more in, or returns why it does not. The
// daemon hears of the end of a session a moment after it.
func dials(t testing.TB, path string) *Client {
	t.Helper()
	var c *Client
	rdstest.Eventually(t, "room for a session", func() bool {
		var err error
		c, err = Dial(path)
		return err == nil
	})
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// lab makes nodes that reach each other, over TCP or in memory.
type lab struct{ rdstest.Lab }

func newLab(t testing.TB) *lab { return &lab{rdstest.NewLab(t)} }

func newLoopLab(t testing.TB) *lab { return &lab{rdstest.NewLoopLab(t)} }

func (l *lab) node(cfg Config) *Node { l.Helper(); return rdstest.Start(&l.Lab, NewNode, cfg) }

// pair is a socket on each of two nodes; a's address is the smaller one.
func (l *lab) pair(cfg Config) (a, b *Socket) {
	l.Helper()
	return l.bind(l.node(cfg)), l.bind(l.node(cfg))
}

// bindOne is a socket on a node of its own.
func (l *lab) bindOne(cfg Config) *Socket { l.Helper(); return l.bind(l.node(cfg)) }

// wantSaid checks that an error is one of ours and says each of some things.
func wantSaid(t *testing.T, what string, err error, is error, said ...string) {
	t.Helper()
	if err == nil || !errors.Is(err, is) {
		t.Errorf("%s: %v, not %v", what, err, is)
		return
	}
	for _, s := range said {
		if !strings.Contains(err.Error(), s) {
			t.Errorf("%s: %q does not say %q", what, err, s)
		}
	}
}

func bound(t testing.TB, p Provider, a netip.AddrPort) *Socket {
	t.Helper()
	return rdstest.Bind(t, p, a)
}

func streams(t *testing.T, l *lab, paths int) {
	t.Helper()
	sizes := []int{0, 1, 64, 5000, 16 << 10, 16<<10 + 1, 20_000, 100_000, MaxMessage}
	a, b := l.pair(Config{Paths: paths})
	var wg sync.WaitGroup
	ctx := rdstest.Background(t)
	for _, d := range [][2]*Socket{{a, b}, {b, a}} {
		wg.Go(func() {
			size := func(i int) int { return sizes[i%len(sizes)] / (1 + i/100) }
			rdstest.NoError(t, rdstest.Stream(ctx, d[0], d[1], 400, size))
		})
	}
	wg.Wait()
}

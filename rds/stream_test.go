//go:build !live

package rds

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"runtime"
	"sync"
	"testing"

	"github.com/rds-go/rds/internal/rdstest"
)

// Messages of every size arrive once, whole and in order, in both directions
// at once.
func TestStreams(t *testing.T) {
	for _, paths := range []int{1, 8} {
		t.Run(fmt.Sprintf("%d paths", paths), func(t *testing.T) {
			rdstest.Bubble(t, func(t *testing.T) { streams(t, newLoopLab(t), paths) })
		})
	}
}

// Both sides begin at the same moment, again and again.
func TestBothSidesConnectAtOnce(t *testing.T) {
	rdstest.Bubble(t, func(t *testing.T) {
		l := newLoopLab(t)
		for range 20 {
			a, b := l.pair(Config{Paths: 1 + 7*rand.IntN(2)})
			ctx := rdstest.Background(t)
			var wg sync.WaitGroup
			for _, d := range [][2]*Socket{{a, b}, {b, a}} {
				wg.Go(func() {
					rdstest.NoError(t, rdstest.Stream(ctx, d[0], d[1], 20, rdstest.Fixed(500)))
				})
			}
			wg.Wait()
			_ = nodeOf(a).Close()
			_ = nodeOf(b).Close()
		}
	})
}

// Binding and closing the node race; nothing may hang or stay.
func TestBindWhileClosing(t *testing.T) {
	rdstest.Bubble(t, func(t *testing.T) {
		for range 5 {
			l := newLoopLab(t)
			n := l.node(Config{})
			at := rdstest.AddrOf(rdstest.NewAddr(), 0)
			var wg sync.WaitGroup
			for range 4 {
				wg.Go(func() {
					for {
						s, err := n.Bind(at)
						if errors.Is(err, ErrAddressInUse) {
							return // all ports: the node's end was slow to come
						}
						if err != nil {
							rdstest.WantErr(t, "bind", err, net.ErrClosed)
							return
						}
						wg.Go(func() { // ends when the node does
							if _, err := s.Recv(context.Background()); !rdstest.Closed(err) {
								t.Error(err)
							}
						})
					}
				})
			}
			for bound := 0; bound <= 10; { // those who bind leave virtual time no moment
				runtime.Gosched()
				info, _ := n.Info()
				bound = len(info.Sockets)
			}
			_ = n.Close()
			wg.Wait() // no socket of a closed node waits
		}
	})
}

//go:build !live

package rds

import (
	"context"
	"encoding/binary"
	"fmt"
	"net/netip"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rds-go/rds/internal/rdstest"
)

// Two nodes are restarted in turn under traffic in both directions. Messages
// may be lost with a node's memory; none comes twice, out of order or damaged,
// and none at all is lost between two lives that end in peace.
func TestRestarts(t *testing.T) {
	t.Parallel()
	for _, paths := range []int{1, 8} {
		t.Run(fmt.Sprintf("%d paths", paths), func(t *testing.T) {
			rdstest.Bubble(t, func(t *testing.T) {
				l := newLoopLab(t)
				a := &mortal{lab: l, at: netip.AddrPortFrom(rdstest.NewAddr(), 4000), paths: paths}
				b := &mortal{lab: l, at: netip.AddrPortFrom(rdstest.NewAddr(), 4000), paths: paths}
				a.peer, b.peer = b.at, a.at
				a.live()
				b.live()
				for round := range 6 {
					m := []*mortal{a, b}[round%2]
					for _, x := range []*mortal{a, b} {
						n := x.received.Load()
						rdstest.Eventually(t, fmt.Sprintf("traffic in round %d", round), func() bool { return x.received.Load() > n+30 })
					}
					m.die()
					m.live()
				}
				for _, x := range []*mortal{a, b} {
					n := x.received.Load()
					rdstest.Eventually(t, "traffic at the end", func() bool { return x.received.Load() > n+30 })
				}
				a.die()
				b.die()
			})
		})
	}
}

// mortal is a host whose node dies and is born again.
type mortal struct {
	*lab
	at, peer netip.AddrPort
	paths    int

	life     uint64
	node     *Node
	cancel   context.CancelFunc
	done     chan struct{}
	received atomic.Uint64
}

func (m *mortal) live() {
	m.life++
	m.node = m.lab.node(Config{Paths: m.paths, Linger: -1, ReconnectMax: 50 * time.Millisecond})
	s := m.bind(m.node, m.at)
	ctx, cancel := context.WithCancel(context.Background())
	m.cancel, m.done = cancel, make(chan struct{}, 2)
	life := m.life
	go func() {
		defer func() { m.done <- struct{}{} }()
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for i := uint64(0); ; i++ {
			<-tick.C // or virtual time would not pass
			b := rdstest.Payload(i, 16+int(i%9)*3000)
			b = append(binary.BigEndian.AppendUint64(nil, life), b...)
			if err := s.Send(ctx, m.peer, b); err != nil {
				return
			}
		}
	}()
	go func() {
		defer func() { m.done <- struct{}{} }()
		var from uint64
		nexts := make(map[uint64]uint64) // by life
		for {
			msg, err := s.Recv(ctx)
			if err != nil {
				return
			}
			life, i := rdstest.Be64(msg.Data), rdstest.Be64(msg.Data[8:])
			// What a life's other paths have brought may be read behind what its
			// successor sends on path 0.
			if life < from && m.paths == 1 {
				m.Errorf("a message of life %d after one of %d", life, from)
			}
			from = max(from, life)
			if next := nexts[life]; i < next {
				m.Errorf("message %d of life %d after %d", i, life, next-1)
			}
			if err := rdstest.Verify(msg.Data[8:], i); err != nil {
				m.Errorf("life %d: %v", life, err)
			}
			nexts[life] = i + 1
			msg.Release()
			m.received.Add(1)
		}
	}()
}

func (m *mortal) die() {
	m.cancel()
	_ = m.node.Close()
	<-m.done
	<-m.done
}

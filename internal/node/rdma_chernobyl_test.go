//go:build !live

package node

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rds-go/rds/internal/rdstest"
	"github.com/rds-go/rds/internal/socket"
	"github.com/rds-go/rds/mr"
	"github.com/rds-go/rds/rds/config"
	"github.com/rds-go/rds/rds/datagram"
)

// Sockets of one host write to regions of another's, and read them, over the one
// connection, while one more sends bad keys in a loop. Each of them goes on until
// bad keys were refused in the midst of its own operations, and the rogue, whom its host
// does not hold back, until all have: so that it goes on for them is not left to the machine's speed. Every bad key
// is refused, every good operation succeeds, and no connection ends.
func TestBadKeysOfOneSocketAreNobodyElsesAffair(t *testing.T) {
	rdstest.Bubble(t, func(t *testing.T) {
		sockets := 1000
		if testing.Short() {
			sockets = 100
		}
		l := newMemLab(t)
		near, far := l.node(config.Node{Wire: config.WireXRC, Memory: mr.Config{PeerLookUps: -1}}), l.node(config.Node{Wire: config.WireXRC})
		here, there := rdstest.NewAddr(), rdstest.NewAddr()
		ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
		defer cancel()
		first := l.bind(near, rdstest.AddrOf(here, 2))
		target := l.bind(far, rdstest.AddrOf(there, 2))
		rdstest.MustSend(t, first, target.LocalAddrPort(), []byte("up"))
		rdstest.Expect(t, target, "up")
		regions := make([]datagram.Cookie, sockets)
		socks := make([]*socket.Socket, sockets)
		for i := range socks {
			socks[i] = l.bind(near, rdstest.AddrOf(here, uint16(1000+i)))
			regions[i] = rdstest.MustGetMRFor(t, l.bind(far, rdstest.AddrOf(there, uint16(1000+i))), first, lent(t, target, 256), 0)
		}
		readable := rdstest.MustGetMRFor(t, target, first, lent(t, target, 256), datagram.MRReadOnly)

		var refused, done atomic.Uint64
		var wg sync.WaitGroup
		fail := func(format string, args ...any) {
			t.Errorf(format, args...)
			cancel()
		}
		for i, s := range socks {
			wg.Go(func() {
				beside := 0 // operations in whose midst bad keys were refused
				for n := uint64(0); (n < 4 || beside < 2) && ctx.Err() == nil; n++ {
					before := refused.Load()
					if err := writeAndRead(ctx, s, rdstest.AddrOf(there, uint16(1000+i)), regions[i], uint64(i)<<32|n); err != nil {
						fail("socket %d, operation %d: %v", i, n, err)
						return
					}
					done.Add(1)
					if refused.Load() > before {
						beside++
					}
				}
			})
		}
		finished, rogue := make(chan struct{}), make(chan struct{})
		bad, beside := uint64(0), 0
		go func() {
			defer close(rogue)
			for {
				select {
				case <-finished:
					return
				default:
				}
				before := done.Load()
				n, err := sendBadKeys(ctx, first, target, regions[0]^1, readable)
				bad += uint64(n)
				refused.Add(uint64(n))
				if err != nil {
					fail("rogue: %v", err)
					return
				}
				if done.Load() > before {
					beside++
				}
			}
		}()
		wg.Wait()
		close(finished)
		<-rogue
		t.Logf("%d good operations, %d bad keys; good ones in the midst of %d rounds of bad ones", done.Load(), bad, beside)
		if beside == 0 {
			t.Error("bad keys and good operations did not meet")
		}
		rdstest.WantNothing(t, target) // of all that was to follow bad writes
		wantOneConnection(t, near, far, bad)
	})
}

// wantOneConnection checks that near has made one connection to far, that nothing has ended it,
// and that far has refused so many operations.
func wantOneConnection(t *testing.T, near, far *Node, bad uint64) {
	t.Helper()
	rdstest.WantCounter(t, far, "xrc_access_errors", bad)
	for _, n := range []*Node{near, far} {
		if c, r := len(rdstest.Report(t, n).Connections), rdstest.Counter(t, n, "conn_reset"); c != 1 || r != 0 {
			t.Errorf("%d connections, %d reset", c, r)
		}
	}
	if a, b := rdstest.Counter(t, near, "xrc_connected"), rdstest.Counter(t, near, "xrc_accepted"); a+b != 1 {
		t.Errorf("%d connections made, %d accepted", a, b)
	}
}

// writeAndRead writes to a region and reads back what is there. Each has to succeed.
func writeAndRead(ctx context.Context, s *socket.Socket, host netip.AddrPort, c datagram.Cookie, number uint64) error {
	data, back := binary.BigEndian.AppendUint64(nil, number), make([]byte, 8)
	for i, r := range []datagram.RDMA{{Local: [][]byte{data}, Write: true}, {Local: [][]byte{back}}} {
		r.Cookie, r.Offset, r.Silent = c, number%30*8, true
		if err := s.SendMessage(ctx, &datagram.Outgoing{To: host, RDMA: &r, Notify: true, Token: uint64(i)}); err != nil {
			return err
		}
		m, err := s.Recv(ctx)
		if err != nil {
			return err
		}
		if m.Kind != datagram.KindStatus || m.Token != uint64(i) || m.Status != datagram.StatusSuccess {
			return fmt.Errorf("step %d ended with %v", i, &m)
		}
	}
	if !bytes.Equal(data, back) {
		return fmt.Errorf("read % x, wrote % x", back, data)
	}
	return nil
}

// sendBadKeys sends operations that have to be refused, and tells how many were.
func sendBadKeys(ctx context.Context, s, to *socket.Socket, stale, readable datagram.Cookie) (n int, err error) {
	local := [][]byte{make([]byte, 8)}
	bad := []datagram.Outgoing{
		{Data: []byte("follows"), RDMA: &datagram.RDMA{Cookie: stale, Local: local, Write: true}},
		{RDMA: &datagram.RDMA{Cookie: stale, Local: local, Silent: true}},
		{RDMA: &datagram.RDMA{Cookie: readable, Offset: 250, Local: local, Silent: true}},
		{Data: []byte("follows"), RDMA: &datagram.RDMA{Cookie: readable, Local: local, Write: true}},
		{Atomic: &datagram.Atomic{Cookie: readable, Add: 1, Silent: true}},
	}
	for i := range bad {
		bad[i].To, bad[i].Notify, bad[i].Token = to.LocalAddrPort(), true, uint64(i)
	}
	if _, err := s.SendBatch(ctx, bad); err != nil {
		return 0, err
	}
	ended := make([]bool, len(bad)) // in whatever order
	for range bad {
		m, err := s.Recv(ctx)
		if err != nil {
			return n, err
		}
		if m.Kind != datagram.KindStatus || m.Token >= uint64(len(bad)) || ended[m.Token] || m.Status != datagram.StatusRemoteError {
			return n, fmt.Errorf("bad keys ended with %v after %v", &m, ended)
		}
		ended[m.Token] = true
		n++
	}
	return n, nil
}

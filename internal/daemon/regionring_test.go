//go:build live

package daemon

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/rds-go/rds/internal/node"
	"github.com/rds-go/rds/internal/rdstest"
	"github.com/rds-go/rds/internal/socket"
	"github.com/rds-go/rds/mr"
	"github.com/rds-go/rds/rds/config"
	"github.com/rds-go/rds/rds/datagram"
)

// pieces are n pieces of size bytes each.
func pieces(t testing.TB, s *socket.Socket, n, size int) (list [][]byte) {
	mem := lent(t, s, n*size)
	for i := range n {
		list = append(list, mem[i*size:][:size:size])
	}
	return list
}

// TestProvidersExposeInBatches: a batch is as the single calls are, up to the piece that
// cannot be exposed, or the region that is not there.
func TestProvidersExposeInBatches(t *testing.T) {
	t.Parallel()
	eachProvider(t, func(t *testing.T, a, b *socket.Socket) {
		const n = 3000 // more than a run takes
		mem := pieces(t, b, n, 16)
		cookies := make([]datagram.Cookie, n)
		if k, err := b.GetMRBatch(cookies, mem, 0); k != n || err != nil {
			t.Fatalf("%d regions, %v", k, err)
		}
		local := lent(t, a, 1)
		write := func(i int) bool {
			local[0] = byte(i) | 1
			return forgiven(t, a, b, uint64(i), datagram.Outgoing{RDMA: &datagram.RDMA{Cookie: cookies[i], Local: [][]byte{local}, Write: true}, Data: []byte{1}})
		}
		for _, i := range []int{0, 1, 1023, 1024, n - 1} {
			if !write(i) {
				t.Fatalf("region %d is not there", i)
			}
			rdstest.Expect(t, b, "\x01")
			if mem[i][0] != byte(i)|1 {
				t.Errorf("region %d is of other memory", i)
			}
		}
		if k, err := b.FreeMRBatch(cookies[:n-1], datagram.MRInvalidate); k != n-1 || err != nil {
			t.Fatalf("%d ended, %v", k, err)
		}
		for _, i := range []int{0, 1024, n - 2} {
			if write(i) {
				t.Errorf("region %d has ended, and works", i)
			}
		}
		k, err := b.FreeMRBatch([]datagram.Cookie{cookies[n-1], cookies[0], cookies[1]}, 0)
		if rdstest.WantErr(t, "of a region that has ended", err, datagram.ErrInvalid); k != 1 {
			t.Errorf("%d ended", k)
		}
		some := [][]byte{mem[0], mem[1], nil, mem[2]}
		k, err = b.GetMRBatch(cookies, some, 0)
		if rdstest.WantErr(t, "no memory", err, datagram.ErrInvalid); k != 2 {
			t.Errorf("%d exposed", k)
		}
		k, err = b.GetMRBatch(cookies[:1], mem[:2], 0)
		if rdstest.WantErr(t, "too few cookies", err, datagram.ErrInvalid); k != 0 {
			t.Errorf("%d exposed", k)
		}
		k, err = b.GetMRBatch(cookies, mem, 1<<20)
		if rdstest.WantErr(t, "flags", err, datagram.ErrInvalid); k != 0 {
			t.Errorf("%d exposed", k)
		}
	})
}

// regionsLab is a node with a service, and applications at it.
func regionsLab(t *testing.T) (n *node.Node, dev *mr.Device, application func() *socket.Socket) {
	l := newLab(t)
	n = l.node(config.Node{Wire: config.WireXRC})
	_, path := serving(t, n, config.Service{})
	return n, n.Regions(), func() *socket.Socket { return bound(t, dialed(t, path), rdstest.AddrOf(rdstest.NewAddr(), 4000)) }
}

// A region that an application ends lazily is ended soon, though the application calls
// nothing more and rings for nothing.
func TestLazyFreeNeedsNoFurtherCall(t *testing.T) {
	t.Parallel()
	_, dev, application := regionsLab(t)
	s := application()
	mem := lent(t, s, 8)
	for range 20 {
		c := rdstest.MustGetMR(t, s, mem, 0)
		if n := dev.Stats().Small.Live; n != 1 {
			t.Fatalf("%d regions", n)
		}
		rdstest.Must(t, s.FreeMR(c, 0))
		rdstest.Eventually(t, "the end of a region", func() bool { return dev.Stats().Small.Live == 0 })
	}
}

// TestMRREQ11BarrierCoversOtherApplications: what applications have ended lazily in both
// pools, each in its own ring, is dead and released when the barrier of another application,
// or of a socket of the node, returns.
func TestMRREQ11BarrierCoversOtherApplications(t *testing.T) {
	t.Parallel()
	n, dev, application := regionsLab(t)
	own := bound(t, n, rdstest.AddrOf(rdstest.NewAddr(), 4000))
	asks := application()
	last := lent(t, asks, 8)
	var users [4]*socket.Socket
	var mem [4][][]byte
	for i := range users {
		users[i] = application()
		mem[i] = append(pieces(t, users[i], 240, 1000), pieces(t, users[i], 10, 20_000)...)
	}
	for round := range 20 {
		for i, s := range users {
			cookies := make([]datagram.Cookie, len(mem[i]))
			if _, err := s.GetMRBatch(cookies, mem[i], 0); err != nil {
				t.Fatal(err)
			}
			if _, err := s.FreeMRBatch(cookies, 0); err != nil {
				t.Fatal(err)
			}
		}
		var err error
		switch round % 3 {
		case 0:
			err = asks.FreeMR(rdstest.MustGetMR(t, asks, last, 0), datagram.MRInvalidate)
		case 1:
			err = asks.FreeMR(0, 0)
		default:
			err = own.FreeMR(0, 0)
		}
		rdstest.Must(t, err)
		if s := dev.Stats(); s.Small.Live+s.Large.Live+s.Small.Dirty+s.Large.Dirty != 0 {
			t.Fatalf("round %d: %d and %d regions live, %d and %d dirty", round, s.Small.Live, s.Large.Live, s.Small.Dirty, s.Large.Dirty)
		}
	}
}

// Regions are made and ended while messages fill the session's budget, all of them for a
// host that is down.
func TestRegionsDoNotWaitForMessages(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	n := l.node(config.Node{Wire: config.WireXRC})
	_, path := serving(t, n, config.Service{SendBudget: 1 << 20})
	s := bound(t, dialed(t, path), rdstest.AddrOf(rdstest.NewAddr(), 4000))
	mem := pieces(t, s, 64, 8)
	cookies := make([]datagram.Cookie, len(mem))
	down := netip.AddrPortFrom(rdstest.NewAddr(), 4000)
	for i := 0; ; i++ {
		if err := s.TrySend(down, make([]byte, 10_000)); err != nil {
			rdstest.WantErr(t, fmt.Sprint("message ", i), err, datagram.ErrWouldBlock)
			break
		}
	}
	for range 10 {
		if _, err := s.GetMRBatch(cookies, mem, 0); err != nil {
			t.Fatal(err)
		}
		if _, err := s.FreeMRBatch(cookies, datagram.MRInvalidate); err != nil {
			t.Fatal(err)
		}
	}
}

//go:build live

package node

import (
	"bytes"
	"context"
	"io"
	"math/rand/v2"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rds-go/rds/internal/rdstest"
	"github.com/rds-go/rds/internal/socket"
	"github.com/rds-go/rds/rds/config"
	"github.com/rds-go/rds/rds/datagram"
)

// flipper changes bits of what passes through a relay: one in each direction of each
// connection, of sixteen directions one in the set-up. More would pass unseen: the first one
// ends the connection.
type flipper struct {
	within int          // number of bytes after the set-up among which the flip is
	left   atomic.Int64 // flips to be made
	made   atomic.Int64 // flips made
	setup  atomic.Int64 // flips made in set-ups
}

// flipped is one direction of a connection.
type flipped struct {
	f    *flipper
	from io.Reader
	at   int // bytes that have passed
	next int // position of the flip; negative: it is made
}

// setupBytes is about what a set-up frame has.
const setupBytes = 76

func (f *flipper) through(from io.Reader) io.Reader {
	x := &flipped{f: f, from: from, next: setupBytes + rand.IntN(f.within)}
	if rand.IntN(16) == 0 {
		x.next = rand.IntN(setupBytes)
	}
	return x
}

func (x *flipped) Read(b []byte) (int, error) {
	n, err := x.from.Read(b)
	if x.next >= 0 && x.next < x.at+n && x.f.left.Add(-1) >= 0 {
		b[x.next-x.at] ^= 1 << rand.IntN(8)
		x.f.made.Add(1)
		if x.next < setupBytes {
			x.f.setup.Add(1)
		}
		x.next = -1
	}
	x.at += n
	return n, err
}

// corrupted is two nodes with a network between them that changes bits.
type corrupted struct {
	*lab
	flipper
	near, far   *socket.Socket
	there, here netip.AddrPort // what near takes for far, and far for near
}

func newCorrupted(t *testing.T, crc config.CRC, flips int64, within int) *corrupted {
	c := &corrupted{lab: newLab(t)}
	c.within = within
	c.left.Store(flips)
	r := newFilter(c.lab, c.through)
	cfg := config.Node{Wire: config.WireXRC, XRC: config.XRC{CRC: crc}, ReconnectMax: 10 * time.Millisecond,
		TCP: config.TCP{Silence: time.Second, DrainTimeout: time.Second}}
	c.near = c.bind(c.node(cfg), netip.AddrPortFrom(r.Near, 4000))
	c.far = c.bind(c.node(cfg), netip.AddrPortFrom(r.Far, 4000))
	c.there, c.here = netip.AddrPortFrom(r.There, 4000), netip.AddrPortFrom(r.Here, 4000)
	return c
}

// corruptSize is the size of a message: several segments, a part of one, or little.
func corruptSize(i uint64) int {
	switch i % 16 {
	case 0:
		return 150_000
	case 1, 2, 3:
		return 8 << 10
	}
	return 100
}

// send sends messages until all flips are made, and one of no bytes behind them.
func (c *corrupted) send(ctx context.Context, from *socket.Socket, to netip.AddrPort) {
	for i := uint64(0); c.left.Load() > 0 && !c.Failed(); i++ {
		if err := from.Send(ctx, to, rdstest.Payload(i, corruptSize(i))); err != nil {
			c.Errorf("message %d: %v", i, err)
			return
		}
	}
	rdstest.NoError(c, from.Send(ctx, to, nil))
}

// receive takes messages up to that of no bytes. Each has to be the next one, and as it
// was sent.
func (c *corrupted) receive(ctx context.Context, s *socket.Socket) (n uint64) {
	for ; ; n++ {
		m, err := s.Recv(ctx)
		if err != nil {
			c.Errorf("message %d: %v", n, err)
			return n
		}
		if len(m.Data) == 0 {
			m.Release()
			return n
		}
		if err := rdstest.Verify(m.Data, n); err != nil || len(m.Data) != corruptSize(n) {
			c.Errorf("%d bytes: %v", len(m.Data), err)
			return n
		}
		m.Release()
	}
}

// write writes the same bytes to the same places of the far node's memory, again and
// again, whatever becomes of each write.
func (c *corrupted) write(ctx context.Context, from *socket.Socket, cookie datagram.Cookie, want []byte) {
	for i := uint64(0); c.left.Load() > 0 && !c.Failed(); i++ {
		at := rand.IntN(len(want))
		n := 1 + rand.IntN(min(len(want)-at, 20_000))
		o := datagram.Outgoing{To: c.there, Notify: true, Token: i,
			RDMA: &datagram.RDMA{Cookie: cookie, Offset: uint64(at), Local: [][]byte{want[at : at+n]}, Write: true, Silent: true}}
		if err := from.SendMessage(ctx, &o); err != nil {
			c.Errorf("write %d: %v", i, err)
			return
		}
		m, err := from.Recv(ctx)
		if err != nil || m.Kind != datagram.KindStatus {
			c.Errorf("write %d: %v, %v", i, &m, err)
			return
		}
		m.Release()
	}
}

// A network that changes bits, behind TCP's checksum, between two nodes that ask for CRCs:
// nothing that has changed is delivered, in a message or in memory, and every message
// comes once, for each change ends a link and what it carried is sent again. Changed
// set-ups make no link. 10,000 changes with RDS_LONG.
func TestChangedBitsAreNotDelivered(t *testing.T) {
	t.Parallel()
	flips := int64(80)
	if os.Getenv("RDS_LONG") != "" {
		flips = 10_000
	}
	c := newCorrupted(t, config.CRCOn, flips, 400_000)
	region := bytes.Clone(rdstest.Pattern[:100_000])
	cookie := rdstest.MustGetMR(t, c.far, region, datagram.MRReadWrite)
	writer := c.bind(nodeOf(c.near), netip.AddrPortFrom(c.near.LocalAddrPort().Addr(), 0))
	ctx, cancel := context.WithTimeout(t.Context(), rdstest.Patience+time.Duration(flips)*100*time.Millisecond)
	defer cancel()
	var all sync.WaitGroup
	var forth, back uint64
	all.Go(func() { c.send(ctx, c.near, c.there) })
	all.Go(func() { c.send(ctx, c.far, c.here) })
	all.Go(func() { forth = c.receive(ctx, c.far) })
	all.Go(func() { back = c.receive(ctx, c.near) })
	all.Go(func() { c.write(ctx, writer, cookie, rdstest.Pattern[:len(region)]) })
	all.Wait()
	if !bytes.Equal(region, rdstest.Pattern[:len(region)]) {
		t.Error("the region has changed")
	}
	found := rdstest.Counter(t, nodeOf(c.near), "xrc_crc_errors") + rdstest.Counter(t, nodeOf(c.far), "xrc_crc_errors")
	if c.made.Load() != flips || int64(found) < flips/4 {
		t.Errorf("%d bits changed, %d changes found", c.made.Load(), found)
	}
	t.Logf("%d messages one way and %d the other; %d bits changed, %d in set-ups; %d changes found by checksums",
		forth, back, c.made.Load(), c.setup.Load(), found)
}

// Without CRCs what has changed is delivered: TCP's checksum was right when the relay
// sent it.
func TestChangedBitsAreDeliveredWithoutCRC(t *testing.T) {
	t.Parallel()
	c := newCorrupted(t, config.CRCOff, 1<<40, 40_000)
	ctx, cancel := context.WithTimeout(t.Context(), rdstest.Patience)
	defer cancel()
	ended, stop := context.WithCancel(ctx)
	var sender sync.WaitGroup
	sender.Go(func() {
		for i := uint64(0); c.near.Send(ended, c.there, rdstest.Payload(i, 50_000)) == nil; i++ {
		}
	})
	for cut := 0; ; cut++ {
		if cut%10 == 9 {
			rdstest.CutLinks(nodeOf(c.near)) // the next link has another flip
		}
		m, err := c.far.Recv(ctx)
		if err != nil {
			t.Error(err)
			break
		}
		damaged := len(m.Data) == 50_000 && !bytes.Equal(m.Data[8:], rdstest.PatternOf(uint64(m.Data[7]), 50_000))
		m.Release()
		if damaged {
			break
		}
	}
	stop()
	sender.Wait()
}

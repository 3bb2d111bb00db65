//go:build live

package daemon

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rds-go/rds/internal/client"
	"github.com/rds-go/rds/internal/node"
	"github.com/rds-go/rds/internal/rdstest"
	"github.com/rds-go/rds/internal/socket"
	"github.com/rds-go/rds/rds/config"
	"github.com/rds-go/rds/rds/datagram"
)

// Applications whose memory a peer writes, and which read the peer's, are killed.
// The peer's operations fail one by one, another application's go on over the
// same connection, and nothing touches the pages of the dead any more once they
// are given back.
func TestMRREQ29ApplicationsWithRegionsAreKilled(t *testing.T) { // not in parallel: it measures the process
	if os.Getenv(rdstest.RoleEnv) == "exposes" {
		beExposed(strings.Fields(os.Getenv(rdstest.ArgEnv)), exposedSize)
	}
	t.Run("peer", func(t *testing.T) {
		killExposed(t, func(l *lab, _ *node.Node) *node.Node { return l.node(config.Node{Wire: config.WireXRC}) })
	})
	t.Run("own", func(t *testing.T) { // the daemon's goroutines copy
		killExposed(t, func(_ *lab, n *node.Node) *node.Node { return n })
	})
}

// exposedSize is that of a region.
const exposedSize = 256 << 10

// killExposed is the test with a peer on the node that other returns.
func killExposed(t *testing.T, other func(*lab, *node.Node) *node.Node) {
	const size = exposedSize
	l := newLab(t)
	n := l.node(config.Node{Wire: config.WireXRC, Linger: time.Second})
	svc, path := serving(t, n, config.Service{MemoryArena: 1 << 20})
	peer := l.bind(other(l, n))
	stays := bound(t, dialed(t, path), rdstest.AddrOf(rdstest.NewAddr(), 500))
	blocks := rdstest.MustGetMR(t, peer, make([]byte, size), datagram.MRReadOnly)
	region := lent(t, stays, size)
	kept := rdstest.MustGetMRFor(t, stays, peer, region, 0) // the keys of dead applications use up the look-ups of others

	for round := range 10 {
		before := rdstest.Counter(t, nodeOf(peer), "conn_reset")
		at := rdstest.AddrOf(stays.LocalAddrPort().Addr(), 501)
		app := expose(t, path, at.String(), peer.LocalAddrPort().String(), fmt.Sprintf("%#x", uint64(blocks)))
		x := lastSession(svc)
		seg := x.seg // keeps the memory mapped
		var stop atomic.Bool
		fates := make(map[datagram.Status]int)
		done, written, refused := make(chan struct{}), make(chan struct{}), make(chan struct{})
		go func() {
			defer close(done)
			writeOn(t, peer, at, app.cookie, &stop, fates, map[datagram.Status]chan struct{}{datagram.StatusSuccess: written, datagram.StatusRemoteError: refused})
		}()
		within := rdstest.Background(t)
		await := func(what string, event chan struct{}) {
			select {
			case <-event:
			case <-within.Done():
				t.Fatalf("no write %s", what)
			}
		}
		await("is done", written)
		if bytes.IndexByte(seg.MemoryArea()[:size], 0xee) < 0 {
			t.Error("nothing was written")
		}
		time.AfterFunc(time.Duration(round)*time.Millisecond, func() { _ = app.cmd.Process.Kill() })
		_ = app.cmd.Wait()
		if !rdstest.Holds(rdstest.Patience, func() bool { return seg.holds.Load() == 0 && scribbled(seg.MemoryArea()) < 0 }) {
			t.Fatalf("the pages are not given back: %d hold them, byte %d is written", seg.holds.Load(), scribbled(seg.MemoryArea()))
		}
		start := time.Now()
		copied := make([]byte, 8)
		for time.Since(start) < 20*time.Millisecond { // the peer goes on
			rdstest.Operate(t, stays, peer, 7, datagram.Outgoing{RDMA: &datagram.RDMA{Cookie: blocks, Local: [][]byte{region[:8]}, Silent: true}})
			rdstest.WantStatus(t, stays, 7, datagram.StatusSuccess)
			copy(copied, region)
		}
		await("is refused", refused)
		stop.Store(true)
		<-done
		if used := scribbled(seg.MemoryArea()); used >= 0 {
			t.Errorf("byte %d was written behind the end", used)
		}
		delete(fates, datagram.StatusAgain)
		if fates[datagram.StatusSuccess] == 0 || fates[datagram.StatusRemoteError] == 0 || len(fates) != 2 {
			t.Errorf("fates %v", fates)
		}
		for last := datagram.StatusAgain; last == datagram.StatusAgain; { // the socket's last operations were refused
			rdstest.Operate(t, peer, stays, 9, datagram.Outgoing{Data: []byte("written"), RDMA: &datagram.RDMA{Cookie: kept, Local: [][]byte{rdstest.Payload(uint64(round), size)}, Write: true}})
			m := rdstest.MustRecv(t, peer)
			if last = m.Status; m.Kind != datagram.KindStatus || m.Token != 9 || last != datagram.StatusSuccess && last != datagram.StatusAgain {
				t.Fatalf("%v", &m)
			}
		}
		rdstest.Expect(t, stays, "written")
		rdstest.NoError(t, rdstest.Verify(region, uint64(round)))
		rdstest.WantCounter(t, nodeOf(peer), "conn_reset", before)
	}
	rdstest.NoError(t, errors.Join(stays.FreeMR(kept, datagram.MRInvalidate), peer.FreeMR(blocks, datagram.MRInvalidate)))
	if s := n.Regions().Stats(); s.Large.Live+s.Large.Dirty != 0 {
		t.Errorf("regions are left: %+v", s.Large)
	}
}

// writeOn writes to a region without a pause until stop is set. It counts the fates, and closes
// the channel of each that has one when it comes first.
func writeOn(t *testing.T, s *socket.Socket, to netip.AddrPort, region datagram.Cookie, stop *atomic.Bool, fates map[datagram.Status]int, first map[datagram.Status]chan struct{}) {
	data := bytes.Repeat([]byte{0xee}, exposedSize)
	for token := uint64(1); !stop.Load(); token++ {
		rdstest.OperateAt(t, s, to, token, datagram.Outgoing{RDMA: &datagram.RDMA{Cookie: region, Local: [][]byte{data}, Write: true, Silent: true}})
		m := rdstest.MustRecv(t, s)
		if fates[m.Status]++; fates[m.Status] == 1 && first[m.Status] != nil {
			close(first[m.Status])
		}
	}
}

// scribbled is the first byte that is not 0, -1 if there is none.
func scribbled(b []byte) int {
	return bytes.IndexFunc(b, func(r rune) bool { return r != 0 })
}

// exposed is a process that has a region.
type exposed struct {
	cmd    *exec.Cmd
	cookie datagram.Cookie
}

func expose(t testing.TB, args ...string) *exposed {
	t.Helper()
	e := &exposed{cmd: rdstest.Process("TestMRREQ29ApplicationsWithRegionsAreKilled", "exposes", args...)}
	_, out := rdstest.Piped(t, e.cmd)
	t.Cleanup(func() { _ = e.cmd.Process.Kill() })
	line, err := out.ReadString('\n')
	if _, scan := fmt.Sscan(line, &e.cookie); err != nil || scan != nil {
		t.Fatalf("%q, %v, %v", line, err, scan)
	}
	return e
}

// beExposed is the process: path address peer cookie. It exposes memory, and
// reads from the peer's until it is killed.
func beExposed(args []string, size int) {
	err := func() error {
		c, err := client.Dial(args[0])
		if err != nil {
			return err
		}
		at, to := netip.MustParseAddrPort(args[1]), netip.MustParseAddrPort(args[2])
		s, err := c.Bind(at)
		for end := time.Now().Add(rdstest.Patience); errors.Is(err, datagram.ErrAddressInUse) && time.Now().Before(end); { // its predecessor's death may be news
			s, err = c.Bind(at)
		}
		if err != nil {
			return err
		}
		var remote datagram.Cookie
		if _, err := fmt.Sscan(args[3], &remote); err != nil {
			return err
		}
		exposed, err := s.AllocMemory(size)
		if err != nil {
			return err
		}
		local, err := s.AllocMemory(size)
		if err != nil {
			return err
		}
		cookie, err := s.GetMRForDest(to, exposed.B, 0)
		if err != nil {
			return err
		}
		fmt.Printf("%#x\n", uint64(cookie))
		ctx, cancel := context.WithTimeout(context.Background(), rdstest.Patience)
		defer cancel()
		for {
			o := datagram.Outgoing{To: to, Notify: true, RDMA: &datagram.RDMA{Cookie: remote, Local: [][]byte{local.B}, Silent: true}}
			for range 8 {
				if err := s.SendMessage(ctx, &o); err != nil {
					return err
				}
			}
			for range 8 {
				if _, err := s.Recv(ctx); err != nil {
					return err
				}
			}
		}
	}()
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

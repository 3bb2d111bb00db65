package rds

import (
	"bufio"
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
)

// Applications whose memory a peer writes, and which read the peer's, are killed.
// The peer's operations fail one by one, another application's go on over the
// same connection, and nothing touches the pages of the dead any more once they
// are given back.
func TestApplicationsWithRegionsAreKilled(t *testing.T) { // not in parallel: it measures the process
	if os.Getenv(roleEnv) == "exposes" {
		beExposed(strings.Fields(os.Getenv(argEnv)), exposedSize)
	}
	t.Run("peer", func(t *testing.T) {
		killExposed(t, func(l *lab, _ *Node) *Node { return l.node(Config{Wire: WireXRC}) })
	})
	t.Run("own", func(t *testing.T) { // the daemon's goroutines copy
		killExposed(t, func(_ *lab, n *Node) *Node { return n })
	})
}

// exposedSize is that of a region.
const exposedSize = 256 << 10

// killExposed is the test with a peer on the node that other returns.
func killExposed(t *testing.T, other func(*lab, *Node) *Node) {
	const size = exposedSize
	l := newLab(t)
	n := l.node(Config{Wire: WireXRC, Linger: time.Second})
	svc, path := serving(t, n, ServiceConfig{MemoryArena: 1 << 20})
	peer := l.bind(other(l, n))
	stays := bound(t, dialed(t, path), addrOf(newAddr(), 500))
	blocks := mustGetMR(t, peer, make([]byte, size), MRReadOnly)
	region := lent(t, stays, size)
	kept := mustGetMRFor(t, stays, peer, region, 0) // the keys of dead applications use up the look-ups of others

	for round := range 10 {
		before := counter(t, nodeOf(peer), "conn_reset")
		app := expose(t, path, addrOf(stays.LocalAddrPort().Addr(), 501).String(), peer.LocalAddrPort().String(), fmt.Sprintf("%#x", uint64(blocks)))
		x := lastSession(svc)
		seg := x.seg // keeps the memory mapped
		var stop atomic.Bool
		fates := make(map[Status]int)
		done, written, refused := make(chan struct{}), make(chan struct{}), make(chan struct{})
		go func() { // writes without a pause
			defer close(done)
			data := bytes.Repeat([]byte{0xee}, size)
			for token := uint64(1); !stop.Load(); token++ {
				operate(t, peer, stays, token, Outgoing{RDMA: &RDMA{Cookie: app.cookie, Local: [][]byte{data}, Write: true, Silent: true}})
				m := mustRecv(t, peer)
				fates[m.Status]++
				switch {
				case m.Status == StatusSuccess && fates[m.Status] == 1:
					close(written)
				case m.Status == StatusRemoteError && fates[m.Status] == 1:
					close(refused)
				}
			}
		}()
		within := background(t)
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
		if !holds(patience, func() bool { return seg.holds.Load() == 0 && scribbled(seg.MemoryArea()) < 0 }) {
			t.Fatalf("the pages are not given back: %d hold them, byte %d is written", seg.holds.Load(), scribbled(seg.MemoryArea()))
		}
		start := time.Now()
		copied := make([]byte, 8)
		for time.Since(start) < 20*time.Millisecond { // the peer goes on
			operate(t, stays, peer, 7, Outgoing{RDMA: &RDMA{Cookie: blocks, Local: [][]byte{region[:8]}, Silent: true}})
			wantStatus(t, stays, 7, StatusSuccess)
			copy(copied, region)
		}
		await("is refused", refused)
		stop.Store(true)
		<-done
		if used := scribbled(seg.MemoryArea()); used >= 0 {
			t.Errorf("byte %d was written behind the end", used)
		}
		delete(fates, StatusAgain)
		if fates[StatusSuccess] == 0 || fates[StatusRemoteError] == 0 || len(fates) != 2 {
			t.Errorf("fates %v", fates)
		}
		for last := StatusAgain; last == StatusAgain; { // the socket's last operations were refused
			operate(t, peer, stays, 9, Outgoing{Data: []byte("written"), RDMA: &RDMA{Cookie: kept, Local: [][]byte{payload(uint64(round), size)}, Write: true}})
			m := mustRecv(t, peer)
			if last = m.Status; m.Kind != KindStatus || m.Token != 9 || last != StatusSuccess && last != StatusAgain {
				t.Fatalf("%v", &m)
			}
		}
		expect(t, stays, "written")
		if err := verify(region, uint64(round)); err != nil {
			t.Error(err)
		}
		if got := counter(t, nodeOf(peer), "conn_reset"); got != before {
			t.Errorf("%d connections reset", got-before)
		}
	}
	if err := errors.Join(stays.FreeMR(kept, MRInvalidate), peer.FreeMR(blocks, MRInvalidate)); err != nil {
		t.Error(err)
	}
	d, _, err := n.regions()
	if err != nil {
		t.Fatal(err)
	}
	if s := d.Stats(); s.Large.Live+s.Large.Dirty != 0 {
		t.Errorf("regions are left: %+v", s.Large)
	}
}

// scribbled is the first byte that is not 0, -1 if there is none.
func scribbled(b []byte) int {
	return bytes.IndexFunc(b, func(r rune) bool { return r != 0 })
}

// exposed is a process that has a region.
type exposed struct {
	cmd    *exec.Cmd
	cookie Cookie
}

func expose(t testing.TB, args ...string) *exposed {
	t.Helper()
	e := &exposed{cmd: process("TestApplicationsWithRegionsAreKilled", "exposes", args...)}
	e.cmd.Stderr = os.Stderr
	out, err := e.cmd.StdoutPipe()
	if err == nil {
		err = e.cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.cmd.Process.Kill() })
	line, err := bufio.NewReader(out).ReadString('\n')
	if _, scan := fmt.Sscan(line, &e.cookie); err != nil || scan != nil {
		t.Fatalf("%q, %v, %v", line, err, scan)
	}
	return e
}

// beExposed is the process: path address peer cookie. It exposes memory, and
// reads from the peer's until it is killed.
func beExposed(args []string, size int) {
	err := func() error {
		c, err := Dial(args[0])
		if err != nil {
			return err
		}
		at, to := netip.MustParseAddrPort(args[1]), netip.MustParseAddrPort(args[2])
		s, err := c.Bind(at)
		for end := time.Now().Add(patience); errors.Is(err, ErrAddressInUse) && time.Now().Before(end); { // its predecessor's death may be news
			s, err = c.Bind(at)
		}
		if err != nil {
			return err
		}
		var remote Cookie
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
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		for {
			o := Outgoing{To: to, Notify: true, RDMA: &RDMA{Cookie: remote, Local: [][]byte{local.B}, Silent: true}}
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

//go:build live

package daemon

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rds-go/rds/internal/node"
	"github.com/rds-go/rds/internal/rdstest"
	"github.com/rds-go/rds/internal/socket"
	"github.com/rds-go/rds/rds/config"
	"github.com/rds-go/rds/rds/datagram"
)

// A region is freed while a peer, a process with a node of its own, is stopped by SIGSTOP and what is in flight
// to the peer uses the region: answers to the peer's reads, more than all buffers take, or a message that
// carries the region's cookie. The free returns while the peer is stopped, and the region is dead: the peer
// reads nothing that was put there later, and what it writes is refused. So for an application of rdsd, and on a node.
func TestMRREQ12StalledPeerDoesNotKeepAFreedRegion(t *testing.T) {
	if os.Getenv(rdstest.RoleEnv) == "stalls" {
		beStalled(strings.Fields(os.Getenv(rdstest.ArgEnv)))
	}
	for _, attached := range []bool{true, false} {
		for _, kind := range []string{"reads", "message"} {
			t.Run(fmt.Sprintf("rdsd=%v/%s", attached, kind), func(t *testing.T) {
				l := newLab(t)
				s := exposer(t, l, attached)
				freeWhileStalled(t, s, startStalled(t, l), kind)
			})
		}
	}
}

// exposer is a socket of an application of rdsd, or of a node.
func exposer(t testing.TB, l *lab, attached bool) *socket.Socket {
	t.Helper()
	n := l.node(config.Node{Wire: config.WireXRC})
	if !attached {
		return l.bind(n)
	}
	_, path := serving(t, n, config.Service{})
	return bound(t, dialed(t, path), rdstest.AddrOf(rdstest.NewAddr(), 500))
}

// What a region has before it is freed, and after that.
const (
	oldByte = 0x11
	newByte = 0xee
)

func freeWhileStalled(t *testing.T, s *socket.Socket, p *stalledPeer, kind string) {
	region := lent(t, s, config.MaxMessage)
	for i := range region {
		region[i] = oldByte
	}
	c, err := s.GetMRForDest(p.at, region, 0)
	rdstest.Must(t, err)
	rdstest.MustSend(t, s, p.at, []byte("a connection"))
	p.tell(kind, s.LocalAddrPort(), c)
	p.stopped()
	if kind == "message" {
		rdstest.Must(t, s.SendMessage(rdstest.Background(t), &datagram.Outgoing{To: p.at, Data: []byte("use it"), HasDest: true, Dest: c}))
	}
	if err := s.FreeMR(c, datagram.MRInvalidate); err != nil {
		t.Errorf("the free with a message in flight: %v", err)
	}
	for i := range region {
		region[i] = newByte
	}
	p.goOn()
	var refused, foreign int
	line := p.hear()
	if _, err := fmt.Sscan(line, &refused, &foreign); err != nil {
		t.Fatalf("%q: %v", line, err)
	}
	if refused == 0 || foreign != 0 {
		t.Errorf("%d operations are refused, and %d bytes are read that were put there after the free", refused, foreign)
	}
	if n := bytes.Count(region, []byte{newByte}); n != len(region) {
		t.Errorf("%d bytes were written after the free", len(region)-n)
	}
}

// Three peers, processes, read more than TCP has room for, and are stopped by SIGSTOP: no byte moves on any
// connection. An application sends to each of them until nothing more is taken. A thousand regions are freed
// then, and each free ends.
func TestMRREQ18FreesEndWhileAllSendsAreBlocked(t *testing.T) {
	took := freesWhileBlocked(t, 1000)
	t.Logf("p50 %v, p99.9 %v, longest %v", took[len(took)/2], took[len(took)*999/1000], took[len(took)-1])
}

// BenchmarkFreesWhileAllSendsAreBlocked measures them.
func BenchmarkFreesWhileAllSendsAreBlocked(b *testing.B) {
	took := freesWhileBlocked(b, max(b.N, 1000))
	b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-us/free")
	b.ReportMetric(float64(took[len(took)*999/1000].Microseconds()), "p99.9-us/free")
}

// freesWhileBlocked returns how long each of n frees took, the shortest first.
func freesWhileBlocked(t testing.TB, n int) []time.Duration {
	l := newLab(t)
	_, path := serving(t, l.node(config.Node{Wire: config.WireXRC}), config.Service{})
	app, at := dialed(t, path), rdstest.NewAddr()
	var peers [3]*stalledPeer
	var sockets [3]*socket.Socket // each has a send buffer of its own
	for i := range peers {
		peers[i], sockets[i] = startStalled(t, l), bound(t, app, rdstest.AddrOf(at, uint16(500+i)))
		c, err := sockets[i].GetMRForDest(peers[i].at, lent(t, sockets[i], config.MaxMessage), 0)
		rdstest.Must(t, err)
		rdstest.MustSend(t, sockets[i], peers[i].at, []byte("a connection"))
		peers[i].tell("reads", sockets[i].LocalAddrPort(), c)
		peers[i].stopped()
	}
	blocked := func() bool { // tells whether no peer's messages are taken
		for i, p := range peers {
			if err := sockets[i].TrySend(p.at, bytes.Repeat([]byte{oldByte}, 64<<10)); !errors.Is(err, datagram.ErrWouldBlock) && !errors.Is(err, datagram.ErrCongested) {
				return false
			}
		}
		return true
	}
	rdstest.Eventually(t, "all sends to be blocked", blocked)
	s := sockets[0]
	region := lent(t, s, 8<<10)
	took := make([]time.Duration, n)
	for i := range took {
		c := rdstest.MustGetMR(t, s, region, 0)
		start := time.Now()
		if i%2 != 0 { // a lazy free, and the barrier alone
			if err := s.FreeMR(c, 0); err != nil {
				t.Fatalf("lazy free %d: %v", i, err)
			}
			c = 0
		}
		if err := s.FreeMR(c, datagram.MRInvalidate); err != nil {
			t.Fatalf("free %d: %v", i, err)
		}
		took[i] = time.Since(start)
	}
	if !blocked() {
		t.Error("a message was taken beside the frees")
	}
	slices.Sort(took)
	return took
}

// stalledPeer is a process with a node, which stops itself when it has done what it is told.
type stalledPeer struct {
	testing.TB
	at  netip.AddrPort
	cmd *exec.Cmd
	in  io.Writer
	out *bufio.Reader
}

func startStalled(t testing.TB, l *lab) *stalledPeer {
	t.Helper()
	p := &stalledPeer{TB: t, at: rdstest.AddrOf(rdstest.NewAddr(), 500)}
	p.cmd = rdstest.Process("TestMRREQ12StalledPeerDoesNotKeepAFreedRegion", "stalls", strconv.Itoa(int(l.Port)), p.at.String())
	p.in, p.out = rdstest.Piped(t, p.cmd)
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		_ = p.cmd.Wait()
	})
	if line := p.hear(); line != "ready" {
		t.Fatal(line)
	}
	return p
}

func (p *stalledPeer) hear() string {
	p.Helper()
	line, err := p.out.ReadString('\n')
	if err != nil {
		p.Fatal(line, err)
	}
	return strings.TrimSpace(line)
}

// tell has the process do something: what host cookie.
func (p *stalledPeer) tell(what string, host netip.AddrPort, c datagram.Cookie) {
	fmt.Fprintf(p.in, "%s %v %#x\n", what, host, uint64(c))
}

// stopped waits until the process has stopped itself.
func (p *stalledPeer) stopped() {
	p.Helper()
	var status syscall.WaitStatus
	for {
		if _, err := syscall.Wait4(p.cmd.Process.Pid, &status, syscall.WUNTRACED, nil); !errors.Is(err, syscall.EINTR) {
			if err != nil || !status.Stopped() {
				p.Fatalf("the peer is not stopped: %#x, %v", status, err)
			}
			return
		}
	}
}

func (p *stalledPeer) goOn() {
	p.Helper()
	rdstest.Must(p, p.cmd.Process.Signal(syscall.SIGCONT))
}

// beStalled is the process: port address.
func beStalled(args []string) {
	err := func() error {
		port, _ := strconv.ParseUint(args[0], 10, 16)
		cfg := config.Node{Port: uint16(port), Wire: config.WireXRC, Linger: -1}
		cfg.XRC.Patience = rdstest.Patience
		n, err := node.New(cfg)
		if err != nil {
			return err
		}
		s, err := n.Bind(netip.MustParseAddrPort(args[1]))
		if err != nil {
			return err
		}
		fmt.Println("ready")
		var what, host string
		var c datagram.Cookie
		if _, err := fmt.Scan(&what, &host, &c); err != nil {
			return err
		}
		to := netip.MustParseAddrPort(host)
		ctx, cancel := context.WithTimeout(context.Background(), rdstest.Patience)
		defer cancel()
		if m, err := s.Recv(ctx); err != nil || m.From != to {
			return fmt.Errorf("%v, %w", &m, err)
		}
		var refused, foreign int
		switch what {
		case "reads":
			refused, foreign, err = readAndStall(ctx, s, to, c)
		case "message":
			refused, err = stallAndWrite(ctx, s, to)
		}
		if err == nil {
			fmt.Println(refused, foreign)
			_, err = io.Copy(io.Discard, os.Stdin) // until the test's process ends
		}
		return err
	}()
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// stop stops the process until it is told to go on.
func stop() error { return syscall.Kill(os.Getpid(), syscall.SIGSTOP) }

// readAndStall begins reads of more than TCP has room for, and stops when the first has ended.
func readAndStall(ctx context.Context, s *socket.Socket, to netip.AddrPort, c datagram.Cookie) (refused, foreign int, err error) {
	var local [48][]byte
	for i := range local {
		local[i] = make([]byte, config.MaxMessage)
		o := datagram.Outgoing{To: to, Notify: true, Token: uint64(i), RDMA: &datagram.RDMA{Cookie: c, Local: [][]byte{local[i]}, Silent: true}}
		if err := s.SendMessage(ctx, &o); err != nil {
			return 0, 0, err
		}
	}
	for i := range local {
		m, err := s.Recv(ctx)
		switch {
		case err != nil:
			return 0, 0, err
		case m.Status == datagram.StatusRemoteError:
			refused++
		case m.Status != datagram.StatusSuccess && m.Status != datagram.StatusAgain || i == 0 && m.Status != datagram.StatusSuccess:
			return 0, 0, fmt.Errorf("read %d: %v", i, &m)
		}
		if i == 0 {
			if err := stop(); err != nil {
				return 0, 0, err
			}
		}
	}
	for _, b := range local {
		foreign += len(b) - bytes.Count(b, []byte{0}) - bytes.Count(b, []byte{oldByte})
	}
	return refused, foreign, nil
}

// stallAndWrite stops, and then writes to the region whose cookie a message brings.
func stallAndWrite(ctx context.Context, s *socket.Socket, to netip.AddrPort) (refused int, err error) {
	if err := stop(); err != nil {
		return 0, err
	}
	m, err := s.Recv(ctx)
	if err != nil || !m.HasDest {
		return 0, fmt.Errorf("%v, %w", &m, err)
	}
	if err := s.SendMessage(ctx, &datagram.Outgoing{To: to, Notify: true, RDMA: &datagram.RDMA{Cookie: m.Dest, Local: [][]byte{make([]byte, 8)}, Write: true, Silent: true}}); err != nil {
		return 0, err
	}
	if m, err = s.Recv(ctx); err == nil && m.Status == datagram.StatusRemoteError {
		refused++
	}
	return refused, err
}

package rdstest

import (
	"bufio"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/rds-go/rds/conn"
	"github.com/rds-go/rds/internal/buf"
	"github.com/rds-go/rds/internal/wire"
	"github.com/rds-go/rds/transport"
	"github.com/rds-go/rds/transport/iwarp"
	"github.com/rds-go/rds/transport/transporttest"
	"github.com/rds-go/rds/transport/xrc"
)

// Environment of the processes that the tests of death start: this program,
// with the test that it is to be a part of.
const (
	RoleEnv = "RDS_TEST_ROLE"
	ArgEnv  = "RDS_TEST_ARG"
)

// Process makes this program again, as a part of test, in a role.
func Process(test, role string, args ...string) *exec.Cmd {
	cmd := exec.Command(os.Args[0], "-test.run=^"+test+"$", "-test.count=1")
	cmd.Env = append(os.Environ(), ExhaustEnv+"=1", "GORACE=atexit_sleep_ms=0", RoleEnv+"="+role, ArgEnv+"="+strings.Join(args, " "))
	return cmd
}

// Piped starts a process, and returns its standard input and output. Its errors are this process's
// unless they go elsewhere.
func Piped(t testing.TB, cmd *exec.Cmd) (in io.WriteCloser, out *bufio.Reader) {
	t.Helper()
	if cmd.Stderr == nil {
		cmd.Stderr = os.Stderr
	}
	in, err1 := cmd.StdinPipe()
	o, err2 := cmd.StdoutPipe()
	Must(t, errors.Join(err1, err2, cmd.Start()))
	return in, bufio.NewReader(o)
}

// ConnectionsBetween lists descriptors of this process, one for each end of each TCP
// connection between two addresses that is established, in random order.
func ConnectionsBetween(t testing.TB, random *rand.Rand, a, b netip.Addr) (fds []int) {
	t.Helper()
	dir, err := os.ReadDir("/proc/self/fd")
	Must(t, err)
	seen := make(map[[2]netip.AddrPort]bool)
	for _, d := range dir {
		fd, err := strconv.Atoi(d.Name())
		if err != nil {
			continue
		}
		from, err1 := syscall.Getsockname(fd)
		to, err2 := syscall.Getpeername(fd)
		if err := errors.Join(err1, err2); err != nil {
			continue
		}
		ends := [2]netip.AddrPort{ofSockaddr(from), ofSockaddr(to)}
		if x, y := ends[0].Addr(), ends[1].Addr(); (x != a || y != b) && (x != b || y != a) || seen[ends] {
			continue
		}
		seen[ends] = true
		fds = append(fds, fd)
	}
	random.Shuffle(len(fds), func(i, j int) { fds[i], fds[j] = fds[j], fds[i] })
	return fds
}

// Shut ends a connection, with a reset in half of the cases, and tells whether it had not
// ended before.
func Shut(random *rand.Rand, fd int) bool {
	if random.IntN(2) == 0 {
		_ = syscall.SetsockoptLinger(fd, syscall.SOL_SOCKET, syscall.SO_LINGER, &syscall.Linger{Onoff: 1})
	}
	return syscall.Shutdown(fd, syscall.SHUT_RDWR) == nil
}

func ofSockaddr(a syscall.Sockaddr) netip.AddrPort {
	if a, ok := a.(*syscall.SockaddrInet4); ok {
		return netip.AddrPortFrom(netip.AddrFrom4(a.Addr), uint16(a.Port))
	}
	return netip.AddrPort{}
}

// Mute is the handler of a stranger's link, which takes everything and says nothing.
type Mute struct {
	transporttest.Simple
	Room  chan struct{} // cap 1: the link may have room
	Ended chan struct{}
}

func (*Mute) Message(_ *wire.Header, _ []byte, b *buf.Buf) {
	if b != nil {
		b.Release()
	}
}

func (m *Mute) Writable() {
	select {
	case m.Room <- struct{}{}:
	default:
	}
}

func (m *Mute) Closed(error, uint64) { close(m.Ended) }

// Write writes b, a message or its beginning, and on XRC within the octets that it asks for. It gives up when the
// link ends, or stop.
func (m *Mute) Write(l transport.Link, stop <-chan struct{}, octets int, b []byte) bool {
	wait := func() bool {
		select {
		case <-m.Room:
			return true
		case <-m.Ended:
		case <-stop:
		}
		return false
	}
	if r := l; r.Caps().Reserves {
		for claimed := 0; claimed < octets; claimed += r.Claim() {
			for !r.Want(octets - claimed) {
				if !wait() {
					return false
				}
			}
		}
	}
	for {
		n, err := l.Send([]transport.Frame{{Head: b}})
		if err != nil || n.Frames == 0 && !wait() {
			return false
		}
		if n.Frames == 1 {
			return true
		}
	}
}

// Attacker connects to a node's RDS/TCP port from any address of 127.0.0.0/8.
type Attacker struct {
	To    netip.AddrPort
	Fails atomic.Int64
}

// Probe is what an attacker sends: a probe with a generation of its own.
func Probe(generation uint32, seq uint64) []byte {
	return statement(wire.Handshake{HasPaths: true, Paths: 1, Generation: generation}, seq)
}

// statement is a probe that states hs.
func statement(hs wire.Handshake, seq uint64) []byte {
	h := wire.Header{Sequence: seq, Sport: wire.PortProbe}
	hs.Put(&h.Extensions)
	return h.AppendTo(nil)
}

// anyStatement states a generation and path settings of an attacker's own.
func anyStatement(generation uint32) []byte {
	paths := []uint16{1, conn.MaxPaths}[rand.IntN(2)]
	return statement(wire.Handshake{HasPaths: true, Paths: paths, Generation: generation, SourceIndex: rand.IntN(2) == 0}, 1)
}

// Connect connects from an address; the connection ends with a reset.
func (a *Attacker) Connect(from netip.Addr) (*net.TCPConn, error) {
	d := net.Dialer{LocalAddr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(from, 0)), Timeout: Patience}
	c, err := d.Dial("tcp4", a.To.String())
	if err != nil {
		return nil, err
	}
	t := c.(*net.TCPConn)
	_ = t.SetLinger(0)
	return t, nil
}

// Once connects, sends one probe, and resets the connection.
func (a *Attacker) Once(from netip.Addr) {
	c, err := a.Connect(from)
	if err != nil {
		a.Fails.Add(1)
		return
	}
	_, _ = c.Write(Probe(rand.Uint32()|1, 1))
	_ = c.Close()
}

// StrangersFrom calls f for n addresses, each of which nobody else has, by a few goroutines.
func StrangersFrom(n int, f func(from netip.Addr)) {
	var wg sync.WaitGroup
	base := rand.Uint32N(1 << 22)
	for k := range 8 {
		wg.Go(func() {
			for i := k; i < n; i += 8 {
				x := base + uint32(i)
				f(netip.AddrFrom4([4]byte{127, 128 + byte(x>>16), byte(x >> 8), byte(x)}))
			}
		})
	}
	wg.Wait()
}

// Pose makes a link on RDS/TCP from an address that is not the attacker's, with a random
// generation and random path settings, which lasts until the node refuses the link, or for a
// moment.
func (a *Attacker) Pose(_ context.Context, from netip.Addr) bool {
	c, err := a.Connect(from)
	if err != nil {
		return false
	}
	_, _ = c.Write(anyStatement(rand.Uint32() | 1))
	_ = c.SetReadDeadline(time.Now().Add(5 * time.Millisecond))
	_, _ = c.Read(make([]byte, 64))
	_ = c.Close()
	return true
}

// PoseXRC is pose on XRC, with a whole set-up.
func (a *Attacker) PoseXRC(ctx context.Context, from netip.Addr) bool {
	generation := rand.Uint32() | 1
	x, err := xrc.New(xrc.Options{Port: a.To.Port() ^ 1, Config: iwarp.Config{EventLoops: 1}, Generation: generation})
	if err != nil {
		return false
	}
	defer x.Close()
	link, err := x.Dial(ctx, from, a.To.Addr(), rand.IntN(conn.MaxPaths))
	if err != nil {
		return false
	}
	m := &Mute{Room: make(chan struct{}, 1), Ended: make(chan struct{})}
	if link.Start(m) != nil {
		return false
	}
	moment, end := context.WithTimeout(ctx, 5*time.Millisecond)
	defer end()
	if h := anyStatement(generation); m.Write(link, moment.Done(), len(h), h) {
		select {
		case <-m.Ended:
		case <-moment.Done():
		}
	}
	link.Close(transport.Abort)
	return true
}

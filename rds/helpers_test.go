package rds

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/rds-go/rds/internal/ipc"
	"github.com/rds-go/rds/transport/loop"
)

// patience is how long tests wait for what must happen. It proves nothing: what has not
// happened by then is taken for lost, on a machine however busy with other tests.
const patience = time.Minute

// gnet starts a worker pool when the program starts; only what comes later is ours.
func TestMain(m *testing.M) {
	os.Setenv(ipc.EnvPath, "none") // whatever this machine has
	if os.Getenv(exhaustEnv) != "" {
		os.Exit(m.Run())
	}
	goleak.VerifyTestMain(closing{m}, goleak.IgnoreCurrent())
}

// closing closes the process's shared node, which otherwise lives as long as
// the process.
type closing struct{ *testing.M }

func (c closing) Run() int {
	code := c.M.Run()
	shared.token <- struct{}{}
	defer func() { <-shared.token }()
	if shared.p != nil {
		_ = shared.p.Close()
	}
	return code
}

// exhaustEnv marks the process that runs out of descriptors on purpose.
const exhaustEnv = "RDS_TEST_EXHAUST"

var (
	addrs    atomic.Uint32
	addrBase = 1<<16 + rand.Uint32N(1<<23)
	ports    atomic.Uint32
	portBase = 20000 + rand.Uint32N(6000)
)

// newAddr returns an address of 127.0.0.0/8 that no other test of this process
// has, and none of another process is likely to have. Each is larger than the
// one before.
func newAddr() netip.Addr {
	for {
		n := addrBase + addrs.Add(1)
		if b := n & 0xff; b != 0 && b != 0xff {
			return netip.AddrFrom4([4]byte{127, byte(n >> 16), byte(n >> 8), byte(n)})
		}
	}
}

// newPort is below the ephemeral range and not the real one.
func newPort() uint16 { return uint16(portBase + ports.Add(1)) }

// lab makes nodes that reach each other, over TCP or in memory.
type lab struct {
	testing.TB
	port uint16
	net  *loop.Network
}

func newLab(t testing.TB) *lab { return &lab{TB: t, port: newPort()} }

func newLoopLab(t testing.TB) *lab { return &lab{TB: t, net: loop.NewNetwork()} }

// node starts a node that does not linger unless cfg says so, and does not give up XRC
// because the machine is busy.
func (l *lab) node(cfg Config) *Node {
	l.Helper()
	cfg.Port = l.port
	if cfg.Linger == 0 {
		cfg.Linger = -1
	}
	if cfg.XRC.Patience == 0 {
		cfg.XRC.Patience = patience
	}
	if l.net != nil && cfg.Transport == nil {
		cfg.Transport = l.net.Transport()
	}
	n, err := NewNode(cfg)
	if err != nil {
		l.Fatal(err)
	}
	l.Cleanup(func() { _ = n.Close() })
	return n
}

// bind makes a socket on a node, at a new address unless one is given.
func (l *lab) bind(n *Node, addr ...netip.AddrPort) *Socket {
	l.Helper()
	at := netip.AddrPortFrom(newAddr(), 4000)
	if len(addr) > 0 {
		at = addr[0]
	}
	s, err := n.Bind(at)
	if err != nil {
		l.Fatal(err)
	}
	return s
}

// pair is a socket on each of two nodes; a's address is the smaller one.
func (l *lab) pair(cfg Config) (a, b *Socket) {
	l.Helper()
	return l.bind(l.node(cfg)), l.bind(l.node(cfg))
}

func nodeOf(s *Socket) *Node { return halfOf(s).node }

func background(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

func mustSend(t testing.TB, s *Socket, to netip.AddrPort, data []byte) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := s.Send(ctx, to, data); err != nil {
		t.Fatal(err)
	}
}

func mustRecv(t testing.TB, s *Socket) Message {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	m, err := s.Recv(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// expect receives a datagram and checks its payload.
func expect(t testing.TB, s *Socket, want string) {
	t.Helper()
	m := mustRecv(t, s)
	if m.Kind != KindData || string(m.Data) != want {
		t.Errorf("received %v %.40q, want %.40q", &m, m.Data, want)
	}
	m.Release()
}

// expectNumber receives the payload of a number.
func expectNumber(t testing.TB, s *Socket, number uint64) {
	t.Helper()
	m := mustRecv(t, s)
	if err := verify(m.Data, number); err != nil {
		t.Fatal(err)
	}
	m.Release()
}

// expectNumbers receives payloads of the numbers below n, in order.
func expectNumbers(t testing.TB, s *Socket, n int) {
	t.Helper()
	for i := range n {
		expectNumber(t, s, uint64(i))
	}
}

// eventually waits for something that announces itself to nobody.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	if !holds(patience, ok) {
		t.Fatalf("not in time: %s", what)
	}
}

func holds(d time.Duration, ok func() bool) bool {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	end := time.NewTimer(d)
	defer end.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-end.C:
			return ok()
		}
	}
	return true
}

// counter reads one of a node's counters.
func counter(t testing.TB, n *Node, name string) uint64 {
	t.Helper()
	for _, c := range n.list() {
		if c.Name == name {
			return c.Value
		}
	}
	t.Fatalf("no counter %q", name)
	return 0
}

func connections(t testing.TB, n *Node) []ConnectionInfo {
	t.Helper()
	info, err := n.Info()
	if err != nil {
		t.Fatal(err)
	}
	return info.Connections
}

// wantErr checks that err is all of wants.
func wantErr(t testing.TB, what string, err error, wants ...error) {
	t.Helper()
	var oe *OpError
	if !errors.As(err, &oe) {
		t.Errorf("%s: %v (%T) is no *OpError", what, err, err)
		return
	}
	if strings.Contains(err.Error(), "\n") {
		t.Errorf("%s: more than one line: %q", what, err)
	}
	for _, w := range wants {
		if !errors.Is(err, w) {
			t.Errorf("%s: %v is not %v", what, err, w)
		}
	}
}

// pattern is the bytes of all payloads: they start somewhere in it.
var pattern = func() []byte {
	b := make([]byte, MaxMessage+256)
	for i := range b {
		b[i] = byte(i * 7)
	}
	return b
}()

func patternOf(number uint64, size int) []byte { return pattern[number&0xff:][8:size] }

// payload is a message that names its number and can be verified.
func payload(number uint64, size int) []byte {
	b := make([]byte, max(8, size))
	binary.BigEndian.PutUint64(b, number)
	copy(b[8:], patternOf(number, len(b)))
	return b
}

func verify(b []byte, number uint64) error {
	if len(b) < 8 {
		return fmt.Errorf("message of %d bytes instead of number %d", len(b), number)
	}
	if got := binary.BigEndian.Uint64(b); got != number {
		return fmt.Errorf("message %d instead of %d", got, number)
	}
	if !bytes.Equal(b[8:], patternOf(number, len(b))) {
		return fmt.Errorf("message %d of %d bytes is damaged", number, len(b))
	}
	return nil
}

// stream sends count verified messages from one socket to another and returns
// what went wrong.
func stream(ctx context.Context, from, to *Socket, count int, size func(i int) int) error {
	sent := make(chan error, 1)
	go func() {
		for i := range count {
			if err := from.Send(ctx, to.LocalAddrPort(), payload(uint64(i), size(i))); err != nil {
				sent <- fmt.Errorf("message %d: %w", i, err)
				return
			}
		}
		sent <- nil
	}()
	for i := range count {
		m, err := to.Recv(ctx)
		if err == nil {
			err = verify(m.Data, uint64(i))
			m.Release()
		}
		if err != nil {
			return errors.Join(err, firstOf(sent))
		}
	}
	return <-sent
}

func firstOf(c <-chan error) error {
	select {
	case err := <-c:
		return err
	default:
		return nil
	}
}

func fixed(n int) func(int) int { return func(int) int { return n } }

// closed tells whether err is what every call on a closed socket returns.
func closed(err error) bool { return errors.Is(err, net.ErrClosed) }

// discard receives until ctx ends.
func discard(ctx context.Context, s *Socket) {
	for {
		m, err := s.Recv(ctx)
		if err != nil {
			return
		}
		m.Release()
	}
}

// congestedAt tells whether a peer of n has said that its port is congested.
func congestedAt(n *Node, port uint16) (yes bool) {
	n.eachPeer(func(p *peer) {
		p.Lock()
		yes = yes || p.Core.Congested(port)
		p.Unlock()
	})
	return yes
}

// halfOf and clientHalfOf are what is behind a socket of a node, and of an application, nil if
// the socket is of another kind.
func halfOf(s *Socket) *nodeSocket {
	h, _ := s.ep.(*nodeSocket)
	return h
}

func clientHalfOf(s *Socket) *clientSocket {
	h, _ := s.ep.(*clientSocket)
	return h
}

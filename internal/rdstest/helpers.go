package rdstest

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/rds-go/rds/rds/config"
	"github.com/rds-go/rds/rds/datagram"
	"github.com/rds-go/rds/transport"
)

// Socket is a socket of a node, of rdsd or of package rds.
type Socket interface {
	LocalAddrPort() netip.AddrPort
	Send(ctx context.Context, to netip.AddrPort, data []byte) error
	SendMessage(ctx context.Context, o *datagram.Outgoing) error
	TrySend(to netip.AddrPort, data []byte) error
	Recv(ctx context.Context) (datagram.Message, error)
	TryRecv() (datagram.Message, error)
	GetMR(mem []byte, flags datagram.MRFlags) (datagram.Cookie, error)
	GetMRForDest(dest netip.AddrPort, mem []byte, flags datagram.MRFlags) (datagram.Cookie, error)
}

func Prefixes(list ...string) (out []netip.Prefix) {
	for _, s := range list {
		out = append(out, netip.MustParsePrefix(s))
	}
	return out
}

// Converse has a pair of sockets send each other messages of their own.
func Converse(ctx context.Context, a, b Socket, count int) error {
	for i := range count {
		for _, d := range [...][2]Socket{{a, b}, {b, a}} {
			if err := d[0].Send(ctx, d[1].LocalAddrPort(), binary.BigEndian.AppendUint32(nil, uint32(i))); err != nil {
				return err
			}
			m, err := d[1].Recv(ctx)
			if err != nil {
				return err
			}
			if len(m.Data) != 4 || binary.BigEndian.Uint32(m.Data) != uint32(i) {
				return fmt.Errorf("PROMISE: message %d: %v %x", i, &m, m.Data)
			}
			m.Release()
		}
	}
	return nil
}

// Must ends a test that an error is not expected in.
func Must(t testing.TB, err error) {
	if err != nil {
		t.Helper()
		t.Fatal(err)
	}
}

// NoError is Must, and the test goes on.
func NoError(t testing.TB, err error) {
	if err != nil {
		t.Helper()
		t.Error(err)
	}
}

// WantCounter checks one of a node's counters.
func WantCounter(t testing.TB, n interface{ List() []transport.Counter }, name string, want uint64) {
	t.Helper()
	if got := Counter(t, n, name); got != want {
		t.Errorf("%s is %d, not %d", name, got, want)
	}
}

// Discard receives until ctx ends, or the socket is closed.
func Discard(ctx context.Context, s Socket) {
	for {
		m, err := s.Recv(ctx)
		if err != nil {
			return
		}
		m.Release()
	}
}

// Drop takes n messages, whatever they are.
func Drop(t testing.TB, s Socket, n int) {
	t.Helper()
	for range n {
		m := MustRecv(t, s)
		m.Release()
	}
}

// Flood sends until the destination is congested and returns how many messages
// were accepted.
func Flood(t testing.TB, from, to Socket, size int) int {
	t.Helper()
	n := 0
	Eventually(t, "congestion", func() bool {
		for {
			switch err := from.TrySend(to.LocalAddrPort(), Payload(uint64(n), size)); {
			case err == nil:
				n++
			case errors.Is(err, datagram.ErrCongested):
				WantErr(t, "send", err, syscall.ENOBUFS)
				return true
			case errors.Is(err, datagram.ErrWouldBlock):
				return false
			default:
				t.Fatal(err)
			}
		}
	})
	return n
}

func After(d time.Duration) time.Time { return time.Now().Add(d) }

func Heap() int64 {
	var m runtime.MemStats
	for last := uint64(1 << 62); ; last = m.HeapAlloc { // finalizers and pools let go in steps
		runtime.GC()
		runtime.ReadMemStats(&m)
		if m.HeapAlloc+64<<10 > last {
			return int64(m.HeapAlloc)
		}
	}
}

// Patience is how long tests wait for what must happen. It proves nothing: what has not
// happened by then is taken for lost, on a machine however busy with other tests.
const Patience = time.Minute

var (
	addrs    atomic.Uint32
	addrBase = 1<<16 + rand.Uint32N(1<<23)
	ports    atomic.Uint32
	portBase = 20000 + rand.Uint32N(6000)
)

// NewAddr returns an address of 127.0.0.0/8 that no other test of this process
// has, and none of another process is likely to have. Each is larger than the
// one before.
func NewAddr() netip.Addr {
	for {
		n := addrBase + addrs.Add(1)
		if b := n & 0xff; b != 0 && b != 0xff {
			return netip.AddrFrom4([4]byte{127, byte(n >> 16), byte(n >> 8), byte(n)})
		}
	}
}

// NewPort is below the ephemeral range and not the real one.
func NewPort() uint16 { return uint16(portBase + ports.Add(1)) }

func Background(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	t.Cleanup(cancel)
	return ctx
}

func MustSend(t testing.TB, s Socket, to netip.AddrPort, data []byte) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	defer cancel()
	Must(t, s.Send(ctx, to, data))
}

func MustRecv(t testing.TB, s Socket) datagram.Message {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	defer cancel()
	m, err := s.Recv(ctx)
	Must(t, err)
	return m
}

// Expect receives a datagram and checks its payload.
func Expect(t testing.TB, s Socket, want string) {
	t.Helper()
	m := MustRecv(t, s)
	if m.Kind != datagram.KindData || string(m.Data) != want {
		t.Errorf("PROMISE: received %v %.40q, want %.40q", &m, m.Data, want)
	}
	m.Release()
}

// ExpectNumber receives the payload of a number.
func ExpectNumber(t testing.TB, s Socket, number uint64) {
	t.Helper()
	m := MustRecv(t, s)
	Must(t, Verify(m.Data, number))
	m.Release()
}

// ExpectNumbers receives payloads of the numbers below n, in order.
func ExpectNumbers(t testing.TB, s Socket, n int) {
	t.Helper()
	for i := range n {
		ExpectNumber(t, s, uint64(i))
	}
}

// Eventually waits for something that announces itself to nobody.
func Eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	if !Holds(Patience, ok) {
		t.Fatalf("not in time: %s", what)
	}
}

func Holds(d time.Duration, ok func() bool) bool {
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

// WantErr checks that err is all of wants.
func WantErr(t testing.TB, what string, err error, wants ...error) {
	t.Helper()
	var oe *datagram.OpError
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

// Pattern is the bytes of all payloads: they start somewhere in it.
var Pattern = func() []byte {
	b := make([]byte, config.MaxMessage+256)
	for i := range b {
		b[i] = byte(i * 7)
	}
	return b
}()

func PatternOf(number uint64, size int) []byte { return Pattern[number&0xff:][8:size] }

// Payload is a message that names its number and can be verified.
func Payload(number uint64, size int) []byte {
	b := make([]byte, max(8, size))
	binary.BigEndian.PutUint64(b, number)
	copy(b[8:], PatternOf(number, len(b)))
	return b
}

// Verify tells what is wrong with a payload. The word PROMISE has testsum take the failure for a
// verdict, which is never run again.
func Verify(b []byte, number uint64) error {
	if len(b) < 8 {
		return fmt.Errorf("PROMISE: message of %d bytes instead of number %d", len(b), number)
	}
	if got := binary.BigEndian.Uint64(b); got != number {
		return fmt.Errorf("PROMISE: message %d instead of %d", got, number)
	}
	if !bytes.Equal(b[8:], PatternOf(number, len(b))) {
		return fmt.Errorf("PROMISE: message %d of %d bytes is damaged", number, len(b))
	}
	return nil
}

// Stream sends count verified messages from one socket to another and returns
// what went wrong.
func Stream(ctx context.Context, from, to Socket, count int, size func(i int) int) error {
	sent := make(chan error, 1)
	go func() {
		for i := range count {
			if err := from.Send(ctx, to.LocalAddrPort(), Payload(uint64(i), size(i))); err != nil {
				sent <- fmt.Errorf("message %d: %w", i, err)
				return
			}
		}
		sent <- nil
	}()
	for i := range count {
		m, err := to.Recv(ctx)
		if err == nil {
			err = Verify(m.Data, uint64(i))
			m.Release()
		}
		if err != nil {
			return errors.Join(err, FirstOf(sent))
		}
	}
	return <-sent
}

func FirstOf(c <-chan error) error {
	select {
	case err := <-c:
		return err
	default:
		return nil
	}
}

func Fixed(n int) func(int) int { return func(int) int { return n } }

// Closed tells whether err is what every call on a closed socket returns.
func Closed(err error) bool { return errors.Is(err, net.ErrClosed) }

func WantStatus(t testing.TB, s Socket, token uint64, status datagram.Status) {
	t.Helper()
	m := MustRecv(t, s)
	if m.Kind != datagram.KindStatus || m.Token != token || m.Status != status || m.Data != nil || m.From.IsValid() {
		t.Errorf("PROMISE: %+v, want status %d of %#x", m, status, token)
	}
	m.Release()
}

// Write is a write of one byte.
func Write(c datagram.Cookie, v byte) *datagram.RDMA {
	return &datagram.RDMA{Cookie: c, Local: [][]byte{{v}}, Write: true}
}

// MustGetMR exposes memory.
func MustGetMR(t testing.TB, s Socket, mem []byte, flags datagram.MRFlags) datagram.Cookie {
	t.Helper()
	c, err := s.GetMR(mem, flags)
	Must(t, err)
	return c
}

// MustGetMRFor is MustGetMR for the operations of another socket's host.
func MustGetMRFor(t testing.TB, s, dest Socket, mem []byte, flags datagram.MRFlags) datagram.Cookie {
	t.Helper()
	c, err := s.GetMRForDest(dest.LocalAddrPort(), mem, flags)
	Must(t, err)
	return c
}

// Operate sends a message with Notify and token, whatever else o says.
func Operate(t testing.TB, s Socket, to Socket, token uint64, o datagram.Outgoing) {
	t.Helper()
	OperateAt(t, s, to.LocalAddrPort(), token, o)
}

// OperateAt is Operate for who has an address.
func OperateAt(t testing.TB, s Socket, to netip.AddrPort, token uint64, o datagram.Outgoing) {
	t.Helper()
	o.To, o.Notify, o.Token = to, true, token
	Must(t, s.SendMessage(Background(t), &o))
}

func WantNothing(t testing.TB, s Socket) {
	t.Helper()
	if m, err := s.TryRecv(); !errors.Is(err, datagram.ErrWouldBlock) {
		t.Errorf("PROMISE: received %v, %v", &m, err)
		m.Release()
	}
}

// ReservedConfig is small: a receive buffer of some messages, an overrun of few for each
// sender.
func ReservedConfig() config.Node {
	return config.Node{Wire: config.WireXRC, ReceiveBuffer: 256 << 10, ReceiveOverrun: 512 << 10, SendBuffer: 256 << 10, MaxMessage: 128 << 10}
}

func AddrOf(a netip.Addr, port uint16) netip.AddrPort { return netip.AddrPortFrom(a, port) }

// Ping sends one to the host itself and takes the answer.
func Ping(t testing.TB, s Socket, host netip.Addr) {
	t.Helper()
	MustSend(t, s, AddrOf(host, 0), []byte("not echoed"))
	m := MustRecv(t, s)
	defer m.Release()
	if m.From != AddrOf(host, 0) || len(m.Data) != 0 || m.Kind != datagram.KindData {
		t.Errorf("ping: %v", &m)
	}
}

// Nowhere is a destination that nobody answers at, so that what is sent there
// stays in the send buffer.
func Nowhere() netip.AddrPort { return netip.AddrPortFrom(NewAddr(), 4000) }

// Promptly sends a message to a host that is up and sees it arrive. Were it to wait for
// the dead hosts it would wait for good.
func Promptly(t *testing.T, s, up Socket, data []byte) {
	t.Helper()
	ctx := Background(t)
	if err := s.Send(ctx, up.LocalAddrPort(), data); err != nil {
		t.Fatalf("to a host that is up: %v", err)
	}
	m, err := up.Recv(ctx)
	if err != nil {
		t.Fatalf("at a host that is up: %v", err)
	}
	if len(m.Data) != len(data) {
		t.Errorf("%d bytes", len(m.Data))
	}
	m.Release()
}

// Interceptor keeps the links that come in.
type Interceptor struct {
	transport.Transport
	Links  chan transport.Link
	Accept func(transport.Link) // who would have got them
}

func (t *Interceptor) Listen(local netip.Addr, accept func(transport.Link)) error {
	t.Accept = accept
	return t.Transport.Listen(local, func(l transport.Link) { t.Links <- l })
}

func EachWire(t *testing.T, f func(t *testing.T, w config.Wire)) {
	for _, w := range []config.Wire{config.WireXRC, config.WireTCP} {
		t.Run(string(w), func(t *testing.T) {
			t.Parallel()
			f(t, w)
		})
	}
}

// LostPatience is that of nodes whose peers lose XRC, which takes so long, and answer on it
// before, which they may be slow to do.
const LostPatience = 5 * time.Second

// ExpectDespite is ExpectNumbers of a socket that may be told of the loss of its daemon
// meanwhile if lost is set.
func ExpectDespite(t testing.TB, s Socket, n uint64, lost bool) {
	t.Helper()
	for i := uint64(0); i < n; {
		m, err := s.Recv(Background(t))
		if errors.Is(err, datagram.ErrDaemonLost) && lost {
			continue
		}
		if err != nil {
			t.Fatalf("message %d: %v", i, err)
		}
		Must(t, Verify(m.Data, i))
		m.Release()
		i++
	}
}

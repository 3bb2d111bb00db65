package rds

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"testing"

	"github.com/rds-go/rds/internal/rdstest"
	"github.com/rds-go/rds/transport/loop"
)

// dials waits until the daemon lets one more in, or returns why it does not. The
// daemon hears of the end of a session a moment after it.
func dials(t testing.TB, path string) *Client {
	t.Helper()
	var c *Client
	rdstest.Eventually(t, "room for a session", func() bool {
		var err error
		c, err = Dial(path)
		return err == nil
	})
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// serving makes a node serve applications, and returns where.
func serving(t testing.TB, n *Node, scfg ServiceConfig) (*Service, string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "rds") // short enough for a socket's name
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	scfg.Path = filepath.Join(dir, "s")
	svc, err := NewService(n, scfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = svc.Close() })
	return svc, scfg.Path
}

// lab makes nodes that reach each other, over TCP or in memory.
type lab struct {
	testing.TB
	port uint16
	net  *loop.Network
}

func newLab(t testing.TB) *lab { return &lab{TB: t, port: rdstest.NewPort()} }

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
		cfg.XRC.Patience = rdstest.Patience
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

// pair is a socket on each of two nodes; a's address is the smaller one.
func (l *lab) pair(cfg Config) (a, b *Socket) {
	l.Helper()
	return l.bind(l.node(cfg)), l.bind(l.node(cfg))
}

func mustSend(t testing.TB, s *Socket, to netip.AddrPort, data []byte) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), rdstest.Patience)
	defer cancel()
	if err := s.Send(ctx, to, data); err != nil {
		t.Fatal(err)
	}
}

func mustRecv(t testing.TB, s *Socket) Message {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), rdstest.Patience)
	defer cancel()
	m, err := s.Recv(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// Expect receives a datagram and checks its payload.
func expect(t testing.TB, s *Socket, want string) {
	t.Helper()
	m := mustRecv(t, s)
	if m.Kind != KindData || string(m.Data) != want {
		t.Errorf("received %v %.40q, want %.40q", &m, m.Data, want)
	}
	m.Release()
}

func connections(t testing.TB, n *Node) []ConnectionInfo {
	t.Helper()
	info, err := n.Info()
	if err != nil {
		t.Fatal(err)
	}
	return info.Connections
}

// Stream sends count verified messages from one socket to another and returns
// what went wrong.
func stream(ctx context.Context, from, to *Socket, count int, size func(i int) int) error {
	sent := make(chan error, 1)
	go func() {
		for i := range count {
			if err := from.Send(ctx, to.LocalAddrPort(), rdstest.Payload(uint64(i), size(i))); err != nil {
				sent <- fmt.Errorf("message %d: %w", i, err)
				return
			}
		}
		sent <- nil
	}()
	for i := range count {
		m, err := to.Recv(ctx)
		if err == nil {
			err = rdstest.Verify(m.Data, uint64(i))
			m.Release()
		}
		if err != nil {
			return errors.Join(err, rdstest.FirstOf(sent))
		}
	}
	return <-sent
}

func wantStatus(t testing.TB, s *Socket, token uint64, status Status) {
	t.Helper()
	m := mustRecv(t, s)
	if m.Kind != KindStatus || m.Token != token || m.Status != status || m.Data != nil || m.From.IsValid() {
		t.Errorf("%+v, want status %d of %#x", m, status, token)
	}
	m.Release()
}

// rdstest.MustGetMR exposes memory.
func mustGetMR(t testing.TB, s *Socket, mem []byte, flags MRFlags) Cookie {
	t.Helper()
	c, err := s.GetMR(mem, flags)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// Operate sends a message with Notify and token, whatever else o says.
func operate(t testing.TB, s *Socket, to *Socket, token uint64, o Outgoing) {
	t.Helper()
	o.To, o.Notify, o.Token = to.LocalAddrPort(), true, token
	if err := s.SendMessage(rdstest.Background(t), &o); err != nil {
		t.Fatal(err)
	}
}

func wantNothing(t testing.TB, s *Socket) {
	t.Helper()
	if m, err := s.TryRecv(); !errors.Is(err, ErrWouldBlock) {
		t.Errorf("received %v, %v", &m, err)
		m.Release()
	}
}

// bindOne is a socket on a node of its own.
func (l *lab) bindOne(cfg Config) *Socket { l.Helper(); return l.bind(l.node(cfg)) }

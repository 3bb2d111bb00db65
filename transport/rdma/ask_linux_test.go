package rdma

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"syscall"
	"testing"
	"time"

	"github.com/rds-go/rds/transport"
	"github.com/rds-go/rds/transport/iwarp"
	"github.com/rds-go/rds/transport/transporttest"
)

// A question is answered and never becomes a link.
func TestAsk(t *testing.T) {
	t.Parallel()
	e := newEnv(t, Options{}, Options{Generation: 6})
	ctx, cancel := context.WithTimeout(t.Context(), transporttest.Patience)
	defer cancel()
	a, b := e.A.(*Transport), e.B.(*Transport)
	links := make(chan transport.Link, 8)
	if err := b.Listen(e.AddrB, func(l transport.Link) { links <- l }); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if err := a.Ask(ctx, e.AddrA, e.AddrB); err != nil {
			t.Errorf("a peer that speaks XRC: %v", err)
		}
	}
	if err := a.Ask(ctx, e.AddrA, e.Nobody); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("a peer that does not listen: %v", err)
	}
	b.Admit(func(netip.Addr) bool { return false })
	if err := a.Ask(ctx, e.AddrA, e.AddrB); !errors.Is(err, iwarp.ErrRejected) || !Absent(err) {
		t.Errorf("a peer that rejects us: %v", err)
	}
	b.Admit(func(netip.Addr) bool { return true })
	l, err := a.Dial(ctx, e.AddrA, e.AddrB, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close(transport.Abort)
	got := <-links // the dial's: a link of a question would have come before it
	defer got.Close(transport.Abort)
	if got.RemoteAddr() != l.LocalAddr() {
		t.Errorf("a link from %v was accepted, and %v was dialed from", got.RemoteAddr(), l.LocalAddr())
	}
	select {
	case l := <-links:
		t.Errorf("one more link, from %v", l.RemoteAddr())
	default:
	}
}

// A peer of the time before there were questions accepts the connection, which tells
// that it speaks XRC, and its hello parser refuses to make a link of it.
func TestAskOldPeer(t *testing.T) {
	t.Parallel()
	e := newEnv(t, Options{}, Options{})
	ctx, cancel := context.WithTimeout(t.Context(), transporttest.Patience)
	defer cancel()
	a, b := e.A.(*Transport), e.B.(*Transport)
	for _, c := range []struct {
		name string
		says []byte
		want error
	}{
		{"RDS", hello{generation: 7}.bytes(), nil},
		{"RDS without a generation", hello{}.bytes()[:helloSize], nil},
		{"another program", []byte("something else"), errHello},
	} {
		addr := newAddr()
		ln, err := b.dev.Listen(netip.AddrPortFrom(addr, b.opts.Port))
		if err != nil {
			t.Fatal(err)
		}
		refused := make(chan error, 1)
		go func() { // what version 1 does in Transport.incoming
			in, err := ln.Accept(ctx)
			if err != nil {
				refused <- err
				return
			}
			l, err := b.newLink()
			if err != nil {
				refused <- err
				return
			}
			p := l.params(0)
			p.Private = c.says
			est, err := in.Accept(ctx, l.qp, p)
			if err == nil {
				_, err = parseHello(est.Private)
			}
			l.finish()
			refused <- err
		}()
		if err := a.Ask(ctx, e.AddrA, addr); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
		if err := <-refused; err == nil {
			t.Errorf("%s: the peer would have made a link of the question", c.name)
		}
		_ = ln.Close()
	}
}

// A port that takes connections behind which nobody answers is not a silent port.
func TestHung(t *testing.T) {
	t.Parallel()
	e := newEnv(t, Options{}, Options{})
	a := e.A.(*Transport)
	ln, err := net.ListenTCP("tcp4", net.TCPAddrFromAddrPort(netip.AddrPortFrom(e.AddrB, a.opts.Port)))
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := a.Dial(ctx, e.AddrA, e.AddrB, 0); !Hung(err) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("nobody answers: %v", err)
	}
	if _, err := a.Dial(t.Context(), e.AddrA, e.Nobody, 0); err == nil || Hung(err) {
		t.Errorf("nobody listens: %v", err)
	}
}

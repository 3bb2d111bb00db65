//go:build !live

package xrc

import (
	"context"
	"errors"
	"net/netip"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/rds-go/rds/transport"
	"github.com/rds-go/rds/transport/iwarp"
)

// A question is answered and never becomes a link.
func TestAsk(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var rejects atomic.Bool
		e := newEnv(t, Options{}, Options{Generation: 6, Admit: func(netip.Addr) bool { return !rejects.Load() }})
		ctx := within(t)
		a, b := e.A.(*Transport), e.B.(*Transport)
		links := make(chan transport.Link, 8)
		must(t, b.Listen(e.AddrB, func(l transport.Link) { links <- l }))
		for range 3 {
			if err := a.Ask(ctx, e.AddrA, e.AddrB); err != nil {
				t.Errorf("a peer that speaks XRC: %v", err)
			}
		}
		if err := a.Ask(ctx, e.AddrA, e.Nobody); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("a peer that does not listen: %v", err)
		}
		rejects.Store(true)
		if err := a.Ask(ctx, e.AddrA, e.AddrB); !errors.Is(err, iwarp.ErrRejected) || !Absent(err) {
			t.Errorf("a peer that rejects us: %v", err)
		}
		rejects.Store(false)
		l, err := a.Dial(ctx, e.AddrA, e.AddrB, 0)
		must(t, err)
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
	})
}

// A peer of an earlier version does not give a link: neither one that answers questions with
// its hello, nor one that knows no questions and accepts; and it is told that we do not, either.
func TestAskOldPeer(t *testing.T) {
	bubble(t, func(t *testing.T) {
		e := newEnv(t, Options{}, Options{})
		ctx := within(t)
		a, b := e.A.(*Transport), e.B.(*Transport)
		for _, c := range []struct {
			name   string
			says   []byte
			accept bool
			want   error
		}{
			{"version 2", []byte("RDSx\x02\x00\x00\x00\x00\x00\x00\x07"), false, errOldVersion},
			{"version 1", []byte("RDSx\x01\x00\x00\x00"), true, errOldVersion},
			{"another program", []byte("something else"), false, iwarp.ErrRejected},
		} {
			addr := newAddr()
			ln, err := b.dev.Listen(netip.AddrPortFrom(addr, b.opts.Port))
			must(t, err)
			done := make(chan error, 1)
			go func() {
				in, err := ln.Accept(ctx)
				if err == nil && !c.accept {
					err = in.Reject(c.says)
				} else if err == nil {
					var l *link
					if l, err = b.newLink(hosts{addr, e.AddrA}, 1, 1); err == nil {
						p := l.params(hello{})
						p.Private = c.says
						_, _ = in.Accept(ctx, l.qp, p)
						l.finish()
					}
				}
				done <- err
			}()
			if err := a.Ask(ctx, e.AddrA, addr); !errors.Is(err, c.want) {
				t.Errorf("%s: %v, want %v", c.name, err, c.want)
			}
			if err := <-done; err != nil {
				t.Errorf("%s: %v", c.name, err)
			}
			_ = ln.Close()
		}
		for asker, yes := range map[uint8]bool{0: false, 2: false, helloVersion: true, helloVersion + 1: true} {
			if got := b.answerQuestion(hosts{e.AddrB, e.AddrA}, asker, hello{}.question()); (got != nil) != yes {
				t.Errorf("version %d asks and hears %q", asker, got)
			}
		}
	})
}

// A port that takes connections behind which nobody answers is not a silent port.
func TestHung(t *testing.T) {
	bubble(t, func(t *testing.T) {
		e := newEnv(t, Options{}, Options{})
		a := e.A.(*Transport)
		ln, err := networkOf(t).Listen(netip.AddrPortFrom(e.AddrB, a.opts.Port))
		must(t, err)
		defer ln.Close()
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		if _, err := a.Dial(ctx, e.AddrA, e.AddrB, 0); !Hung(err) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("nobody answers: %v", err)
		}
		if _, err := a.Dial(t.Context(), e.AddrA, e.Nobody, 0); err == nil || Hung(err) {
			t.Errorf("nobody listens: %v", err)
		}
	})
}

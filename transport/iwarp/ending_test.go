//go:build !live

package iwarp

import (
	"errors"
	"testing"
	"time"

	"github.com/rds-go/rds/transport/iwarp/mpa"
	"github.com/rds-go/rds/transport/iwarp/rdmap"
)

// A peer that does not end its side after we have ended ours is given so long,
// whatever ours ended by.
func TestCloseTimeout(t *testing.T) {
	t.Parallel()
	// It runs from the moment that ends the connection, and what we say last must
	// have left before it is over, on a busy machine too.
	const patience = time.Second
	for name, test := range map[string]struct {
		end  func(e *end, p *raw)
		err  error
		last func(p *raw) // what we say last
	}{
		"disconnect": {func(e *end, p *raw) { _ = e.qp.Disconnect() }, ErrClosed, func(p *raw) { p.closed() }},
		"fail":       {func(e *end, p *raw) { e.qp.Fail() }, ErrClosed, func(p *raw) { p.closed() }},
		"terminate": {func(e *end, p *raw) { p.send(write(0, 0, []byte{1})) }, rdmap.CauseDDPInvalidSTag,
			func(p *raw) { p.terminate(rdmap.CauseDDPInvalidSTag) }},
		"terminated": {func(e *end, p *raw) { p.send(terminating(rdmap.NewTerminate(rdmap.CauseCatastrophic, nil))) }, rdmap.CauseCatastrophic,
			func(p *raw) { p.closed() }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bubble(t, func(t *testing.T) {
				d := openDevice(t, Config{EventLoops: 1, CloseTimeout: patience})
				e := newEnd(t, d, QPConfig{})
				p := openRaw(t, e, false, true)
				begin := time.Now()
				test.end(e, p)
				test.last(p)
				if err := e.ended(); !errors.Is(err, test.err) {
					t.Errorf("ended by %v", err)
				}
				// Ours is a reset then, so that the peer's next word is answered.
				if !eventually(30*time.Second, func() bool {
					_, err := p.conn.Write([]byte{0})
					return err != nil
				}) {
					t.Fatal("still open")
				}
				if took := time.Since(begin); took < patience {
					t.Errorf("closed after %v", took)
				}
			})
		})
	}
}

// An error while Connect still waits out the guard delay is what Connect tells.
func TestErrorWithinTheGuardDelay(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		behind []byte
		err    error
	}{
		"bad FPDU":  {mpa.AppendFPDU(nil, write(0, 0, []byte{1}), true), rdmap.CauseDDPInvalidSTag},
		"Terminate": {mpa.AppendFPDU(nil, terminating(rdmap.NewTerminate(rdmap.CauseGlobalCatastrophic, nil)), true), rdmap.CauseGlobalCatastrophic},
		"the end":   {nil, ErrPeerClosed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bubble(t, func(t *testing.T) {
				e := newEnd(t, openDevice(t, Config{EventLoops: 1}), QPConfig{})
				l := listenRaw(t)
				done := connecting(t, e, l.addr(), ConnParams{Guard: time.Hour})
				p := l.accept()
				f := reply(true)
				p.opened(p.setup(), f)
				p.write(append(f.AppendTo(nil), test.behind...))
				_ = p.conn.CloseWrite()
				if err := <-done; !errors.Is(err, test.err) {
					t.Errorf("Connect: %v", err)
				}
				if err := e.ended(); !errors.Is(err, test.err) {
					t.Errorf("the queue pair: %v", err)
				}
			})
		})
	}
}

// A Request whose peer has gone cannot be accepted any more; nor can one that
// the listener refused when it was closed.
func TestAcceptTooLate(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T) {
		e := newEnd(t, openDevice(t, Config{EventLoops: 1}), QPConfig{})
		ln := listen(t, e.dev)
		p := dialRaw(t, ln.Addr())
		p.write(request(true).AppendTo(nil))
		in, err := ln.Accept(within(t))
		if err != nil {
			t.Fatal(err)
		}
		p.abort()
		if !eventually(10*time.Second, func() bool { return in.s.phase.Load() == phaseEnded }) {
			t.Fatal("the end was not noticed")
		}
		if _, err := in.Accept(within(t), e.qp, ConnParams{}); !errors.Is(err, ErrClosed) {
			t.Errorf("Accept: %v", err)
		}
		if err := in.Reject(nil); !errors.Is(err, ErrClosed) {
			t.Errorf("Reject: %v", err)
		}
		if s := e.qp.State(); s != StateInit {
			t.Errorf("state %v", s)
		}
		p = dialRaw(t, ln.Addr())
		p.write(request(true).AppendTo(nil))
		if !eventually(10*time.Second, func() bool { return len(ln.queue) == 1 }) {
			t.Fatal("no Request")
		}
		if err := ln.Close(); err != nil {
			t.Fatal(err)
		}
		p.gone()
		if _, err := ln.Accept(within(t)); !errors.Is(err, ErrClosed) {
			t.Errorf("Accept: %v", err)
		}
	})
}

// More Requests than the backlog has room for are refused with a Reply.
func TestBacklogIsBounded(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T) {
		d := openDevice(t, Config{EventLoops: 1, Backlog: 2})
		ln := listen(t, d)
		for i := range 4 {
			p := dialRaw(t, ln.Addr())
			p.write(request(true).AppendTo(nil))
			if i < 2 {
				if !eventually(10*time.Second, func() bool { return len(ln.queue) == i+1 }) {
					t.Fatal("no Request")
				}
				continue
			}
			if f := p.setup(); !f.Reject || !f.Enhanced || len(f.Private) != mpa.PrefixLen {
				t.Errorf("Reply %+v", f)
			}
			p.closed()
		}
		if n := d.Stats().Rejected; n != 2 {
			t.Errorf("%d rejected", n)
		}
	})
}

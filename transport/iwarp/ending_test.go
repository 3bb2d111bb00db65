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
		inBubble(t, name, func(t *testing.T) {
			d := openDevice(t, Config{EventLoops: 1, CloseTimeout: patience})
			e := newEnd(t, d, QPConfig{})
			p := openRaw(t, e, false, true)
			begin := time.Now()
			test.end(e, p)
			test.last(p)
			wantErr(t, "ended by", e.ended(), test.err)
			// Ours is a reset then, so that the peer's next word is answered.
			eventually(t, "the end of the connection", func() bool {
				_, err := p.conn.Write([]byte{0})
				return err != nil
			})
			if took := time.Since(begin); took < patience {
				t.Errorf("closed after %v", took)
			}
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
		inBubble(t, name, func(t *testing.T) {
			e, _, p, done := connectingRaw(t, Config{}, QPConfig{}, ConnParams{Guard: time.Hour})
			f := reply(true)
			p.opened(p.setup(), f)
			p.write(append(f.AppendTo(nil), test.behind...))
			_ = p.conn.CloseWrite()
			wantErr(t, "Connect", <-done, test.err)
			wantErr(t, "the queue pair", e.ended(), test.err)
		})
	}
}

// A Request whose peer has gone cannot be accepted any more; nor can one that
// the listener refused when it was closed.
func TestAcceptTooLate(t *testing.T) {
	bubble(t, func(t *testing.T) {
		e := newEnd(t, openDevice(t, Config{EventLoops: 1}), QPConfig{})
		ln := listen(t, e.dev)
		p := dialRaw(t, ln.Addr())
		p.write(request(true).AppendTo(nil))
		in, err := ln.Accept(within(t))
		must(t, err)
		p.abort()
		eventually(t, "the end is noticed", func() bool { return in.s.phase.Load() == phaseEnded })
		if _, err := in.Accept(within(t), e.qp, ConnParams{}); !errors.Is(err, ErrClosed) {
			t.Errorf("Accept: %v", err)
		}
		wantErr(t, "Reject", in.Reject(nil), ErrClosed)
		same(t, "state", e.qp.State(), StateInit)
		p = dialRaw(t, ln.Addr())
		p.write(request(true).AppendTo(nil))
		eventually(t, "a Request", func() bool { return len(ln.queue) == 1 })
		must(t, ln.Close())
		p.gone()
		if _, err := ln.Accept(within(t)); !errors.Is(err, ErrClosed) {
			t.Errorf("Accept: %v", err)
		}
	})
}

// More Requests than the backlog has room for are refused with a Reply.
func TestBacklogIsBounded(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d := openDevice(t, Config{EventLoops: 1, Backlog: 2})
		ln := listen(t, d)
		for i := range 4 {
			p := dialRaw(t, ln.Addr())
			p.write(request(true).AppendTo(nil))
			if i < 2 {
				eventually(t, "a Request", func() bool { return len(ln.queue) == i+1 })
				continue
			}
			if f := p.setup(); !f.Reject || !f.Enhanced || len(f.Private) != mpa.PrefixLen {
				t.Errorf("Reply %+v", f)
			}
			p.closed()
		}
		same(t, "rejected", d.Stats().Rejected, 2)
	})
}

//go:build !live

package iwarp

import (
	"bytes"
	"cmp"
	"errors"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/rds-go/rds/transport/iwarp/mpa"
	"github.com/rds-go/rds/transport/iwarp/rdmap"
)

// What an initiator makes of Replies. All rows of the decision are in the table of package mpa.
func TestReplyIsJudged(t *testing.T) {
	t.Parallel()
	prefix := func(ird, ord uint16) []byte { return (&mpa.Prefix{IRD: ird, ORD: ord}).AppendTo(nil) }
	frame := func(change func(f *mpa.Frame)) []byte {
		f := reply(true)
		change(f)
		return f.AppendTo(nil)
	}
	good := frame(func(*mpa.Frame) {})
	tests := []struct {
		name  string
		reply []byte
		err   error
		// terminate is what we say before we close, if anything.
		terminate rdmap.Cause
		ird, ord  int // in force, if accepted
	}{
		{name: "good", reply: good, ird: 16, ord: 16},
		{name: "IRD below our ORD", reply: frame(func(f *mpa.Frame) { f.Private = prefix(3, 16) }), ird: 16, ord: 3},
		{name: "ORD above our IRD", reply: frame(func(f *mpa.Frame) { f.Private = prefix(16, 100) }), ird: 100, ord: 16},
		{name: "ORD above our limit", reply: frame(func(f *mpa.Frame) { f.Private = prefix(16, 129) }), err: mpa.ErrIRD, terminate: rdmap.CauseMPAIRD},
		{name: "19 rejected", reply: frame(func(f *mpa.Frame) { f.Reject = true; f.Private = append(f.Private, "why"...) }), err: ErrRejected},
		{name: "19 S missing", reply: frame(func(f *mpa.Frame) { f.Enhanced = false }), err: mpa.ErrEnhanced},
		{name: "19 revision 3", reply: frame(func(f *mpa.Frame) { f.Rev = 3 }), err: mpa.ErrRevision},
		{name: "key of a Request", reply: request(true).AppendTo(nil), err: mpa.ErrRole},
		{name: "too much private data", reply: frame(func(f *mpa.Frame) { f.Private = make([]byte, 257) }), err: mpa.ErrPrivate},
		{name: "another key", reply: append([]byte("mPA"), good[3:]...), err: mpa.ErrKey},
	}
	for _, test := range tests {
		for _, slow := range []bool{false, true} {
			name := test.name
			if slow {
				name += ", octet by octet"
			}
			inBubble(t, name, func(t *testing.T) {
				e, _, p, done := connectingRaw(t, Config{}, QPConfig{}, ConnParams{Rev: 2})
				req := p.setup()
				if !req.Enhanced || req.Rev != 2 || !req.CRC || req.Markers || req.Reject || !bytes.Equal(req.Private, prefix(16, 16)) {
					t.Fatalf("Request %+v", req)
				}
				p.slow = slow
				p.opened(req, reply(true))
				p.write(test.reply)
				if test.terminate != 0 {
					p.terminate(test.terminate)
				} else if test.err != nil {
					p.gone()
				}
				err := <-done
				if !errors.Is(err, test.err) {
					t.Fatalf("Connect: %v", err)
				}
				var r *RejectedError
				if test.err == ErrRejected && (!errors.As(err, &r) || !errors.Is(err, syscall.ECONNREFUSED) || string(r.Private) != "why" || r.Prefix.IRD != 16) {
					t.Errorf("Connect: %v, %+v", err, r)
				}
				if test.err != nil {
					same(t, "state", e.qp.State(), StateInit)
					return
				}
				if e.est.IRD != test.ird || e.est.ORD != test.ord || e.est.PeerToPeer {
					t.Errorf("established: %+v", e.est)
				}
			})
		}
	}
}

// A responder older than RFC 6581 closes; the second attempt is of revision 1.
func TestFallbackToRevision1(t *testing.T) {
	bubble(t, func(t *testing.T) {
		for _, abort := range []bool{false, true} {
			e, l, p, done := connectingRaw(t, Config{}, QPConfig{}, ConnParams{Private: []byte("name")})
			if f := p.setup(); f.Rev != 2 {
				t.Fatalf("first attempt %+v", f)
			}
			if abort {
				p.abort()
			} else {
				_ = p.conn.Close()
			}
			p = l.accept()
			if f := p.setup(); f.Rev != 1 || f.Enhanced || string(f.Private) != "name" {
				t.Fatalf("second attempt %+v", f)
			}
			p.write((&mpa.Frame{Reply: true, Rev: 1, Private: []byte("welcome")}).AppendTo(nil))
			must(t, <-done)
			if e.est.Rev != 1 || !e.est.CRC || string(e.est.Private) != "welcome" {
				t.Fatalf("established: %+v", e.est)
			}
		}
	})
}

// A peer that does not answer is given up once, not tried again.
func TestReplyTimeout(t *testing.T) {
	t.Parallel()
	half := reply(true).AppendTo(nil)[:18]
	for name, b := range map[string][]byte{"21 silence": nil, "half a Reply": half} {
		inBubble(t, name, func(t *testing.T) {
			const patience = 60 * time.Millisecond
			begin := time.Now()
			e, l, p, done := connectingRaw(t, Config{ReplyTimeout: patience}, QPConfig{}, ConnParams{})
			p.setup()
			p.write(b)
			wantErr(t, "Connect", <-done, syscall.ETIMEDOUT)
			if took := time.Since(begin); took < patience {
				t.Errorf("given up after %v", took)
			}
			p.gone()
			time.AfterFunc(20*time.Millisecond, func() { _ = l.ln.Close() })
			if c, err := l.ln.Accept(); err == nil {
				_ = c.Close()
				t.Error("it was tried again")
			}
			same(t, "state", e.qp.State(), StateInit)
		})
	}
}

// A responder may not wait for us: FPDUs in the same segment as its Reply are
// taken.
func TestFPDUBehindTheReply(t *testing.T) {
	bubble(t, func(t *testing.T) {
		e := newEnd(t, openDevice(t, Config{EventLoops: 1}), QPConfig{})
		m := e.reg(64, allRights)
		e.post(1, m.SGE(0, 64))
		e.post(2, m.SGE(0, 64))
		l := listenRaw(t)
		done := connecting(t, e, l.addr(), ConnParams{Guard: 20 * time.Millisecond})
		p := l.accept()
		f := reply(true)
		p.opened(p.setup(), f)
		b := append(f.AppendTo(nil), p.frame(p.sendMessage([]byte("20")))...)
		second := p.frame(p.sendMessage([]byte("half")))
		p.write(append(b, second[:9]...))
		e.want(1, Success, OpReceive)
		p.write(second[9:])
		if c := e.want(2, Success, OpReceive); string(m.Bytes()[:c.Len]) != "half" {
			t.Errorf("got %q", m.Bytes()[:c.Len])
		}
		must(t, <-done)
	})
}

// The initiator of a peer-to-peer connection sends the RTR before all else, of a
// kind that both take, and the program does not see it.
func TestInitiatorSendsTheRTR(t *testing.T) {
	t.Parallel()
	all := mpa.RTRRead | mpa.RTRWrite | mpa.RTRSend
	tests := map[string]struct {
		offered, taken, prefer mpa.RTR
		ird                    uint16
		op                     rdmap.Op
		err                    error
	}{
		"read":             {taken: all, op: rdmap.OpReadRequest, ird: 4},
		"read without IRD": {taken: all, op: rdmap.OpWrite},
		"write":            {taken: mpa.RTRWrite | mpa.RTRSend, op: rdmap.OpWrite, ird: 4},
		"send":             {taken: mpa.RTRSend, op: rdmap.OpSend, ird: 4},
		"send, preferred":  {taken: all, prefer: mpa.RTRSend, op: rdmap.OpSend, ird: 4},
		"write, preferred": {taken: all, prefer: mpa.RTRWrite, op: rdmap.OpWrite, ird: 4},
		"none in common":   {offered: mpa.RTRRead | mpa.RTRWrite, taken: mpa.RTRSend, err: mpa.ErrRTR, ird: 4},
		"none at all":      {err: mpa.ErrRTR, ird: 4},
	}
	for name, test := range tests {
		inBubble(t, name, func(t *testing.T) {
			e, _, p, done := connectingRaw(t, Config{}, QPConfig{SignalAll: true}, ConnParams{PeerToPeer: true, RTR: test.offered, Prefer: test.prefer})
			req := p.setup()
			if pre, err := mpa.DecodePrefix(req.Private); err != nil || !pre.PeerToPeer || pre.RTR != cmp.Or(test.offered, all) {
				t.Fatalf("Request %+v, %v", pre, err)
			}
			f := reply(true)
			f.Private = (&mpa.Prefix{IRD: test.ird, ORD: 4, PeerToPeer: true, RTR: test.taken}).AppendTo(nil)
			p.opened(req, f)
			p.write(f.AppendTo(nil))
			if test.err != nil {
				p.terminate(rdmap.CauseMPARTR)
				if err := <-done; !errors.Is(err, test.err) {
					t.Fatalf("Connect: %v", err)
				}
				return
			}
			must(t, <-done)
			e.send(WorkRequest{ID: 1, Inline: []byte("after")}, WorkRequest{ID: 2, Op: OpSend})
			s := p.segment(test.op)
			msn := uint32(1)
			switch test.op {
			case rdmap.OpReadRequest:
				var r rdmap.ReadRequest
				if err := r.Decode(s.Payload); err != nil || r.Size != 0 {
					t.Errorf("RTR %+v, %v", r, err)
				}
				p.send(answer(s, nil))
			case rdmap.OpSend:
				msn = 2
				fallthrough
			default:
				if len(s.Payload) > 0 || !s.Last() {
					t.Errorf("RTR of %d octets", len(s.Payload))
				}
			}
			for range 2 {
				if s := p.segment(rdmap.OpSend); s.Untagged.MSN != msn {
					t.Errorf("MSN %d, want %d", s.Untagged.MSN, msn)
				}
				msn++
			}
			e.want(1, Success, OpSend)
			e.want(2, Success, OpSend)
			if list := e.rest(); len(list) > 0 {
				t.Errorf("the program sees the RTR: %+v", list)
			}
		})
	}
}

// Nothing leaves within the guard delay after the Reply.
func TestGuardDelay(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const guard = 60 * time.Millisecond
		_, _, p, done := connectingRaw(t, Config{}, QPConfig{}, ConnParams{Guard: guard, PeerToPeer: true})
		req, f := p.setup(), reply(true)
		f.Private = (&mpa.Prefix{IRD: 4, ORD: 4, PeerToPeer: true, RTR: mpa.RTRWrite}).AppendTo(nil)
		p.opened(req, f)
		begin := time.Now()
		p.write(f.AppendTo(nil))
		p.segment(rdmap.OpWrite)
		if took := time.Since(begin); took < guard {
			t.Errorf("the RTR came after %v", took)
		}
		must(t, <-done)
	})
}

// A peer that says nothing after our first FPDU is kicked three times, by empty
// Writes, and one that has said something never.
func TestKickWakesSilentPeer(t *testing.T) {
	bubble(t, func(t *testing.T) {
		for _, silent := range []bool{true, false} {
			e := newEnd(t, openDevice(t, Config{EventLoops: 1}), QPConfig{})
			p := rawResponder(t, e, reply(true), ConnParams{})
			want := 0
			if !silent {
				p.send(p.read(rdmap.ReadRequest{}))
				p.segment(rdmap.OpReadResponse)
			}
			begin := time.Now()
			e.send(WorkRequest{Inline: []byte("hello?")})
			p.segment(rdmap.OpSend)
			if silent {
				want = mpa.MaxKicks
				for range want {
					if s := p.segment(rdmap.OpWrite); len(s.Payload) > 0 || !s.Last() {
						t.Errorf("kicked by %+v", s)
					}
				}
				if took := time.Since(begin); took < time.Duration(want)*mpa.KickDelay {
					t.Errorf("%d kicks within %v", want, took)
				}
			}
			_ = p.conn.SetReadDeadline(time.Now().Add(mpa.KickDelay * 3 / 2))
			if u, err := p.next(); !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("after %d kicks: % x, %v", want, u, err)
			}
			if n := e.dev.Stats().Kicks; n != uint64(want) {
				t.Errorf("%d kicks counted, want %d", n, want)
			}
		}
	})
}

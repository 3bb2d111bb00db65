//go:build !live

package iwarp

import (
	"bytes"
	"context"
	"errors"
	"syscall"
	"testing"
	"time"

	"github.com/rds-go/rds/transport/iwarp/mpa"
	"github.com/rds-go/rds/transport/iwarp/rdmap"
)

// Requests that are none, or that may not be, get no Reply but the end of the
// connection (RFC 5044 section 7.1.2, RFC 6581 section 6).
func TestBadRequestIsNotAnswered(t *testing.T) {
	t.Parallel()
	good := request(true).AppendTo(nil)
	with := func(change func(b []byte) []byte) []byte { return change(bytes.Clone(good)) }
	revised := func(rev uint8) []byte {
		f := request(true)
		f.Rev = rev
		return f.AppendTo(nil)
	}
	long := request(true)
	long.Private = make([]byte, mpa.MaxPrivate)
	tests := []struct {
		name  string
		bytes []byte
		slow  bool // the end comes by the timer
	}{
		{"1 silence", nil, true},
		{"2 half a key", good[:8], true},
		{"2 a key and no more", good[:16], true},
		{"3 another key", with(func(b []byte) []byte { b[0] = 'm'; return b }), false},
		{"3 another protocol", []byte("GET / HTTP/1.1\r\n\r\n"), false},
		{"4 a Reply", reply(true).AppendTo(nil), false},
		{"5 revision 3", revised(3), false},
		{"5 revision 255", revised(255), false},
		{"10 513 octets of private data", with(func(b []byte) []byte { b[18], b[19] = 2, 1; return append(b, make([]byte, 509)...) }), false},
		{"11 half of the private data", with(func(b []byte) []byte { b[19] = 8; return b }), true},
		{"12 one octet more", append(bytes.Clone(good), 0), false},
		{"12 an FPDU behind", append(bytes.Clone(good), mpa.AppendFPDU(nil, emptyWrite(), true)...), false},
	}
	for _, test := range tests {
		for _, slow := range []bool{false, true} {
			name := test.name
			if slow {
				name += ", octet by octet"
			}
			if slow && test.name[:2] == "12" {
				continue // by then the program may have accepted
			}
			inBubble(t, name, func(t *testing.T) {
				const patience = 100 * time.Millisecond
				e := newEnd(t, openDevice(t, Config{EventLoops: 1, RequestTimeout: patience}), QPConfig{})
				ln := listen(t, e.dev)
				begin := time.Now()
				p := dialRaw(t, ln.Addr())
				p.slow = slow
				p.write(test.bytes)
				p.gone()
				if took := time.Since(begin); test.slow && took < patience {
					t.Errorf("closed after %v already", took)
				}
				if test.name[:2] != "12" {
					return
				}
				// It was whole, so a program may have taken it: too late.
				ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
				defer cancel()
				if in, err := ln.Accept(ctx); err == nil {
					t.Errorf("%+v was handed out", in.Request)
				}
			})
		}
	}
}

// What a responder says to Requests that it takes, or refuses with a Reply. All rows of the
// decision are in the table of package mpa.
func TestReplyFitsTheRequest(t *testing.T) {
	t.Parallel()
	prefix := func(p mpa.Prefix) []byte { return p.AppendTo(nil) }
	peer := func(r mpa.RTR) mpa.Prefix { return mpa.Prefix{IRD: 16, ORD: 16, PeerToPeer: true, RTR: r} }
	plain := mpa.Prefix{IRD: 16, ORD: 16}
	tests := []struct {
		name  string
		frame mpa.Frame
		flags byte // set in the Request beyond the frame's
		sp    ConnParams
		want  mpa.Frame
		err   error // result of Accept
		early bool  // refused before the program is asked
	}{
		{name: "7 revision 1", frame: mpa.Frame{Rev: 1, Private: []byte("hello")}, sp: ConnParams{NoCRC: true},
			want: mpa.Frame{Rev: 1}},
		{name: "7 revision 1 with CRC", frame: mpa.Frame{Rev: 1, CRC: true}, sp: ConnParams{NoCRC: true, Private: []byte("hello")},
			want: mpa.Frame{Rev: 1, CRC: true, Private: []byte("hello")}},
		{name: "9 no prefix", frame: mpa.Frame{Rev: 2, Enhanced: true}, early: true,
			want: mpa.Frame{Rev: 2, Enhanced: true, Reject: true, Private: prefix(mpa.Prefix{})}},
		{name: "13 markers", frame: mpa.Frame{Rev: 2, Enhanced: true, Markers: true, Private: prefix(plain)},
			want: mpa.Frame{Rev: 2, Enhanced: true, CRC: true, Private: prefix(plain)}},
		{name: "14 R and reserved bits", frame: mpa.Frame{Rev: 2, Enhanced: true, Private: prefix(plain)}, flags: 0x2f,
			want: mpa.Frame{Rev: 2, Enhanced: true, CRC: true, Private: prefix(plain)}},
		{name: "15 peer to peer without an RTR", frame: mpa.Frame{Rev: 2, Enhanced: true, Private: prefix(peer(0))},
			want: mpa.Frame{Rev: 2, Enhanced: true, CRC: true, Private: prefix(peer(mpa.RTRRead | mpa.RTRWrite | mpa.RTRSend))}},
		{name: "17 nothing negotiated", frame: mpa.Frame{Rev: 2, Enhanced: true, Private: prefix(mpa.Prefix{IRD: mpa.NotNegotiated, ORD: mpa.NotNegotiated})},
			want: mpa.Frame{Rev: 2, Enhanced: true, CRC: true, Private: prefix(mpa.Prefix{IRD: mpa.NotNegotiated, ORD: mpa.NotNegotiated})}},
		{name: "ORD above ours", frame: mpa.Frame{Rev: 2, Enhanced: true, Private: prefix(mpa.Prefix{IRD: 2, ORD: 100})},
			want: mpa.Frame{Rev: 2, Enhanced: true, CRC: true, Private: prefix(mpa.Prefix{IRD: 100, ORD: 2})}},
		{name: "ORD above our limit", frame: mpa.Frame{Rev: 2, Enhanced: true, Private: prefix(mpa.Prefix{IRD: 16, ORD: 129})}, err: mpa.ErrDepth,
			want: mpa.Frame{Rev: 2, Enhanced: true, Reject: true, Private: prefix(mpa.Prefix{IRD: 128, ORD: 16})}},
		{name: "we ask for markers", frame: mpa.Frame{Rev: 2, Enhanced: true, Private: prefix(plain)}, sp: ConnParams{Markers: true},
			want: mpa.Frame{Rev: 2, Enhanced: true, CRC: true, Markers: true, Private: prefix(plain)}},
	}
	for _, test := range tests {
		for _, slow := range []bool{false, true} {
			name := test.name
			if slow {
				name += ", octet by octet" // number 18
			}
			inBubble(t, name, func(t *testing.T) {
				e := newEnd(t, openDevice(t, Config{EventLoops: 1}), QPConfig{})
				to, done := accepting(t, e, test.sp)
				p := dialRaw(t, to)
				p.slow = slow
				b := test.frame.AppendTo(nil)
				b[16] |= test.flags
				p.write(b)
				got := p.setup()
				want := test.want
				want.Reply = true
				if test.early {
					got.Private, want.Private = got.Private[:4], got.Private[:4] // the limits of the device
				}
				if g, w := got.AppendTo(nil), want.AppendTo(nil); !bytes.Equal(g, w) {
					t.Fatalf("Reply % x, want % x", g, w)
				}
				if want.Reject {
					p.gone()
				}
				switch {
				case test.early:
					return
				case want.Enhanced && want.Private[0]&0x80 != 0:
					p.opened(got, &test.frame)
					p.send(emptyWrite())
				}
				if err := <-done; !errors.Is(err, test.err) {
					t.Fatalf("Accept: %v", err)
				}
				if test.err == nil && e.est.Rev != test.frame.Rev {
					t.Fatalf("established: %+v", e.est)
				}
			})
		}
	}
}

// The program of the responder refuses, with its reason, to both kinds of peers.
func TestRejectCarriesTheReason(t *testing.T) {
	bubble(t, func(t *testing.T) {
		for _, f := range []*mpa.Frame{request(true), {Rev: 1}} {
			e := newEnd(t, openDevice(t, Config{EventLoops: 1}), QPConfig{})
			ln := listen(t, e.dev)
			p := dialRaw(t, ln.Addr())
			f.Private = append(f.Private, "please"...)
			p.write(f.AppendTo(nil))
			in, err := ln.Accept(within(t))
			must(t, err)
			if string(in.Private) != "please" {
				t.Errorf("private data of the Request: %q", in.Private)
			}
			wantErr(t, "257 octets of reason", in.Reject(make([]byte, 257)), mpa.ErrPrivate)
			must(t, in.Reject([]byte("no room")))
			got := p.setup()
			reason := got.Private
			if f.Enhanced {
				reason = reason[mpa.PrefixLen:]
			}
			if !got.Reject || got.Enhanced != f.Enhanced || string(reason) != "no room" {
				t.Errorf("Reply %+v", got)
			}
			p.closed()
			if _, err := in.Accept(within(t), e.qp, ConnParams{}); !errors.Is(err, ErrClosed) {
				t.Errorf("Accept after Reject: %v", err)
			}
			same(t, "state", e.qp.State(), StateInit)
		}
	})
}

// A responder that gets no RTR gives up.
func TestRTRTimeout(t *testing.T) {
	bubble(t, func(t *testing.T) {
		prefix := mpa.Prefix{IRD: 1, ORD: 1, PeerToPeer: true, RTR: mpa.RTRRead}
		e := newEnd(t, openDevice(t, Config{EventLoops: 1, RTRTimeout: 50 * time.Millisecond}), QPConfig{})
		to, done := accepting(t, e, ConnParams{})
		p := dialRaw(t, to)
		p.write((&mpa.Frame{Rev: 2, Enhanced: true, Private: prefix.AppendTo(nil)}).AppendTo(nil))
		p.setup()
		wantErr(t, "Accept", <-done, syscall.ETIMEDOUT)
		p.gone()
		wantErr(t, "the queue pair", e.ended(), syscall.ETIMEDOUT)
	})
}

// Work that a responder has posted waits for the peer's first FPDU (RFC 5044
// section 7.1.2).
func TestResponderWaitsForTheFirstFPDU(t *testing.T) {
	bubble(t, func(t *testing.T) {
		e := newEnd(t, openDevice(t, Config{EventLoops: 1}), QPConfig{})
		p := rawInitiator(t, e, request(true), ConnParams{})
		e.send(WorkRequest{ID: 1, Flags: Signaled, Inline: []byte("early")})
		_ = p.conn.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
		if u, err := p.next(); err == nil {
			t.Fatalf("% x came before our first FPDU", u)
		}
		same(t, "state", e.qp.State(), StateRTR)
		_ = p.conn.SetReadDeadline(time.Now().Add(30 * time.Second))
		p.send(emptyWrite())
		p.segment(rdmap.OpSend)
		e.want(1, Success, OpSend)
	})
}

package iwarp

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/netip"
	"syscall"
	"testing"
	"time"

	"github.com/rds-go/rds/internal/memnet"
	"github.com/rds-go/rds/transport/iwarp/ddp"
	"github.com/rds-go/rds/transport/iwarp/mpa"
	"github.com/rds-go/rds/transport/iwarp/rdmap"
)

// raw is a peer that can do everything wrong: a TCP connection, and the frames
// that a test says. It reads with a parser that is not the engine's.
type raw struct {
	t       testing.TB
	conn    rawConn
	crc     bool
	slow    bool              // the peer sends octet by octet, of long frames the beginning
	markers *mpa.MarkerWriter // what it sends has them
	parser  mpa.Parser
	got     [][]byte // ULPDUs that were read and not taken
	msn     [rdmap.Queues]uint32
}

// rawConn is a connection of TCP, or one in memory.
type rawConn interface {
	net.Conn
	CloseWrite() error
	SetLinger(sec int) error
	SetReadBuffer(bytes int) error
}

// dialTCP and listenTCP are for raw peers of tests that are in no bubble: the live ones.
var (
	dialTCP   func(to netip.AddrPort) (rawConn, error)
	listenTCP func() (net.Listener, error)
)

func newRaw(t testing.TB, conn net.Conn) *raw {
	t.Helper()
	p := &raw{t: t, conn: conn.(rawConn)}
	_ = p.conn.SetDeadline(time.Now().Add(30 * time.Second))
	t.Cleanup(func() { _ = p.conn.Close() })
	return p
}

func dialRaw(t testing.TB, to netip.AddrPort) *raw {
	t.Helper()
	var c rawConn
	var err error
	if n := memnet.Of(t); n != nil {
		c, err = n.Dial(netip.AddrPortFrom(loopback, 0), to)
	} else {
		c, err = dialTCP(to)
	}
	must(t, err)
	return newRaw(t, c)
}

// rawListener is where our side connects to a raw responder.
type rawListener struct {
	t  testing.TB
	ln net.Listener
}

func listenRaw(t testing.TB) *rawListener {
	t.Helper()
	var ln net.Listener
	var err error
	if n := memnet.Of(t); n != nil {
		ln, err = n.Listen(netip.AddrPortFrom(loopback, 0))
	} else {
		ln, err = listenTCP()
	}
	must(t, err)
	t.Cleanup(func() { _ = ln.Close() })
	return &rawListener{t, ln}
}

func (l *rawListener) addr() netip.AddrPort { return l.ln.Addr().(*net.TCPAddr).AddrPort() }

func (l *rawListener) accept() *raw {
	l.t.Helper()
	c, err := l.ln.Accept()
	must(l.t, err)
	return newRaw(l.t, c)
}

// write sends octets as they are. A peer that has hung up is for what is read
// later to tell.
func (p *raw) write(b []byte) {
	p.t.Helper()
	if p.slow {
		for i := 0; i < 128 && len(b) > 1; i++ {
			if _, err := p.conn.Write(b[:1]); err != nil {
				break // and so does the last
			}
			b = b[1:]
		}
	}
	if _, err := p.conn.Write(b); err != nil && !errors.Is(err, syscall.ECONNRESET) && !errors.Is(err, syscall.EPIPE) {
		p.t.Fatal(err)
	}
}

// frame makes the FPDU of a ULPDU.
func (p *raw) frame(ulpdu []byte) []byte {
	if p.markers != nil {
		return p.markers.Append(nil, mpa.AppendContent(nil, ulpdu), p.crc)
	}
	return mpa.AppendFPDU(nil, ulpdu, p.crc)
}

func (p *raw) send(ulpdus ...[]byte) {
	p.t.Helper()
	for _, u := range ulpdus {
		p.write(p.frame(u))
	}
}

// setup reads the set-up frame of the other side.
func (p *raw) setup() mpa.Frame {
	p.t.Helper()
	b := make([]byte, mpa.FrameLen)
	if _, err := io.ReadFull(p.conn, b); err != nil {
		p.t.Fatalf("no set-up frame: %v", err)
	}
	b = append(b, make([]byte, binary.BigEndian.Uint16(b[18:]))...)
	if _, err := io.ReadFull(p.conn, b[mpa.FrameLen:]); err != nil {
		p.t.Fatalf("no private data: %v", err)
	}
	f, _, err := mpa.DecodeFrame(b, mpa.MaxPrivate)
	must(p.t, err)
	if b[16]&0x0f != 0 {
		p.t.Fatalf("reserved bits of the flags %02x are set", b[16])
	}
	return f
}

// next is the next ULPDU, or how the connection ended.
func (p *raw) next() ([]byte, error) {
	b := make([]byte, 64<<10)
	for len(p.got) == 0 {
		n, err := p.conn.Read(b)
		if e := p.parser.Feed(b[:n], func(u []byte) error {
			p.got = append(p.got, append([]byte(nil), u...))
			return nil
		}); e != nil {
			p.t.Fatalf("a bad FPDU came: %v", e)
		}
		if err == io.EOF && p.parser.Partial() {
			err = io.ErrUnexpectedEOF
		}
		if err != nil && len(p.got) == 0 {
			return nil, err
		}
	}
	u := p.got[0]
	p.got = p.got[1:]
	return u, nil
}

// segment is the next segment, which must be of this kind.
func (p *raw) segment(op rdmap.Op) rdmap.Segment {
	p.t.Helper()
	u, err := p.next()
	if err != nil {
		p.t.Fatalf("no %v but %v", op, err)
	}
	var s rdmap.Segment
	must(p.t, s.Parse(u, rdmap.OpsRFC5040|rdmap.OpsRFC7306))
	if s.Op != op {
		p.t.Fatalf("%v instead of %v (payload %x)", s.Op, op, s.Payload)
	}
	return s
}

// terminate reads up to the Terminate, which must have this cause and be the
// last that comes.
func (p *raw) terminate(cause rdmap.Cause) rdmap.Terminate {
	p.t.Helper()
	for {
		u, err := p.next()
		if err != nil {
			p.t.Fatalf("no Terminate but %v", err)
		}
		var s rdmap.Segment
		must(p.t, s.Parse(u, rdmap.OpsRFC5040|rdmap.OpsRFC7306))
		if s.Op != rdmap.OpTerminate {
			continue
		}
		if s.Untagged != rdmap.TerminateHeader() {
			p.t.Fatalf("header of the Terminate: %+v", s.Untagged)
		}
		var d rdmap.Terminate
		if err := d.Decode(s.Payload, rdmap.Hints{}); err != nil || d.SIW {
			p.t.Fatalf("Terminate %x: %v", s.Payload, err)
		}
		if d.Cause != cause {
			p.t.Fatalf("Terminate says %v, want %v", d.Cause, cause)
		}
		p.closed()
		return d
	}
}

// closed expects the end of the stream and nothing before.
func (p *raw) closed() {
	p.t.Helper()
	if u, err := p.next(); err == nil {
		p.t.Fatalf("% x came instead of the end", u)
	} else if err != io.EOF {
		p.t.Fatalf("ended by %v", err)
	}
}

// gone expects the end of the connection, gently or by a reset.
func (p *raw) gone() {
	p.t.Helper()
	for {
		_, err := p.next()
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) {
			return
		}
		must(p.t, err)
	}
}

// abort resets the connection.
func (p *raw) abort() {
	_ = p.conn.SetLinger(0)
	_ = p.conn.Close()
}

// The segments a peer sends, right unless a test changes them.

func (p *raw) nextMSN(qn uint32) uint32 {
	p.msn[qn]++
	return p.msn[qn]
}

func untagged(op rdmap.Op, qn, msn, mo uint32, last bool, payload []byte) []byte {
	h := ddp.Untagged{Last: last, ULP: op.Control(), QN: qn, MSN: msn, MO: mo}
	return append(h.AppendTo(nil), payload...)
}

func tagged(op rdmap.Op, stag uint32, to uint64, last bool, payload []byte) []byte {
	h := ddp.Tagged{Last: last, ULP: op.Control(), STag: stag, TO: to}
	return append(h.AppendTo(nil), payload...)
}

func write(stag uint32, to uint64, payload []byte) []byte {
	return tagged(rdmap.OpWrite, stag, to, true, payload)
}

// sendMessage is a whole Send.
func (p *raw) sendMessage(payload []byte) []byte {
	return untagged(rdmap.OpSend, rdmap.QueueSend, p.nextMSN(rdmap.QueueSend), 0, true, payload)
}

func (p *raw) read(r rdmap.ReadRequest) []byte {
	return untagged(rdmap.OpReadRequest, rdmap.QueueRequest, p.nextMSN(rdmap.QueueRequest), 0, true, r.AppendTo(nil))
}

// answer makes the whole response to a Read Request.
func answer(s rdmap.Segment, payload []byte) []byte {
	var r rdmap.ReadRequest
	if r.Decode(s.Payload) != nil {
		panic("not a Read Request")
	}
	return tagged(rdmap.OpReadResponse, r.SinkSTag, r.SinkTO, true, payload)
}

// request is what a raw initiator asks for by default.
func request(crc bool) *mpa.Frame {
	prefix := mpa.Prefix{IRD: 16, ORD: 16}
	return &mpa.Frame{CRC: crc, Enhanced: true, Rev: 2, Private: prefix.AppendTo(nil)}
}

// reply is what a raw responder answers by default.
func reply(crc bool) *mpa.Frame {
	f := request(crc)
	f.Reply = true
	return f
}

// rawInitiator makes a connection whose accepting side is e.
func rawInitiator(t testing.TB, e *end, f *mpa.Frame, sp ConnParams) *raw {
	t.Helper()
	ctx := within(t)
	ln := listen(t, e.dev)
	defer ln.Close()
	p := dialRaw(t, ln.Addr())
	p.write(f.AppendTo(nil))
	in, err := ln.Accept(ctx)
	must(t, err)
	e.est, err = in.Accept(ctx, e.qp, sp)
	must(t, err)
	p.opened(p.setup(), f)
	return p
}

// opened settles what the frames of both sides have said.
func (p *raw) opened(theirs mpa.Frame, ours *mpa.Frame) {
	p.crc = theirs.CRC || ours.CRC
	p.parser.CRC = p.crc
	p.parser.Markers = ours.Markers
	if theirs.Markers {
		p.markers = new(mpa.MarkerWriter)
	}
}

// rawResponder makes a connection whose connecting side is e.
func rawResponder(t testing.TB, e *end, f *mpa.Frame, cp ConnParams) *raw {
	t.Helper()
	l := listenRaw(t)
	done := connecting(t, e, l.addr(), cp)
	p := l.accept()
	req := p.setup()
	p.write(f.AppendTo(nil))
	p.opened(req, f)
	must(t, <-done)
	return p
}

// connectingRaw has an end of its own connect to a raw responder, whose set-up is the test's.
func connectingRaw(t testing.TB, cfg Config, q QPConfig, cp ConnParams) (*end, *rawListener, *raw, <-chan error) {
	t.Helper()
	cfg.EventLoops = 1
	e, l := newEnd(t, openDevice(t, cfg), q), listenRaw(t)
	done := connecting(t, e, l.addr(), cp)
	return e, l, l.accept(), done
}

// connecting has e connect.
func connecting(t testing.TB, e *end, to netip.AddrPort, cp ConnParams) <-chan error {
	ctx := within(t)
	done := make(chan error, 1)
	go func() {
		var err error
		e.est, err = e.dev.Connect(ctx, e.qp, to, cp)
		done <- err
	}()
	return done
}

// openRaw opens a stream between e and a raw peer in both roles alike.
func openRaw(t testing.TB, e *end, initiator, crc bool) *raw {
	t.Helper()
	terms := ConnParams{NoCRC: !crc, Guard: -1}
	if initiator {
		return rawInitiator(t, e, request(crc), terms)
	}
	return rawResponder(t, e, reply(crc), terms)
}

// rawStream is how the stream of a raw peer is framed.
type rawStream struct {
	name               string
	initiator          bool // the raw peer is
	crc, markers, slow bool
}

// streams are the ways in which a receiver takes a stream apart.
var streams = []rawStream{
	{name: "crc", initiator: true, crc: true},
	{name: "crc, our side connects", crc: true},
	{name: "no crc", initiator: true},
	{name: "no crc, our side connects"},
	{name: "markers", initiator: true, crc: true, markers: true},
	{name: "markers, no crc", initiator: true, markers: true},
	{name: "octet by octet", initiator: true, crc: true, slow: true},
	{name: "octet by octet, no crc", initiator: true, slow: true},
}

func openStream(t testing.TB, e *end, s rawStream) *raw {
	t.Helper()
	terms := ConnParams{NoCRC: !s.crc, Guard: -1, Markers: s.markers}
	var p *raw
	if s.initiator {
		p = rawInitiator(t, e, request(s.crc), terms)
	} else {
		p = rawResponder(t, e, reply(s.crc), terms)
	}
	p.slow = s.slow
	return p
}

// ended waits for the end of the queue pair.
func (e *end) ended() error {
	e.t.Helper()
	ctx := within(e.t)
	select {
	case <-e.qp.Done():
	case <-ctx.Done():
		e.t.Fatalf("the queue pair has not ended (%v)", e.qp.State())
	}
	return e.qp.Err()
}

// rest is everything that is left in the completion queue of a queue pair that
// has ended.
func (e *end) rest() []Completion {
	list := make([]Completion, 4096)
	return list[:e.cq.Poll(list)]
}

//go:build live

package daemon

import (
	"math"
	"net/netip"
	"os"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rds-go/rds/conn"
	"github.com/rds-go/rds/internal/ipc"
	"github.com/rds-go/rds/internal/rdstest"
	"github.com/rds-go/rds/internal/socket"
	"github.com/rds-go/rds/rds/config"
)

// attack is one thing a correct application does not do.
type attack struct {
	name string
	ends bool // the session, by force
	run  func(s *siege, e *evil)
}

// entry is an attack of one submission, made of a correct one to the sink.
func entry(name string, change func(s *siege, e *evil, x *ipc.Entry)) attack {
	return attack{name, true, func(s *siege, e *evil) {
		x := e.good(s)
		change(s, e, &x)
		e.submit(x)
	}}
}

// good is a submission that is in order.
func (e *evil) good(s *siege) ipc.Entry {
	e.Helper()
	id, _ := e.bind(rdstest.AddrOf(s.here, 0))
	to := s.sink.LocalAddrPort()
	return ipc.MakeEntry(ipc.OpSend, 0, to.Port(), id, e.resolve(s.here, to.Addr()), 8, 0, 0, 7)
}

// self is a submission to the evil one's own socket, of which it claims that it has
// taken everything: else the port would be congested, and messages to it held back.
func (e *evil) self(s *siege, op ipc.Op, flags uint8, n uint32) ipc.Entry {
	e.Helper()
	id, port := e.bind(rdstest.AddrOf(s.here, 0))
	cell := rawCells + 256*int(id&0xffff)
	e.word(cell + 0x80).Store(1 << 62)
	e.word(cell + 0x88).Store(1 << 62)
	return ipc.MakeEntry(op, flags, port, id, e.resolve(s.here, s.here), n, 0, 0, 7)
}

func with(word int, shift uint, v uint64, bits uint) func(*siege, *evil, *ipc.Entry) {
	return func(_ *siege, _ *evil, x *ipc.Entry) {
		x[word] = x[word]&^((1<<bits-1)<<shift) | v<<shift
	}
}

func withOp(v ipc.Op) func(*siege, *evil, *ipc.Entry) { return with(0, 0, uint64(v), 8) }

func withLength(op ipc.Op, offset, n uint64) func(*siege, *evil, *ipc.Entry) {
	return func(_ *siege, _ *evil, x *ipc.Entry) {
		*x = ipc.MakeEntry(op, 0, x.Port(), x.Socket(), x.Peer(), uint32(n), uint32(offset), 0, 0)
	}
}

// many submits an entry n times, as room comes, until the daemon leaves them where they
// are: the session is over its budget and remains so.
func (s *siege) many(e *evil, x ipc.Entry, n int) {
	s.Helper()
	room := func() bool { f, _ := e.sq.Free(1); return f > 0 }
	left := func() bool { x := s.session(e); return x == nil || x.overBudget.Load() }
	xs := make([]ipc.Entry, 256)
	for i := range xs {
		xs[i] = x
	}
	for n > 0 {
		k := e.submit(xs[:min(n, len(xs))]...)
		if n -= k; k > 0 {
			continue
		}
		rdstest.Eventually(s, "submissions to be taken, or left", func() bool { return room() || left() })
		if !rdstest.Holds(500*time.Millisecond, room) && left() {
			return
		}
	}
}

// arrived waits until n completions are on the ring.
func (e *evil) arrived(n uint64) {
	e.Helper()
	rdstest.Eventually(e, "completions", func() bool { return e.word(rawCQTail).Load() >= n })
}

var attacks = []attack{
	{name: "nothing", run: func(s *siege, e *evil) { e.submit(e.good(s)) }},

	// Submissions.
	entry("op 0", withOp(0)),
	entry("op 6", withOp(6)),
	entry("a completion", withOp(ipc.OpMessage)),
	entry("op 255", withOp(255)),
	entry("socket never bound", with(0, 32, 60, 32)),
	entry("socket beyond all", with(0, 32, math.MaxUint32, 32)),
	entry("peer that is none", with(1, 0, 500, 32)),
	entry("peer beyond all", with(1, 0, math.MaxUint32, 32)),
	entry("peer of another address", func(s *siege, e *evil, x *ipc.Entry) {
		other := s.sink.LocalAddrPort().Addr().Next()
		e.bind(rdstest.AddrOf(other, 0))
		with(1, 0, uint64(e.resolve(other, s.away)), 32)(s, e, x)
	}),
	entry("small one too long", withLength(ipc.OpSend, 0, conn.InlineMax+1)),
	entry("small one beyond the ring", withLength(ipc.OpSend, dataRing-7, 8)),
	entry("small one far beyond", withLength(ipc.OpSend, math.MaxUint32, 8)),
	entry("large one too long", withLength(ipc.OpSendBlock, 0, config.MaxMessage+1)),
	entry("longest of all", withLength(ipc.OpSendBlock, math.MaxUint32, math.MaxUint32)),
	entry("large one beyond the arena", withLength(ipc.OpSendBlock, 4096, 1<<20-4095)),
	entry("return of nothing", withLength(ipc.OpReturn, 0, 0)),
	entry("return of no block", func(_ *siege, _ *evil, x *ipc.Entry) { *x = ipc.MakeEntry(ipc.OpReturn, 0, 0, 0, 0, 0, 12345, 0, 1) }),
	{"return too many", true, func(s *siege, e *evil) { e.giveBack(s, math.MaxUint64) }},
	{"return one too many", true, func(s *siege, e *evil) { e.giveBack(s, 2) }},
	{"return no message", true, func(s *siege, e *evil) { e.giveBack(s, 0) }},
	{"return twice", true, func(s *siege, e *evil) { e.giveBack(s, 1, 1) }},
	{"blocks lent twice", true, func(s *siege, e *evil) {
		s.many(e, e.self(s, ipc.OpSendBlock, 0, 8), 3*ringEntries)
	}},
	{"blocks of a closed socket", true, func(s *siege, e *evil) {
		x := e.self(s, ipc.OpSendBlock, 0, 8)
		e.ask(ipc.Request{Op: ipc.CallClose, Socket: x.Socket()})
		s.many(e, x, 3*ringEntries)
	}},
	{"socket that was closed", false, func(s *siege, e *evil) {
		x := e.good(s)
		e.ask(ipc.Request{Op: ipc.CallClose, Socket: x.Socket()})
		s.many(e, x, 2*ringEntries)
	}},

	// Indices.
	{"tail ahead", true, func(_ *siege, e *evil) { e.word(rawSQTail).Store(ringEntries + 1); e.ring() }},
	{"tail at the end of numbers", true, func(_ *siege, e *evil) { e.word(rawSQTail).Store(math.MaxUint64); e.ring() }},
	{"tail runs back", true, func(s *siege, e *evil) {
		x := e.good(s)
		e.submit(x, x, x, x)
		rdstest.Eventually(e, "submissions to be taken", func() bool { f, _ := e.sq.Free(ringEntries); return f == ringEntries })
		e.word(rawSQTail).Store(2)
		e.ring()
	}},
	{"head ahead", true, func(s *siege, e *evil) {
		e.word(rawCQHead).Store(1 << 40)
		s.many(e, e.self(s, ipc.OpSend, 0, 0), 2*ringEntries)
	}},
	{"head runs back", true, func(s *siege, e *evil) {
		x := e.self(s, ipc.OpSend, 0, 0)
		s.many(e, x, ringEntries)
		e.arrived(ringEntries)
		e.word(rawCQHead).Store(100)
		s.many(e, x, 200)
		e.arrived(ringEntries + 100)
		e.word(rawCQHead).Store(50)
		e.ring()
	}},

	// Memory that changes, cells that lie.
	{"cells lie", false, func(s *siege, e *evil) {
		x := e.self(s, ipc.OpSend, ipc.FlagNotify, 600)
		cell := rawCells + 256*int(x.Socket()&0xffff)
		for i := range uint64(64) {
			e.word(cell + 0x80).Store(1<<63 + i)
			e.word(cell + 0x88).Store(math.MaxUint64 - i)
			e.flag(cell + 0xc0).Store(7)
			e.flag(rawWantSQ).Store(math.MaxUint32)
			e.flag(rawWantMaps).Store(1 << 31)
			s.many(e, x, 64)
			e.word(cell + 0x80).Store(i) // and back
			e.word(cell + 0x00).Store(i) // which is the daemon's
			e.word(rawCQHead).Store(e.word(rawCQTail).Load())
			e.ring()
		}
	}},
	{"the first page changes", false, func(s *siege, e *evil) {
		for off := 0; off < 0x38; off += 8 {
			e.word(off).Store(math.MaxUint64)
		}
		e.submit(e.good(s))
	}},
	{"payloads change on the way", false, func(s *siege, e *evil) {
		small, large := e.good(s), e.good(s)
		withLength(ipc.OpSend, 0, conn.InlineMax)(s, e, &small)
		withLength(ipc.OpSendBlock, 0, 64<<10)(s, e, &large)
		resets := rdstest.Counter(s, s.node, "conn_reset")
		stop, done := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(done)
			data, arena := e.seg.DataArea(), e.seg.SendArea()
			for i := byte(0); ; i++ {
				select {
				case <-stop:
					return
				default:
					for k := 0; k < conn.InlineMax; k += 61 {
						data[k], arena[k], arena[64<<10-1-k] = i, i, ^i
					}
				}
			}
		}()
		for range 100 {
			e.submit(small, large)
			e.drain(s)
		}
		close(stop)
		<-done
		rdstest.WantCounter(s, s.node, "conn_reset", resets)
	}},

	// Too much of everything.
	{"bell storm", false, func(s *siege, e *evil) {
		from := s.rounds.Load()
		for range 200000 {
			e.ring()
		}
		s.Logf("%d rounds of the good application meanwhile", s.rounds.Load()-from)
	}},
	{"completions never taken", false, func(s *siege, e *evil) {
		x := e.self(s, ipc.OpSend, 0, 0)
		cell := rawCells + 256*int(x.Socket()&0xffff)
		for range 20 {
			e.flag(cell + 0xc0).Store(1)
			s.many(e, x, 1024)
		}
		out := &s.session(e).out
		out.mu.Lock()
		defer out.mu.Unlock()
		if n := len(out.events) + len(out.frees) + len(out.waiting); n > 8 {
			s.Errorf("%d things wait for the ring", n)
		}
	}},
	{"fates never read", false, func(s *siege, e *evil) {
		good := e.good(s)
		s.many(e, ipc.MakeEntry(ipc.OpSend, ipc.FlagNotify, good.Port(), good.Socket(), good.Peer(), 0, 0, 0, 7), 3*socket.MaxFates)
		x := s.session(e)
		x.mu.Lock()
		fates := &x.sockets[0].s.Fates.N
		x.mu.Unlock()
		rdstest.Eventually(s, "fates", func() bool { return fates.Load() >= socket.MaxFates/2 })
		if n := fates.Load(); n > socket.MaxFates+socket.MaxFates/4 {
			s.Errorf("%d fates wait", n)
		}
	}},
	{"memory never returned", false, func(s *siege, e *evil) {
		id, _ := e.bind(rdstest.AddrOf(s.here, 4711))
		for range 100 {
			if err := s.sink.TrySend(rdstest.AddrOf(s.here, 4711), make([]byte, 40<<10)); err != nil {
				break
			}
		}
		_ = id
	}},
	{"all sockets", false, func(s *siege, e *evil) {
		for range siegeSockets {
			e.bind(rdstest.AddrOf(s.here, 0))
		}
		if r := e.ask(ipc.Request{Op: ipc.CallBind, Addr: rdstest.AddrOf(s.here, 0)}); r.Error == "" {
			s.Error("one more than allowed")
		}
		c := dialed(s, s.path)
		_ = bound(s, c, rdstest.AddrOf(s.here, 0)).Close()
		_ = c.Close()
	}},
	{"sockets that linger for ever", false, func(s *siege, e *evil) {
		nobody := s.here.Prev().Prev()
		for range siegeSockets {
			id, _ := e.bind(rdstest.AddrOf(s.here, 0))
			e.submit(ipc.MakeEntry(ipc.OpSend, 0, 9, id, e.resolve(s.here, nobody), 8, 0, 0, 0))
			rdstest.Must(s, e.conn.Send(&ipc.Request{Op: ipc.CallClose, Socket: id, Linger: math.MaxInt64}))
		}
		if r := e.ask(ipc.Request{Op: ipc.CallBind, Addr: rdstest.AddrOf(s.here, 0)}); r.Error == "" {
			s.Error("sockets that linger do not count")
		}
	}},
	{"sessions without end", false, func(s *siege, e *evil) {
		var more []*evil
		refused := 0
		for range 40 {
			sock, c := knock(s, s.path)
			_ = c.Send(&ipc.Hello{Protocol: ipc.Protocol, Version: ipc.Version})
			var w ipc.Welcome
			if files, err := c.ReceiveFiles(&w, ipc.WelcomeFiles); err != nil {
				s.Error(err)
			} else if ipc.CloseFiles(files); w.Error != "" {
				refused++
			}
			more = append(more, &evil{sock: sock})
		}
		if refused != 40-10 { // 12 are allowed
			s.Errorf("%d refused", refused)
		}
		for _, m := range more {
			_ = m.sock.Close()
		}
	}},
	{"half a handshake", false, func(s *siege, e *evil) {
		socks := make([]interface{ Close() error }, 0, 400)
		for range cap(socks) {
			sock, _ := knock(s, s.path)
			socks = append(socks, sock)
		}
		start := time.Now()
		c := dialed(s, s.path)
		if d := time.Since(start); d > 8*openTimeout { // one after the other, those that say nothing take 64 at least
			s.Errorf("a good application attached after %v", d)
		}
		_ = c.Close()
		for _, k := range socks {
			_ = k.Close()
		}
	}},
	{"descriptors in excess", false, func(s *siege, e *evil) {
		f, err := os.Open(os.DevNull)
		rdstest.Must(s, err)
		defer f.Close()
		before := fds(s)
		var many [100]*os.File
		for i := range many {
			many[i] = f
		}
		for range 50 {
			rdstest.Must(s, e.conn.Send(&ipc.Request{ID: 99, Op: ipc.CallConnect}, many[:]...))
			_ = unix.Sendmsg(int(e.bell.Fd()), []byte{1}, unix.UnixRights(int(f.Fd()), int(f.Fd())), nil, unix.MSG_DONTWAIT)
		}
		e.ask(ipc.Request{Op: ipc.CallResolve, Local: s.here, Remote: s.away})
		if n := fds(s); n > before {
			s.Errorf("PROMISE: %d descriptors, %d before", n, before)
		}
	}},
	{"no JSON", true, func(_ *siege, e *evil) { _, _ = e.sock.Write([]byte("{]")) }},
	{"deep JSON", true, func(_ *siege, e *evil) { _, _ = e.sock.Write([]byte(strings.Repeat("[", 4000))) }},
	{"frame too long", true, func(_ *siege, e *evil) { _, _ = e.sock.Write(make([]byte, 100<<10)) }},
	{"calls for nothing", false, func(s *siege, e *evil) {
		for _, q := range []ipc.Request{
			{Op: ""}, {Op: "nonsense"}, {Op: ipc.CallClose, Socket: 77}, {Op: ipc.CallOption, Socket: math.MaxUint32}, {Op: ipc.CallBind},
			{Op: ipc.CallBind, Addr: rdstest.AddrOf(s.away, 5)}, {Op: ipc.CallBind, Addr: rdstest.AddrOf(s.here, 1)}, {Op: ipc.CallBind, Addr: rdstest.AddrOf(s.here, 100)},
			{Op: ipc.CallResolve}, {Op: ipc.CallResolve, Local: s.away, Remote: s.here},
			{Op: ipc.CallResolve, Local: s.here, Remote: netip.MustParseAddr("ff02::1")}, {Op: ipc.CallCancel, Socket: 1 << 16},
		} {
			if r := e.ask(q); r.Error == "" {
				s.Errorf("%+v: %+v", q, r)
			}
		}
	}},
	{"calls whose answers nobody reads", false, func(s *siege, e *evil) {
		_ = e.sock.SetWriteDeadline(time.Now().Add(100 * time.Millisecond))
		for e.conn.Send(&ipc.Request{Op: ipc.CallInfo}) == nil { // until the daemon reads no more
		}
		e.leave()
		*e = *intrude(s, s.path)
	}},
	{"submissions that never end", false, func(s *siege, e *evil) {
		x := e.good(s)
		e.ask(ipc.Request{Op: ipc.CallClose, Socket: x.Socket()})
		stop, done := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(done)
			xs := [512]ipc.Entry{}
			for i := range xs {
				xs[i] = x
			}
			for {
				select {
				case <-stop:
					return
				default:
					e.submit(xs[:]...)
				}
			}
		}()
		for range 20 {
			e.ask(ipc.Request{Op: ipc.CallResolve, Local: s.here, Remote: s.away})
		}
		_ = e.conn.Close() // and it goes on
		rdstest.Eventually(s, "the end of the session", func() bool { n, _, _ := s.counts(); return n == 1 })
		close(stop)
		<-done
		e.leave()
		*e = *intrude(s, s.path)
	}},
	{"closed twice", false, func(s *siege, e *evil) {
		x := e.good(s)
		if r := e.ask(ipc.Request{Op: ipc.CallClose, Socket: x.Socket()}); r.Error != "" {
			s.Error(r.Error)
		}
		if r := e.ask(ipc.Request{Op: ipc.CallClose, Socket: x.Socket()}); r.Errno != int(syscall.EBADF) {
			s.Errorf("%+v", r)
		}
	}},
	{"buffers of any size", false, func(s *siege, e *evil) {
		x := e.good(s)
		for _, v := range []int64{math.MaxInt64, math.MinInt64, -1, 0, 1} {
			e.ask(ipc.Request{Op: ipc.CallOption, Socket: x.Socket(), Option: ipc.OptionReceiveBuffer, Value: v})
			e.ask(ipc.Request{Op: ipc.CallOption, Socket: x.Socket(), Option: ipc.OptionSendBuffer, Value: v})
			sess := s.session(e)
			sess.mu.Lock()
			_, got := sess.sockets[0].s.Buffers()
			sess.mu.Unlock()
			if got <= 0 || got > 1<<20 {
				s.Errorf("a receive buffer of %d for %d", got, v)
			}
		}
	}},
	{"other sessions' sockets", false, func(s *siege, e *evil) {
		x := e.good(s)
		for gen := range uint32(64) { // its own number is among them, all others are nobody's
			with(0, 32, uint64(gen<<16), 32)(s, e, &x)
			e.submit(x)
			e.ask(ipc.Request{Op: ipc.CallCancel, Socket: gen << 16})
		}
	}},
}

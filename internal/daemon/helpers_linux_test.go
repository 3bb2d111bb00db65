//go:build live

package daemon

import (
	"math"
	"slices"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/rds-go/rds/internal/ipc"
	"github.com/rds-go/rds/internal/rdstest"
	"github.com/rds-go/rds/internal/socket"
	"github.com/rds-go/rds/rds/config"
	"github.com/rds-go/rds/rds/datagram"
)

// Where an intruder's About lies in the data ring.
const aboutAt = 4096

// say writes an About to the data ring and returns a submission that has it, to
// the sink.
func (e *evil) say(s *siege, a *ipc.About) ipc.Entry {
	e.Helper()
	copy(e.seg.DataArea()[aboutAt:], a.AppendTo(nil))
	x := e.good(s)
	return ipc.MakeEntry(ipc.OpSend, ipc.FlagAbout, x.Port(), x.Socket(), x.Peer(), 8, 0, aboutAt, 7)
}

// about is an attack of one submission, made of a correct one with a write to a
// region that is not there.
func about(name string, change func(a *ipc.About)) attack {
	return attack{name, true, func(s *siege, e *evil) {
		a := ipc.About{Flags: ipc.AboutRDMA | ipc.AboutWrite, Cookie: 0x1234, Pieces: []ipc.Piece{{Offset: 0, Length: 8}}}
		change(&a)
		e.submit(e.say(s, &a))
	}}
}

// at is an attack with a correct About elsewhere than in the data ring.
func at(name string, block uint32) attack {
	return attack{name, true, func(s *siege, e *evil) {
		x := e.say(s, &ipc.About{})
		e.submit(ipc.MakeEntry(x.Op(), x.Flags(), x.Port(), x.Socket(), x.Peer(), 8, 0, block, 7))
	}}
}

// manyPieces are n pieces of length bytes each.
func manyPieces(n int, length uint32) (p []ipc.Piece) {
	for range n {
		p = append(p, ipc.Piece{Offset: 0, Length: length})
	}
	return p
}

const siegeMemory = 2 << 20

var operationAttacks = []attack{
	at("what is said lies beyond the ring", dataRing-ipc.AboutSize+1),
	at("what is said lies far beyond", math.MaxUint32),
	about("flags that are none", func(a *ipc.About) { a.Flags |= 1 << 8 }),
	about("all flags", func(a *ipc.About) { a.Flags = math.MaxUint32 }),
	about("a piece beyond the memory", func(a *ipc.About) { a.Pieces[0].Offset = siegeMemory - 7 }),
	about("a piece far beyond", func(a *ipc.About) { a.Pieces[0].Offset = math.MaxUint32 }),
	about("a piece that wraps", func(a *ipc.About) { a.Pieces[0] = ipc.Piece{Offset: math.MaxUint32, Length: math.MaxUint32} }),
	about("an empty piece", func(a *ipc.About) { a.Pieces[0].Length = 0 }),
	about("no piece", func(a *ipc.About) { a.Pieces = nil }),
	about("pieces for nothing", func(a *ipc.About) { a.Flags = 0 }),
	about("1,025 pieces", func(a *ipc.About) { a.Pieces = manyPieces(1025, 1) }),
	about("more than 1 MiB", func(a *ipc.About) { a.Pieces = manyPieces(1024, 1025) }),
	about("addresses that wrap", func(a *ipc.About) { a.Offset = math.MaxUint64 }),
	about("an atomic of no kind", func(a *ipc.About) { a.Flags, a.Kind = a.Flags|ipc.AboutAtomic, 3 }),
	about("an atomic of a kind far off", func(a *ipc.About) { a.Flags, a.Kind = a.Flags|ipc.AboutAtomic, 256 }),
	about("an atomic on no word", func(a *ipc.About) { a.Flags, a.AtomicOffset = a.Flags|ipc.AboutAtomic, 4 }),
	about("an operation and a region", func(a *ipc.About) { a.Flags |= ipc.AboutDest }),
	{"pieces beyond the ring", true, func(s *siege, e *evil) {
		const block = dataRing - ipc.AboutSize - 8*10
		x := e.say(s, &ipc.About{})
		a := ipc.About{Flags: ipc.AboutRDMA, Pieces: manyPieces(10, 1)}
		b := a.AppendTo(nil)
		b[4]++ // the eleventh
		copy(e.seg.DataArea()[block:], b)
		e.submit(ipc.MakeEntry(x.Op(), x.Flags(), x.Port(), x.Socket(), x.Peer(), 8, 0, block, 7))
	}},

	{"keys that are not there", false, func(s *siege, e *evil) {
		for key := range uint64(200) {
			x := e.say(s, &ipc.About{Flags: ipc.AboutRDMA | ipc.AboutWrite | ipc.AboutAtomic, Cookie: key << 8, AtomicCookie: key<<8 | 1, Pieces: manyPieces(1, 8)})
			e.submit(x)
			e.ask(ipc.Request{Op: ipc.CallClose, Socket: x.Socket(), Linger: time.Second})
		}
	}},
	{"regions that are not its own", false, func(s *siege, e *evil) {
		id, _ := e.bind(rdstest.AddrOf(s.here, 0))
		other := bound(s, s.node, rdstest.AddrOf(s.here, 0))
		defer other.Close()
		c := rdstest.MustGetMR(s, other, make([]byte, 8), 0)
		for _, q := range []ipc.Request{
			{Op: ipc.CallConceal, Cookie: uint64(c)}, {Op: ipc.CallConceal, Cookie: 1}, {Op: ipc.CallConceal, Flags: 1 << 20},
			{Op: ipc.CallExpose, Offset: siegeMemory, Length: 1}, {Op: ipc.CallExpose, Offset: math.MaxUint32, Length: math.MaxUint32},
			{Op: ipc.CallExpose, Length: siegeMemory}, {Op: ipc.CallExpose}, {Op: ipc.CallExpose, Length: 1, Flags: 1 << 20},
			{Op: ipc.CallReach, Peer: 4000}, {Op: ipc.CallReach, Peer: math.MaxUint32},
			{Op: ipc.CallAdmit, Peer: math.MaxUint32, Option: "xrc"}, {Op: ipc.CallAdmit, Option: "xrc"}, {Op: ipc.CallAdmit, Option: "ib"}, {Op: ipc.CallAdmit},
		} {
			q.Socket = id
			if r := e.ask(q); r.Error == "" || r.Errno == 0 {
				s.Errorf("%+v: %+v", q, r)
			}
		}
		rdstest.NoError(s, other.FreeMR(c, 0))
		if r := e.ask(ipc.Request{Op: ipc.CallExpose, Socket: id + 5<<16, Length: 1}); r.Errno != int(syscall.EBADF) {
			s.Errorf("a socket that is none: %+v", r)
		}
	}},
	{"all regions", false, func(s *siege, e *evil) {
		var ids [4]uint32
		for i := range ids {
			ids[i], _ = e.bind(rdstest.AddrOf(s.here, 0))
		}
		n := 0
		for ; n < 1<<14; n++ {
			if r := e.ask(ipc.Request{Op: ipc.CallExpose, Socket: ids[n%len(ids)], Length: config.MaxMessage}); r.Error != "" {
				break
			}
		}
		other := bound(s, s.node, rdstest.AddrOf(s.here, 0))
		defer other.Close()
		left := 0
		for mem := make([]byte, config.MaxMessage); left < n/4; left++ {
			if _, err := other.GetMR(mem, 0); err != nil {
				break
			}
		}
		if n < 1000 || left < n/4 {
			s.Errorf("%d regions, %d for another", n, left)
		}
	}},
	{"calls that wait", false, func(s *siege, e *evil) {
		id, _ := e.bind(rdstest.AddrOf(s.here, 0))
		nobody := e.resolve(s.here, s.here.Prev().Prev())
		for range 4 * maxBeside {
			e.id++
			rdstest.Must(s, e.conn.Send(&ipc.Request{ID: e.id, Op: ipc.CallReach, Socket: id, Peer: nobody, Wait: true}))
		}
	}},
	{"what is said changes on the way", false, func(s *siege, e *evil) {
		x := e.say(s, &ipc.About{Flags: ipc.AboutRDMA | ipc.AboutWrite, Cookie: 99, Pieces: manyPieces(8, 8)})
		stop, done := make(chan struct{}), make(chan struct{})
		words := e.seg.DataArea()[aboutAt:]
		go func() {
			defer close(done)
			for i := byte(0); ; i++ {
				select {
				case <-stop:
					return
				default:
					words[4] = 1 + i%8                 // pieces
					words[ipc.AboutSize+1] = i % 16    // where one lies
					words[ipc.AboutSize+4] = 1 + i%100 // its length
				}
			}
		}()
		for range 500 {
			e.submit(x)
			e.drain(s)
		}
		close(stop)
		<-done
	}},
	{"operations pile up", false, func(s *siege, e *evil) {
		s.ops.Set(func() { s.ops.Full = true })
		defer s.ops.Open()
		x := e.say(s, &ipc.About{Flags: ipc.AboutRDMA | ipc.AboutWrite, Cookie: 99, Pieces: manyPieces(1024, 1)})
		defer func() { e.ask(ipc.Request{Op: ipc.CallClose, Socket: x.Socket()}) }()
		s.many(e, x, ringEntries)
		sess := s.session(e)
		rdstest.Eventually(s, "the budget to be used up", func() bool { return sess.queued.Load() >= sess.budget })
		if q, most := sess.queued.Load(), sess.budget+2*(opCost+1024*pieceCost); q > most {
			s.Errorf("%d bytes are queued, the budget is %d", q, sess.budget)
		}
	}},
	{"operations whose end nobody reads", false, func(s *siege, e *evil) {
		op := e.say(s, &ipc.About{Flags: ipc.AboutRDMA | ipc.AboutWrite | ipc.AboutSilent, Cookie: 99, Pieces: manyPieces(1, 1)})
		x := s.session(e)
		x.mu.Lock()
		fates := &x.sockets[0].s.Fates.N
		x.mu.Unlock()
		told := func() int64 { return fates.Load() + int64(e.word(rawCQTail).Load()) }
		for sent := told(); fates.Load() < socket.MaxFates; { // few wait at a time: each that is refused has those behind it move up
			sent += int64(e.submit(slices.Repeat([]ipc.Entry{op}, 256)...))
			rdstest.Eventually(s, "their fates", func() bool { return told() >= sent })
		}
		s.many(e, op, 16<<10)
		if n := fates.Load(); n > socket.MaxFates+4096 {
			s.Errorf("%d fates wait", n)
		}
	}},
	{"memory that changes under a write", false, func(s *siege, e *evil) {
		region := make([]byte, 64<<10)
		c := rdstest.MustGetMR(s, s.sink, region, 0)
		defer func() { _ = s.sink.FreeMR(c, datagram.MRInvalidate) }()
		var stop atomic.Bool
		done := make(chan struct{})
		go func() {
			defer close(done)
			mem := e.seg.MemoryArea()
			for i := byte(0); !stop.Load(); i++ {
				for k := 0; k < 64<<10; k += 509 {
					mem[k] = i
				}
			}
		}()
		x := e.say(s, &ipc.About{Flags: ipc.AboutRDMA | ipc.AboutWrite | ipc.AboutSilent, Cookie: uint64(c), Pieces: manyPieces(1, 64<<10)})
		resets := rdstest.Counter(s, s.node, "conn_reset")
		for range 100 {
			e.submit(x)
			e.drain(s)
		}
		stop.Store(true)
		<-done
		rdstest.WantCounter(s, s.node, "conn_reset", resets)
	}},
}

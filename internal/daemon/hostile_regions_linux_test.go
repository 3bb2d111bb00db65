//go:build live

package daemon

import (
	"math"
	"syscall"

	"github.com/rds-go/rds/internal/ipc"
	"github.com/rds-go/rds/internal/rdstest"
	"github.com/rds-go/rds/mr"
	"github.com/rds-go/rds/rds/config"
	"github.com/rds-go/rds/rds/datagram"
)

// exposing is a submission that asks for a region.
func exposing(id, offset, length, flags uint32, token uint64) ipc.Entry {
	return ipc.MakeEntry(ipc.OpExpose, 0, 0, id, 0, length, offset, flags, token)
}

func concealing(id uint32, c uint64) ipc.Entry {
	return ipc.MakeEntry(ipc.OpConceal, 0, 0, id, 0, 0, 0, 0, c)
}

// completion waits for the i-th completion of the session.
func (e *evil) completion(i uint64) ipc.Entry {
	e.Helper()
	e.arrived(i + 1)
	at := rawCQ + 32*int(i%ringEntries)
	return ipc.Entry{e.word(at).Load(), e.word(at + 8).Load(), e.word(at + 16).Load(), e.word(at + 24).Load()}
}

var regionAttacks = []attack{
	{"a region of a socket never bound", true, func(_ *siege, e *evil) { e.submit(exposing(60, 0, 8, 0, 1)) }},
	{"the end of a region of a socket never bound", true, func(_ *siege, e *evil) { e.submit(concealing(math.MaxUint32, 1)) }},
	{"regions that cannot be", false, func(s *siege, e *evil) {
		id, _ := e.bind(rdstest.AddrOf(s.here, 0))
		gone, _ := e.bind(rdstest.AddrOf(s.here, 0))
		e.ask(ipc.Request{Op: ipc.CallClose, Socket: gone})
		for i, x := range []struct {
			entry ipc.Entry
			want  syscall.Errno
		}{
			{exposing(id, siegeMemory, 1, 0, 0), syscall.EFAULT},
			{exposing(id, siegeMemory-7, 8, 0, 1), syscall.EFAULT},
			{exposing(id, math.MaxUint32, math.MaxUint32, 0, 2), syscall.EFAULT},
			{exposing(id, 0, siegeMemory, 0, 3), syscall.EMSGSIZE},
			{exposing(id, 0, 0, 0, 4), syscall.EINVAL},
			{exposing(id, 0, 1, 1<<20, math.MaxUint64), syscall.EINVAL},
			{exposing(gone, 0, 1, 0, 6), syscall.EBADF},
		} {
			e.submit(x.entry)
			a := e.completion(uint64(i))
			if a.Op() != ipc.OpExposed || a.Token() != x.entry.Token() || a.Socket() != x.entry.Socket() || syscall.Errno(a.Length()) != x.want || a.Result() != 0 {
				s.Errorf("%x: %x, want %d", x.entry, a, x.want)
			}
		}
	}},
	{"ends of regions that are not its own", false, func(s *siege, e *evil) {
		id, _ := e.bind(rdstest.AddrOf(s.here, 0))
		gone, _ := e.bind(rdstest.AddrOf(s.here, 0))
		e.ask(ipc.Request{Op: ipc.CallClose, Socket: gone})
		other := bound(s, s.node, rdstest.AddrOf(s.here, 0))
		defer other.Close()
		c := rdstest.MustGetMR(s, other, make([]byte, 8), 0)
		e.submit(concealing(id, uint64(c)), concealing(gone, uint64(c)), concealing(id, 0), concealing(id, math.MaxUint64))
		e.ask(ipc.Request{Op: ipc.CallOption, Socket: id, Option: ipc.OptionRecvErr}) // they are taken
		rdstest.NoError(s, other.FreeMR(c, 0))
	}},
	{"the end of a region that waits for its memory", false, func(s *siege, e *evil) {
		id, _ := e.bind(rdstest.AddrOf(s.here, 0))
		for i := range uint64(200) { // the event loop waits for none of them
			e.submit(exposing(id, 0, 8, uint32(datagram.MRInvalidate), i))
			c := e.completion(i)
			e.submit(concealing(id, c.Result()), concealing(id, c.Result()))
			e.word(rawCQHead).Store(i + 1)
		}
	}},
	{"answers that are not read", true, func(s *siege, e *evil) {
		id, _ := e.bind(rdstest.AddrOf(s.here, 0))
		s.many(e, exposing(id, 0, 8, 0, 1), ringEntries+ipc.MaxExposing+1)
	}},
	{"as many answers that are not read as may be", false, func(s *siege, e *evil) {
		id, _ := e.bind(rdstest.AddrOf(s.here, 0))
		s.many(e, exposing(id, 0, 8, 0, 1), ringEntries+ipc.MaxExposing)
		e.ask(ipc.Request{Op: ipc.CallOption, Socket: id, Option: ipc.OptionRecvErr}) // they are taken
		out := &s.session(e).out
		out.mu.Lock()
		defer out.mu.Unlock()
		if out.exposed != ipc.MaxExposing || len(out.events) != out.exposed {
			s.Errorf("%d of %d things that wait are answers", out.exposed, len(out.events))
		}
	}},
	{"regions behind messages beyond the budget", false, func(s *siege, e *evil) {
		id, _ := e.bind(rdstest.AddrOf(s.here, 0))
		nobody := e.resolve(s.here, s.here.Prev().Prev())
		x := s.session(e)
		s.many(e, ipc.MakeEntry(ipc.OpSendBlock, 0, 9, id, nobody, 64<<10, 0, 0, 0), ringEntries/2)
		rdstest.Eventually(s, "the end of the budget", x.overBudget.Load)
		taken := e.word(rawSQHead).Load()
		e.submit(exposing(id, 0, 8, 0, 1))
		a := e.completion(0)
		live := func() int { return s.regions().Stats().Small.Live }
		before := live()
		if a.Op() != ipc.OpExposed || a.Length() != 0 {
			s.Fatalf("%x", a)
		}
		e.submit(concealing(id, a.Result()))
		rdstest.Eventually(s, "the end of the region", func() bool { return live() < before })
		if e.word(rawSQHead).Load() != taken {
			s.Error("messages beyond the budget were taken")
		}
	}},
	{"all regions by the ring", false, func(s *siege, e *evil) {
		var ids [4]uint32
		for i := range ids {
			ids[i], _ = e.bind(rdstest.AddrOf(s.here, 0))
		}
		n := 0
		for ; n < 1<<14; n++ {
			e.submit(exposing(ids[n%len(ids)], 0, config.MaxMessage, 0, 0))
			a := e.completion(uint64(n))
			e.word(rawCQHead).Store(uint64(n) + 1)
			if a.Length() != 0 {
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
}

func (s *siege) regions() *mr.Device { return s.node.Regions() }

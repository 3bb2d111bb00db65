package conn

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/rds-go/rds/internal/invariants"
	"github.com/rds-go/rds/internal/wire"
)

// fuzzOps is how many operations fuzzDuo knows.
const fuzzOps = 22

// fuzzDuo has the bytes of ops act on two cores; each operation is a byte for
// what, a byte for where and a byte for how much.
func fuzzDuo(t testing.TB, ops []byte) (d *duo) {
	if len(ops) < 1 {
		return nil
	}
	d = newDuo(t, [][2]int{{1, 1}, {8, 8}, {1, 8}, {8, 1}}[ops[0]%4])
	d.told = ops[0]&4 > 0
	honest := true
	for ops = ops[1:]; len(ops) >= 3; ops = ops[3:] {
		i, path, arg := int(ops[1]&1), int(ops[1]>>1)%MaxPaths, int(ops[2])
		s := d.side[i]
		switch ops[0] % fuzzOps {
		case 0, 1:
			d.send(i, path&1, arg*arg)
		case 2, 3:
			d.answer(i, arg > 30)
		case 4, 5:
			d.fill(i, path)
		case 6:
			d.wrote(i, path, arg)
		case 7:
			d.wrote(i, path, 1<<20)
		case 8:
			d.arrive(i, path, arg*arg)
		case 9:
			d.arrive(i, path, arg*arg)
			d.read(i, path, arg)
		case 10:
			d.acked(i, path)
		case 11:
			if e := s.end[path]; e != nil && arg > 100 {
				e.l.cut = true
			}
		case 12:
			d.finish(i, path)
		case 13:
			d.tick(time.Duration(arg*arg) * time.Millisecond)
		case 14:
			s.c.Cancel(&s.accts[path&1], uint16(5000+path&1), arg&1 == 0)
			d.do(i)
		case 15:
			if port := uint16(5000 + path&1); arg&1 == 0 {
				s.cmap.Set(port)
			} else {
				s.cmap.Clear(port)
			}
			s.c.MapChanged()
			d.do(i)
		case 16:
			s.c.Trim()
			switch {
			case arg >= 252:
				s.c.Bar()
			case arg >= 240:
				s.c.Unbar(d.now)
			case arg >= 128:
				s.c.Leave(path)
			}
			d.do(i)
		case 18:
			d.opDone(i, path, arg)
		case 19:
			s.c.Hold([]uint16{uint16(5000 + path&1)}, arg&3 == 0)
			d.do(i)
		case 20: // the peer refuses messages that it has had or has not
			q := &s.c.paths[path].q
			first := s.c.paths[path].sequence - uint64(arg)
			if arg&1 == 0 && q.len() > 0 {
				first = q.at(q.first).seq
			}
			status := []Status{Refused, Dropped}[arg>>1&1]
			s.c.RefusedBy(path, first, uint32(arg), status)
			d.do(i)
		case 21:
			d.impostor(i, path, arg)
		case 17: // a peer that says anything
			if arg < 200 || s.end[path] == nil {
				continue
			}
			honest = false
			h := wire.Header{Sport: uint16(arg & 3), Dport: uint16(arg >> 2 & 1)}
			wire.Handshake{HasPaths: arg&8 > 0, Paths: uint16(arg & 15), Generation: uint32(arg & 7), SourceIndex: arg&16 > 0}.Put(&h.Extensions)
			if s.c.IsControl(&h) {
				s.c.HandleControl(d.now, path, &h, nil)
				d.do(i)
			}
		}
	}
	if honest {
		d.settle()
	}
	for i, s := range d.side {
		for k := range s.accts {
			if honest && (s.accts[k].Bytes() != 0 || s.accts[k].Messages() != 0) {
				t.Errorf("side %d: account %d keeps %d bytes", i, k, s.accts[k].Bytes())
			}
		}
		s.c.Close()
		d.do(i)
		for path := range MaxPaths {
			d.wrote(i, path, 0)
		}
		if s.c.Queued() != 0 {
			t.Errorf("side %d: %d bytes queued after Close", i, s.c.Queued())
		}
		for path := range MaxPaths {
			if s.c.paths[path].log.tail != nil {
				t.Errorf("side %d: path %d keeps memory after Close", i, path)
			}
		}
	}
	return d
}

func FuzzConn(f *testing.F) {
	rng := rand.New(rand.NewPCG(3, 4))
	for n := range 8 {
		f.Add(randomOps(rng, n, 200))
	}
	f.Fuzz(func(t *testing.T, ops []byte) {
		fuzzDuo(t, ops[:min(len(ops), 6000)])
	})
}

func randomOps(rng *rand.Rand, first, n int) []byte {
	ops := []byte{byte(first)}
	for range 3 * n {
		ops = append(ops, byte(rng.Uint32()))
	}
	return ops
}

// The same with random operations, so that every run of the tests tries some.
func TestTwoCores(t *testing.T) {
	t.Parallel()
	n := 400
	if invariants.Enabled {
		n = 60
	}
	rng := rand.New(rand.NewPCG(5, 6))
	var sum Counters
	var links, received, begun int
	for i := range n {
		ops := randomOps(rng, i, 600)
		for k := 1; k < len(ops); k += 3 {
			switch tame := rng.IntN(8) > 0; ops[k] % fuzzOps {
			case 21:
				if i%2 != 1 || rng.IntN(4) > 0 {
					ops[k] = 9 // few impostors: another generation ends what is repeated
				}
			case 17:
				ops[k] = 4 // honest peers only: those must come to rest
			case 15:
				if tame {
					ops[k+2] |= 1 // ports are congested for a while, not most of the time
				}
			case 16:
				if tame {
					ops[k+2] &= 127 // the same for paths that leave their links
				}
			case 20:
				if tame {
					ops[k] = 2
				}
			}
			if i%4 == 0 || rng.IntN(2) == 0 {
				ops[k+1] &= 1 // path 0, where most is to be done
			}
			if ops[k]%fuzzOps == 11 && rng.IntN(4) > 0 {
				ops[k] = 7 // links that live for a while
			}
		}
		d := fuzzDuo(t, ops)
		if t.Failed() {
			t.Fatalf("run %d", i)
		}
		for _, s := range d.side {
			c := s.c.Counters()
			sum.SendQueued += c.SendQueued
			sum.ConnReset += c.ConnReset
			sum.Retransmitted += c.Retransmitted
			sum.Held += c.Held
			received += int(s.got[0] + s.got[1])
			begun += s.begun
		}
		links += len(d.links)
	}
	t.Logf("%d links, %d lost, %d messages, %d repeated, %d held back, %d received, %d operations", links, sum.ConnReset, sum.SendQueued, sum.Retransmitted, sum.Held, received, begun)
	if sum.Retransmitted == 0 || sum.Held == 0 || received == 0 || begun == 0 {
		t.Error("nothing has happened")
	}
}

package conn

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/rds-go/rds/internal/invariants"
)

// Operations of fuzzDuo. Their numbers do not change: seeds in testdata consist of them.
const (
	fuzzSend = iota
	_
	fuzzAnswer
	_
	fuzzFill
	_
	fuzzWroteSome
	fuzzWrote
	fuzzArrive
	fuzzRead
	fuzzAcked
	fuzzCut
	fuzzFinish
	fuzzTick
	fuzzCancel
	fuzzCongest
	fuzzLeave
	fuzzLie
	fuzzOpDone
	fuzzHold
	fuzzRefuse
	fuzzImpostor
	fuzzOps // how many there are
)

// duoOps is what the operations do with side i.
var duoOps = [fuzzOps]func(d *duo, i, path, arg int){
	fuzzSend:      func(d *duo, i, path, arg int) { d.send(i, path&1, arg*arg) },
	fuzzAnswer:    func(d *duo, i, path, arg int) { d.answer(i, arg > 30) },
	fuzzFill:      func(d *duo, i, path, arg int) { d.fill(i, path) },
	fuzzWroteSome: (*duo).wrote,
	fuzzWrote:     func(d *duo, i, path, arg int) { d.wrote(i, path, 1<<20) },
	fuzzArrive:    func(d *duo, i, path, arg int) { d.arrive(i, path, arg*arg) },
	fuzzRead: func(d *duo, i, path, arg int) {
		d.arrive(i, path, arg*arg)
		d.read(i, path, arg)
	},
	fuzzAcked: func(d *duo, i, path, arg int) { d.acked(i, path) },
	fuzzCut: func(d *duo, i, path, arg int) {
		if e := d.side[i].end[path]; e != nil && arg > 100 {
			e.l.cut = true
		}
	},
	fuzzFinish: func(d *duo, i, path, arg int) { d.finish(i, path) },
	fuzzTick:   func(d *duo, i, path, arg int) { d.tick(time.Duration(arg*arg) * time.Millisecond) },
	fuzzCancel: func(d *duo, i, path, arg int) {
		s := d.side[i]
		s.c.Cancel(&s.accts[path&1], uint16(5000+path&1), arg&1 == 0)
		d.do(i)
	},
	fuzzCongest: func(d *duo, i, path, arg int) {
		s := d.side[i]
		if port := uint16(5000 + path&1); arg&1 == 0 {
			s.cmap.Set(port)
		} else {
			s.cmap.Clear(port)
		}
		s.c.MapChanged()
		d.do(i)
	},
	fuzzLeave: func(d *duo, i, path, arg int) {
		c := d.side[i].c
		c.Trim()
		switch {
		case arg >= 252:
			c.Bar()
		case arg >= 240:
			c.Unbar(d.now)
		case arg >= 128:
			c.Leave(path)
		}
		d.do(i)
	},
	fuzzLie:    (*duo).lie,
	fuzzOpDone: (*duo).opDone,
	fuzzHold: func(d *duo, i, path, arg int) {
		d.side[i].c.Hold([]uint16{uint16(5000 + path&1)}, arg&3 == 0)
		d.do(i)
	},
	fuzzRefuse: func(d *duo, i, path, arg int) { // the peer refuses messages that it has had or has not
		p := &d.side[i].c.paths[path]
		first := p.sequence - uint64(arg)
		if arg&1 == 0 && p.q.len() > 0 {
			first = p.q.at(p.q.first).seq
		}
		d.side[i].c.RefusedBy(path, first, uint32(arg), []Status{Refused, Dropped, TooLong, Refused}[arg>>1&3])
		d.do(i)
	},
	fuzzImpostor: (*duo).impostor,
}

// fuzzDuo has the bytes of ops act on two cores; each operation is a byte for
// what, a byte for where and a byte for how much.
func fuzzDuo(t testing.TB, ops []byte) (d *duo) {
	if len(ops) < 1 {
		return nil
	}
	d = newDuo(t, [][2]int{{1, 1}, {8, 8}, {1, 8}, {8, 1}}[ops[0]%4])
	d.told = ops[0]&4 > 0
	for ops = ops[1:]; len(ops) >= 3; ops = ops[3:] {
		op := ops[0] % fuzzOps
		if duoOps[op] == nil {
			op-- // what comes often has two numbers
		}
		duoOps[op](d, int(ops[1]&1), int(ops[1]>>1)%MaxPaths, int(ops[2]))
	}
	if !d.lied {
		d.settle()
		for i, s := range d.side {
			for k := range s.accts {
				if s.accts[k].Bytes() != 0 || s.accts[k].Messages() != 0 {
					t.Errorf("side %d: account %d keeps %d bytes", i, k, s.accts[k].Bytes())
				}
			}
		}
	}
	for i := range d.side {
		d.end(i)
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
			case fuzzImpostor:
				if i%2 != 1 || rng.IntN(4) > 0 {
					ops[k] = fuzzRead // few impostors: another generation ends what is repeated
				}
			case fuzzLie:
				ops[k] = fuzzFill // honest peers only: those must come to rest
			case fuzzCongest:
				if tame {
					ops[k+2] |= 1 // ports are congested for a while, not most of the time
				}
			case fuzzLeave:
				if tame {
					ops[k+2] &= 127 // the same for paths that leave their links
				}
			case fuzzRefuse:
				if tame {
					ops[k] = fuzzAnswer
				}
			}
			if i%4 == 0 || rng.IntN(2) == 0 {
				ops[k+1] &= 1 // path 0, where most is to be done
			}
			if ops[k]%fuzzOps == fuzzCut && rng.IntN(4) > 0 {
				ops[k] = fuzzWrote // links that live for a while
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

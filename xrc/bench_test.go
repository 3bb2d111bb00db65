package xrc

import (
	"testing"

	"github.com/rds-go/rds/transport/iwarp"
)

func BenchmarkResolve(b *testing.B) {
	g := newRig(b, Config{})
	p := g.process("p", g.file("job"))
	tgt, _ := p.up(peer(1))
	n := p.srq(4).num(b)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if _, err := g.Resolve(n, tgt); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkMessage is all that a message needs of this package.
func BenchmarkMessage(b *testing.B) {
	g := newRig(b, Config{})
	p := g.process("p", g.file("job"))
	tgt, _ := p.up(peer(1))
	q := p.srq(4)
	n := q.num(b)
	list := []iwarp.ReceiveRequest{{ID: 1, SGE: []iwarp.SGE{{Key: 1, Len: 8192}}}}
	r := iwarp.ReceiveRequest{SGE: make([]iwarp.SGE, 0, 4)}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := q.PostReceive(list...); err != nil {
			b.Fatal(err)
		}
		s, err := g.Resolve(n, tgt)
		if err != nil {
			b.Fatal(err)
		}
		if err := s.Take(&r); err != nil {
			b.Fatal(err)
		}
		s.Done()
	}
}

// BenchmarkConnect is the life of a target that a peer asks for.
func BenchmarkConnect(b *testing.B) {
	g := newRig(b, Config{})
	p, _, _ := g.advertised("app", g.file("job"), serviceID)
	r := request(peer(1), serviceID)
	b.ReportAllocs()
	for b.Loop() {
		reply, st := g.Connect(r)
		if st != StatusFound {
			b.Fatal(st)
		}
		if err := p.Unregister(ctx, p.dom, reply.Target.Number); err != nil {
			b.Fatal(err)
		}
	}
}

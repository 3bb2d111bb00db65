//go:build !live

package objects

import (
	"testing"
)

func BenchmarkResolve(b *testing.B) {
	g := newRig(b, Config{})
	p := g.process("p", g.file("job"))
	tgt, _ := p.up(peer(1))
	n := p.srq(4).Num()
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if _, err := g.Resolve(n, tgt); err != nil {
				b.Fatal(err)
			}
		}
	})
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

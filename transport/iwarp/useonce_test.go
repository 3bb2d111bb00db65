//go:build !live

package iwarp

import (
	"testing"

	"github.com/rds-go/rds/mr"
	"github.com/rds-go/rds/transport/iwarp/rdmap"
)

// TestMRREQ31LostUseLeavesTheRegion has a connection end in the middle of a Write to a use-once
// region, which leaves the region to the next connection. The first whole Write ends the region.
func TestMRREQ31LostUseLeavesTheRegion(t *testing.T) {
	bubble(t, func(t *testing.T) {
		for _, s := range streams {
			v := newVictim(t, Config{EventLoops: 1})
			owner := v.dev.regions.NewOwner(mr.OwnerConfig{})
			mem := make([]byte, 40_000)
			key, err := owner.Register(mem, mr.Options{Domain: v.pd.domain, Rights: mr.LocalWrite | mr.RemoteWrite | mr.RemoteRead, Once: true})
			must(t, err)
			watch := v.dev.regions.NewReader("test", nil)
			t.Cleanup(watch.Close)
			free := func() bool {
				use := new(mr.Use)
				watch.Enter()
				_, fault := watch.Check(&mr.Request{Key: key, Domain: v.pd.domain, From: v.qp.stream.peer, Rights: mr.RemoteRead, Len: 1, Use: use})
				watch.Leave()
				v.dev.regions.Finish(use, false)
				if fault != mr.None && fault != mr.Spent {
					t.Fatalf("the region is gone: %v", fault)
				}
				return fault == mr.None
			}
			p := openStream(t, v.end, s)
			if !free() {
				t.Fatal("nobody uses the region")
			}
			p.send(tagged(rdmap.OpWrite, uint32(key), 0, false, make([]byte, 20_000))) // more segments are to follow
			p.probe(v.open, 0, 8)                                                      // its answer says that the Write has begun; free uses the region, and must not come before the Write
			if free() {
				t.Fatal("a Write has begun, and the region is free")
			}
			p.abort()
			_ = v.ended()
			eventually(t, "the region is free without a connection", free)

			v.qp, err = v.pd.CreateQP(QPConfig{SendCQ: v.cq, RecvCQ: v.cq})
			must(t, err)
			p = openStream(t, v.end, s)
			p.send(write(uint32(key), 0, make([]byte, 20_000)), write(uint32(key), 20_000, make([]byte, 20_000)))
			_ = v.ended() // by the second Write, which finds the key dead
			same(t, "the region is there after its use", owner.Free(key), mr.ErrKey)
		}
	})
}

// TestMRREQ31AtomicIsTheUse has a peer that does not read ask for more than TCP holds, then for an atomic of a
// use-once region, and end before it can have the answer. The atomic has been done, and so the region has ended.
func TestMRREQ31AtomicIsTheUse(t *testing.T) {
	bubble(t, func(t *testing.T) {
		for _, s := range streams {
			v := newVictim(t, Config{EventLoops: 1})
			long := v.reg(64<<20, mr.RemoteRead)
			owner := v.dev.regions.NewOwner(mr.OwnerConfig{})
			mem := make([]byte, 8)
			key, err := owner.Register(mem, mr.Options{Domain: v.pd.domain, Rights: mr.LocalWrite | mr.RemoteAtomic, Once: true})
			must(t, err)
			p := openStream(t, v.end, s)
			add := rdmap.AtomicRequest{Op: rdmap.FetchAdd, ID: 1, STag: uint32(key), Add: 1, CompareMask: ^uint64(0)}
			p.send(p.read(rdmap.ReadRequest{SinkSTag: 1, Size: 64 << 20, SourceSTag: uint32(long.Key()), SourceTO: long.Base()}),
				untagged(rdmap.OpAtomicRequest, rdmap.QueueRequest, p.nextMSN(rdmap.QueueRequest), 0, true, add.AppendTo(nil)))
			eventually(t, "the atomic is done", func() bool { return mr.FetchAdd(mem, 0, 0) == 1 })
			p.abort()
			_ = v.ended()
			if err := owner.Free(key); err != mr.ErrKey {
				t.Errorf("%s: the region is there after its use: %v", s.name, err)
			}
		}
	})
}

//go:build !live

package iwarp

import (
	"bytes"
	"testing"

	"github.com/rds-go/rds/mr"
)

// Bad keys, bounds and rights of every operation cost that operation: what was
// posted around it succeeds, and the connection goes on.
func TestSharedConnectionSurvivesBadKeys(t *testing.T) {
	t.Parallel()
	for name, m := range modes {
		if m.cp.Markers || m.sp.Markers || m.cp.PeerToPeer {
			continue
		}
		inBubble(t, name, func(t *testing.T) {
			m.sp.IRD = 0
			client, server, _ := sharedPair(t, m.cfg, m.cp, m.sp)
			good, local := server.reg(70_000, allRights), client.reg(70_000, mr.LocalWrite)
			readOnly := server.reg(70_000, mr.LocalWrite|mr.RemoteRead)
			dead := server.reg(70_000, allRights)
			must(t, dead.Dereg(within(t)))
			fill(local.Bytes(), 7)
			write := WorkRequest{ID: 1, Op: OpWrite, Flags: Signaled, SGE: []SGE{local.SGE(0, 60_000)}, RemoteKey: good.Key(), RemoteAddr: good.Base()}
			read := write
			read.ID, read.Op = 2, OpRead
			add := WorkRequest{ID: 3, Op: OpFetchAdd, Flags: Signaled, SGE: []SGE{local.SGE(60_008, 8)}, RemoteKey: good.Key(), RemoteAddr: good.Base()}
			bad := func(w WorkRequest, key mr.Key, addr uint64) WorkRequest {
				w.ID, w.RemoteKey, w.RemoteAddr = 100+w.ID, key, addr
				return w
			}
			ask := 0
			for range 3 {
				for _, w := range []WorkRequest{
					bad(write, dead.Key(), good.Base()), bad(write, readOnly.Key(), good.Base()), bad(write, good.Key(), good.Base()+10_001),
					bad(read, dead.Key(), good.Base()), bad(read, good.Key()+1, good.Base()), bad(read, good.Key(), ^uint64(0)-100),
					bad(add, readOnly.Key(), good.Base()), bad(add, dead.Key(), good.Base()),
				} {
					client.send(write, w, read, add)
					client.want(1, Success, OpWrite)
					client.want(w.ID, RemoteAccess, w.Op)
					client.want(2, Success, OpRead)
					client.want(3, Success, OpFetchAdd)
					ask++
				}
			}
			if client.qp.State() != StateRTS || server.qp.State() != StateRTS {
				t.Fatal(client.qp.Err(), server.qp.Err())
			}
			if n := server.dev.Stats().AccessErrors; n != uint64(ask) {
				t.Fatalf("%d access errors counted, %d made", n, ask)
			}
		})
	}
}

// A Write to a shared connection completes when it is placed, so a message by
// any other way finds it there.
func TestSharedWriteCompletesWhenPlaced(t *testing.T) {
	bubble(t, func(t *testing.T) {
		client, server, _ := sharedPair(t, Config{}, ConnParams{}, ConnParams{})
		remote, local := server.reg(1<<20, allRights), client.reg(1<<20, 0)
		fill(local.Bytes(), 8)
		client.send(WorkRequest{ID: 1, Op: OpWrite, Flags: Signaled, SGE: []SGE{local.SGE(0, 1<<20)}, RemoteKey: remote.Key(), RemoteAddr: remote.Base()})
		client.want(1, Success, OpWrite)
		must(t, remote.Dereg(within(t))) // orders the memory for the race detector
		if !bytes.Equal(remote.Bytes(), local.Bytes()) {
			t.Fatal("not there yet")
		}
	})
}

// A message that builds on Writes is refused if one of them failed; others, and
// those that build on other Writes, are delivered.
func TestMessageIsRefusedWithItsWrites(t *testing.T) {
	bubble(t, func(t *testing.T) {
		client, server, queues := sharedPair(t, Config{MaxULPDU: 1442}, ConnParams{}, ConnParams{})
		remote, local, dst := server.reg(8192, allRights), client.reg(8192, 0), server.reg(8192, mr.LocalWrite)
		s := queues.srq(server, 1, SRQConfig{})
		for i := range 20 {
			server.give(s, uint64(i), dst.SGE(0, 8192))
		}
		ok := WorkRequest{ID: 1, Op: OpWrite, SGE: []SGE{local.SGE(0, 8192)}, RemoteKey: remote.Key(), RemoteAddr: remote.Base()}
		bad := ok
		bad.ID, bad.RemoteKey = 2, remote.Key()+1
		msg := func(id uint64, writes uint32) WorkRequest {
			return WorkRequest{ID: id, Flags: Signaled, Queue: 1, Writes: writes, SGE: []SGE{local.SGE(0, 5000)}}
		}
		for _, c := range []struct {
			reqs []WorkRequest
			want map[uint64]Status
			came int
		}{
			{[]WorkRequest{ok, ok, msg(10, 2)}, map[uint64]Status{10: Success}, 1},
			{[]WorkRequest{bad, ok, msg(11, 2)}, map[uint64]Status{2: RemoteAccess, 11: RemoteAccess}, 0},
			{[]WorkRequest{ok, bad, msg(12, 2), msg(13, 0)}, map[uint64]Status{2: RemoteAccess, 12: RemoteAccess, 13: Success}, 1},
			{[]WorkRequest{bad, ok, msg(14, 1), msg(15, 2)}, map[uint64]Status{2: RemoteAccess, 14: Success, 15: RemoteAccess}, 1},
		} {
			client.send(c.reqs...)
			for range c.want {
				got := client.next()
				if want, found := c.want[got.ID]; !found || got.Status != want {
					t.Fatalf("request %d: %v, want %v", got.ID, got.Status, want)
				}
			}
			for range c.came {
				if got := server.next(); got.Status != Success || got.Len != 5000 {
					t.Fatalf("%+v", got)
				}
			}
		}
		if n := server.cq.Poll(make([]Completion, 1)); n != 0 {
			t.Fatal("a refused message was delivered")
		}
	})
}

// The region of a read goes away while it is being answered: that read fails.
func TestSharedReadOfVanishingRegion(t *testing.T) {
	bubble(t, func(t *testing.T) {
		client, server, _ := sharedPair(t, Config{SendBuffer: 32 << 10}, ConnParams{NoCRC: true}, ConnParams{NoCRC: true})
		sink := client.reg(8<<20, mr.LocalWrite)
		keep := server.reg(100, allRights)
		failed := 0
		for range 20 {
			victim := server.reg(8<<20, allRights)
			client.send(WorkRequest{ID: 1, Op: OpRead, Flags: Signaled, SGE: []SGE{sink.SGE(0, 8<<20)}, RemoteKey: victim.Key(), RemoteAddr: victim.Base()},
				WorkRequest{ID: 2, Op: OpRead, Flags: Signaled, SGE: []SGE{sink.SGE(0, 100)}, RemoteKey: keep.Key(), RemoteAddr: keep.Base()})
			must(t, victim.Dereg(within(t)))
			switch c := client.next(); {
			case c.ID == 1 && c.Status == RemoteAccess:
				failed++
			case c.ID != 1 || c.Status != Success:
				t.Fatalf("%+v", c)
			}
			client.want(2, Success, OpRead)
		}
		if failed == 0 {
			t.Fatal("no read was cut off")
		}
	})
}

// A peer that makes mistakes without end loses the connection, unless it was
// trusted to see to that itself.
func TestTooManySoftErrorsEndTheConnection(t *testing.T) {
	bubble(t, func(t *testing.T) {
		client, server, _ := sharedPair(t, Config{}, ConnParams{}, ConnParams{})
		local := client.reg(8, mr.LocalWrite)
		w := WorkRequest{Op: OpRead, SGE: []SGE{local.SGE(0, 8)}, RemoteKey: 0xbad00, RemoteAddr: 0}
		for refused := 0; ; refused++ {
			client.send(w)
			if c := client.next(); c.Status == Flushed || c.Status == RemoteInvalid {
				if refused < 64 {
					t.Fatalf("after %d", refused)
				}
				break
			}
			if refused > 10_000 {
				t.Fatal("no end")
			}
		}
		<-server.qp.Done()
	})
}

//go:build !live

package iwarp

import (
	"testing"

	"github.com/rds-go/rds/mr"
	"github.com/rds-go/rds/transport/iwarp/ddp"
	"github.com/rds-go/rds/transport/iwarp/rdmap"
	"github.com/rds-go/rds/transport/iwarp/xctl"
)

// Queues that always have messages share octets, whatever the sizes of their
// messages, also one that comes back for each message.
func TestTurnsShareOctets(t *testing.T) {
	t.Parallel()
	sizes := []uint32{64, 100, 1500, 8 << 10, quantum, quantum + 1, 200_000, 1 << 20}
	for name, leaves := range map[string]func(i int) bool{
		"all stay":          func(int) bool { return false },
		"large ones return": func(i int) bool { return sizes[i] > quantum },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var turns turns
			queues := make([]outQueue, len(sizes))
			index := make(map[*outQueue]int)
			sent := make([]uint64, len(sizes))
			for i := range queues {
				index[&queues[i]] = i
				turns.add(&queues[i])
			}
			const each = 64 << 20
			for total := uint64(0); total < each*uint64(len(sizes)); {
				q := turns.head()
				i := index[q]
				turns.spend(q, sizes[i])
				sent[i] += uint64(sizes[i])
				total += uint64(sizes[i])
				if leaves(i) {
					turns.remove(q)
					turns.add(q)
				}
			}
			for i, n := range sent {
				if n < each*9/10 || n > each*11/10 {
					t.Errorf("messages of %d: %d KiB of %d", sizes[i], n>>10, each>>10)
				}
			}
		})
	}
}

// A queue that has sent a long message while it was alone has its next turn when
// others have sent as much, and not before.
func TestLongMessageIsPaidBack(t *testing.T) {
	t.Parallel()
	var turns turns
	var long, short outQueue
	turns.add(&long)
	turns.spend(turns.head(), 16*quantum)
	turns.remove(&long)
	turns.add(&short)
	turns.add(&long)
	sent := 0
	for q := turns.head(); q == &short; q = turns.head() {
		turns.spend(q, 1000)
		sent += 1000
	}
	if sent < 14*quantum || sent > 18*quantum {
		t.Fatalf("%d octets first", sent)
	}
	turns.ahead(&short)
	if turns.head() != &short {
		t.Fatal("not ahead")
	}
	turns.spend(&short, 0)
	turns.remove(&long)
	turns.remove(&short)
	if turns.head() != nil || turns.n != 0 {
		t.Fatal("not empty")
	}
}

// On the wire three queues with messages of 128 KiB, 8 KiB and 512 octets share the
// connection, and each keeps its order.
func TestSharedQueuesShareOctets(t *testing.T) {
	bubble(t, func(t *testing.T) {
		e := newEnd(t, openDevice(t, Config{EventLoops: 1, SendBuffer: 256 << 10}), QPConfig{MaxSend: 1 << 17})
		x := openExtendedCRC(t, e, true, false, allCaps, SharedParams{})
		const each, share = 4 << 20, 3 << 20
		sizes := []int{128 << 10, 8 << 10, 512}
		mem := e.reg(sizes[0], 0)
		for i := range sizes {
			e.send(WorkRequest{Queue: uint32(i + 1), Inline: []byte("x")})
			x.incoming(rdmap.OpSend)
			x.raw.send(x.tell(xctl.Credit{SRQ: xctl.SRQN(i + 1), Delivered: 1, Limit: 1 << 20}))
		}
		x.sync()
		for i, size := range sizes {
			reqs := make([]WorkRequest, each/size)
			for k := range reqs {
				reqs[k] = WorkRequest{Queue: uint32(i + 1), SGE: []SGE{mem.SGE(0, size)}}
			}
			e.send(reqs...)
		}
		var got, came [3]int // since there have been messages of all, and in all
		for together := false; max(got[0], got[1], got[2]) < share; {
			s := x.incoming(rdmap.OpSend)
			i := s.Untagged.QN&0xff - 1
			if at, size := came[i], sizes[i]; s.Untagged.MSN != uint32(at/size+2) || s.Untagged.MO != uint32(at%size) {
				t.Fatalf("queue %d after %d octets: message %d, offset %d", i+1, at, s.Untagged.MSN, s.Untagged.MO)
			}
			came[i] += len(s.Payload)
			if together = together || came[0] > 0 && came[1] > 0 && came[2] > 0; together {
				got[i] += len(s.Payload)
			}
		}
		for i, n := range got {
			if n < share*9/10 {
				t.Errorf("messages of %d: %d KiB when another queue had %d", sizes[i], n>>10, share>>10)
			}
		}
	})
}

// A message that builds on a Write follows it at once, also if its queue has sent
// more than its share and others wait.
func TestMessageOnWriteIsNotMadeToWait(t *testing.T) {
	bubble(t, func(t *testing.T) {
		e := newEnd(t, openDevice(t, Config{EventLoops: 1, SendBuffer: 32 << 10}), QPConfig{MaxSend: 1 << 10})
		x := openExtended(t, e, true, allCaps, SharedParams{})
		mem := e.reg(1<<20, mr.LocalWrite)
		for n := range uint32(2) {
			e.send(WorkRequest{Queue: n + 1, Inline: []byte("x")})
			x.incoming(rdmap.OpSend)
			x.raw.send(x.tell(xctl.Credit{SRQ: xctl.SRQN(n + 1), Delivered: 1, Limit: 1 << 20}))
		}
		x.sync()
		e.send(WorkRequest{Queue: 1, SGE: []SGE{mem.SGE(0, 1<<20)}})
		x.incoming(rdmap.OpSend) // it has begun, and the rest of it goes before all else
		for range 200 {
			e.send(WorkRequest{Queue: 2, SGE: []SGE{mem.SGE(0, 8<<10)}})
		}
		e.send(WorkRequest{Op: OpWrite, SGE: []SGE{mem.SGE(0, 8)}, RemoteKey: 5},
			WorkRequest{Queue: 1, Writes: 1, SGE: []SGE{mem.SGE(0, 8)}},
			WorkRequest{Op: OpWrite, SGE: []SGE{mem.SGE(0, 8)}, RemoteKey: 5})
		for {
			s, ok, err := x.take()
			must(t, err)
			if ok && s.Op == rdmap.OpWrite {
				break
			}
		}
		s := x.incoming(rdmap.OpSend)
		if want := (ddp.Untagged{Last: true, ULP: rdmap.OpSend.Control(), ULPData: 1, QN: xctl.SRQN(1).QN(), MSN: 3}); s.Untagged != want {
			t.Fatalf("%+v after the Write", s.Untagged)
		}
	})
}

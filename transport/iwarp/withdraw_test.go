//go:build !live

package iwarp

import (
	"bytes"
	"testing"

	"github.com/rds-go/rds/mr"
	"github.com/rds-go/rds/transport"
	"github.com/rds-go/rds/transport/iwarp/rdmap"
	"github.com/rds-go/rds/transport/iwarp/xctl"
)

// A wrong local key costs its own message or Write: what stands around it in the
// same queue and in others succeeds, in order, and the peer has heard nothing of it.
func TestWrongLocalKeyCostsItsRequest(t *testing.T) {
	t.Parallel()
	for name, m := range modes {
		inBubble(t, name, func(t *testing.T) {
			client, server, queues := sharedPair(t, m.cfg, m.cp, m.sp)
			src, dst, remote := client.reg(1<<17, 0), server.reg(1<<17, mr.LocalWrite), server.reg(1<<17, allRights)
			pd, err := client.dev.AllocPD()
			must(t, err)
			foreign, err := pd.RegMR(make([]byte, 1<<17), 0, 0x10000)
			must(t, err)
			fill(src.Bytes(), 3)
			a, b := queues.srq(server, 1, SRQConfig{}), queues.srq(server, 2, SRQConfig{})
			serial := map[uint32]uint32{}
			for _, bad := range [][]SGE{
				{{Key: src.Key() ^ 1, Addr: src.Base(), Len: 8}},
				{src.SGE(1<<17-7, 8)},
				{foreign.SGE(0, 8)},
				{src.SGE(0, 8), foreign.SGE(0, 8)},
				{src.SGE(0, 100_000), foreign.SGE(0, 20_000)},
				{src.SGE(0, 5000), src.SGE(0, 5000), src.SGE(0, 1<<17), src.SGE(1, 1<<17)},
			} {
				for i := range 4 { // the last one is withdrawn in its turn, which takes credit
					server.give(a, uint64(i), dst.SGE(0, 1<<17))
				}
				server.give(b, 9, dst.SGE(0, 1<<17))
				good := WorkRequest{ID: 1, Flags: Signaled, Queue: 1, SGE: []SGE{src.SGE(0, 70_000)}}
				write := WorkRequest{ID: 2, Op: OpWrite, Flags: Signaled, SGE: []SGE{src.SGE(0, 20_000)}, RemoteKey: remote.Key(), RemoteAddr: remote.Base()}
				wrong, wrongWrite := good, write
				wrong.ID, wrong.SGE = 101, bad
				wrongWrite.ID, wrongWrite.SGE = 102, bad
				built := good
				built.ID, built.Writes = 3, 1
				refused := built
				refused.ID = 103
				other := good
				other.ID, other.Queue, other.SGE = 4, 2, []SGE{src.SGE(0, 10)}
				client.send(wrong, good, wrong, write, built, wrongWrite, refused, good, wrong, other)
				got := map[uint64][]Completion{}
				for range 10 {
					c := client.next()
					got[c.ID] = append(got[c.ID], c)
				}
				for id, want := range map[uint64]struct {
					n      int
					status Status
				}{1: {2, Success}, 2: {1, Success}, 3: {1, Success}, 4: {1, Success}, 101: {3, LocalProtection}, 102: {1, LocalProtection}, 103: {1, RemoteAccess}} {
					if len(got[id]) != want.n {
						t.Fatalf("%d completions of %d: %+v", len(got[id]), id, got)
					}
					for _, c := range got[id] {
						if c.Status != want.status || want.status == LocalProtection && mr.Fault(c.Vendor) == mr.None {
							t.Fatalf("%+v, want %v", c, want.status)
						}
					}
				}
				for range 4 {
					c := server.next()
					serial[c.Queue]++
					if want := map[uint32]uint32{1: 70_000, 2: 10}[c.Queue]; c.Status != Success || c.Len != want || c.Serial != serial[c.Queue] {
						t.Fatalf("%+v: want %d bytes, message %d of its queue", c, want, serial[c.Queue])
					}
				}
				if !bytes.Equal(dst.Bytes()[:70_000], src.Bytes()[:70_000]) {
					t.Fatal("not what was sent")
				}
			}
			same(t, "the peer has counted errors", server.dev.Stats().AccessErrors, 0)
		})
	}
}

// A region that is gone when its message is to be sent again costs that message,
// which takes no number and completes in its turn.
func TestRegionGoesWhileItsQueueIsStopped(t *testing.T) {
	bubble(t, func(t *testing.T) {
		e, x, mem := sharedPeer(t, true, SharedParams{})
		victim := e.reg(64, 0)
		for i, m := range []*MR{mem, victim, mem} {
			e.send(WorkRequest{ID: uint64(i), Flags: Signaled, Queue: 1, SGE: []SGE{m.SGE(0, i+1)}})
		}
		for msn := uint32(1); msn <= 3; msn++ {
			if s := x.incoming(rdmap.OpSend); s.Untagged.MSN != msn {
				t.Fatalf("%+v", s.Untagged)
			}
		}
		x.raw.send(x.tell(xctl.NAK{SRQ: 1, MSN: 1, Code: xctl.NAKNotReady, Backoff: 60_000, Info: 4}))
		x.sync()
		must(t, victim.Dereg(within(t)))
		x.raw.send(x.tell(xctl.Credit{SRQ: 1, Delivered: 0, Limit: 8}))
		if r := await[xctl.Resume](x); r != (xctl.Resume{SRQ: 1, MSN: 4}) {
			t.Fatalf("%+v", r)
		}
		for i := range uint32(2) {
			if s := x.incoming(rdmap.OpSend); s.Untagged.MSN != 4+i || len(s.Payload) != int(1+2*i) {
				t.Fatalf("%+v, %d bytes", s.Untagged, len(s.Payload))
			}
		}
		x.raw.send(x.tell(xctl.Credit{SRQ: 1, Delivered: 5, Limit: 8}))
		e.want(0, Success, OpSend)
		e.want(1, LocalProtection, OpSend)
		e.want(2, Success, OpSend)
	})
}

// The socket is full in the middle of a message when its region goes, and the
// program uses the memory for something else: the message is sent as it was.
func TestRegionGoesWhileTheSocketIsFull(t *testing.T) {
	bubble(t, func(t *testing.T) {
		for range 20 { // where in a batch it is full is not for us to say
			if regionGoesWhileFull(t) {
				return
			}
		}
		t.Fatal("the socket is never full in the middle of a message")
	})
}

func regionGoesWhileFull(t *testing.T) bool {
	t.Helper()
	e := newEnd(t, openDevice(t, Config{EventLoops: 1, SendBuffer: 32 << 10}), QPConfig{})
	x := openExtendedCRC(t, e, true, false, allCaps, SharedParams{})
	// Of a message; two fit a batch. The socket may be full before the first long one
	// is built.
	size := func(i int) int {
		if i == 0 {
			return 100
		}
		return 100_000
	}
	ctx := within(t)
	var regions []*MR
	// full tells whether the socket is, and the last message that the transmitter has
	// built all of: there is something of it to write, as a rule.
	full := func() (last int, ok bool) {
		e.qp.mu.Lock()
		defer e.qp.mu.Unlock()
		s := e.qp.stream
		if !s.blocked || s.tx.batch.empty() || s.shared.current == nil {
			return 0, false
		}
		if last = int(s.shared.current.SRQ()) - 1; s.tx.open {
			last--
		}
		return last, last >= 0
	}
	last, ok := 0, false
	for ; !ok; last, ok = full() {
		n := size(len(regions))
		m := e.reg(n, 0)
		fill(m.Bytes(), uint64(len(regions)))
		regions = append(regions, m)
		e.send(WorkRequest{ID: uint64(len(regions) - 1), Flags: Signaled, Queue: uint32(len(regions)), SGE: []SGE{m.SGE(0, n)}})
		if ctx.Err() != nil || len(regions) > 120 {
			_ = e.qp.Close()
			return false
		}
	}
	must(t, regions[last].Dereg(ctx))
	clear(regions[last].Bytes())
	sent := len(regions)
	for i := range sent {
		got := make([]byte, 0, size(i))
		for len(got) < size(i) {
			got = append(got, x.incoming(rdmap.OpSend).Payload...)
		}
		want := make([]byte, size(i))
		if fill(want, uint64(i)); !bytes.Equal(got, want) {
			t.Fatalf("message %d of %d is not what it was; the region of %d is gone", i, sent, last)
		}
	}
	for i := range sent {
		x.raw.send(x.tell(xctl.Credit{SRQ: xctl.SRQN(i + 1), Delivered: 1, Limit: 4}))
		e.want(uint64(i), Success, OpSend)
	}
	return true
}

// A message to the queue with a sink that builds on a Write with a wrong local key is
// refused by the peer, as if that Write had failed there; what comes before and
// after is taken.
func TestSinkMessageOnWriteThatFailsHere(t *testing.T) {
	bubble(t, func(t *testing.T) {
		ends, sinks, _, terms := mixedEnds(t, true)
		for i := range terms { // a sink alone makes an initiator
			terms[i].Shared.Send = false
		}
		client, server := ends[0], ends[1]
		connectEnds(t, client, server, terms[0], terms[1])
		server.qp.SinkReady()
		remote, local := server.reg(64, allRights), client.reg(64, 0)
		write := WorkRequest{ID: 1, Op: OpWrite, Flags: Signaled, SGE: []SGE{local.SGE(0, 64)}, RemoteKey: remote.Key(), RemoteAddr: remote.Base()}
		wrong := write
		wrong.ID, wrong.SGE = 2, []SGE{local.SGE(1, 64)}
		say := func(text string, writes ...WorkRequest) {
			t.Helper()
			must(t, client.qp.PostFirst(writes...))
			if n, err := client.frames([]transport.Frame{{Head: []byte(text), Ops: following, Port: sinkNum}}); n != len(text) || err != nil {
				t.Fatal(n, err)
			}
			for _, w := range writes {
				want := Success
				if w.ID == 2 {
					want = LocalProtection
				}
				client.want(w.ID, want, OpWrite)
			}
		}
		say("one ", write)
		say("lost ", wrong)
		say("two ", write)
		say("lost ", write, wrong)
		say("lost ", wrong, write)
		say("three")
		if !holds(func() bool { return client.qp.FramesAcked() == uint64(len("one lost two lost lost three")) }) {
			t.Fatalf("%d acknowledged; %v", client.qp.FramesAcked(), client.qp.Err())
		}
		if got := string(sinks[1].taken()); got != "one two three" {
			t.Errorf("%q", got)
		}
	})
}

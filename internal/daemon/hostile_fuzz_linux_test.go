//go:build live

package daemon

import (
	"encoding/binary"
	"testing"
	"time"

	"github.com/rds-go/rds/internal/client"
	"github.com/rds-go/rds/internal/ipc"
	"github.com/rds-go/rds/internal/rdstest"
	"github.com/rds-go/rds/rds/config"
)

// FuzzSession attaches by hand to a service and does what the input says with
// the shared memory, the bell and the calls. The service must survive, serve a
// good application, and close.
//
// The input is a row of steps: a byte that chooses, and what it needs.
func FuzzSession(f *testing.F) {
	le := binary.LittleEndian
	entry := func(op ipc.Op, n, offset uint32, token uint64) []byte {
		x := ipc.MakeEntry(op, 1, 9, 1<<16, 0, n, offset, 0, token)
		b := []byte{0}
		for _, w := range x {
			b = le.AppendUint64(b, w)
		}
		return b
	}
	f.Add([]byte{})
	f.Add(append(append(entry(ipc.OpSend, 8, 0, 1), entry(ipc.OpSendBlock, 70000, 4096, 2)...), 4, 6, 5))
	f.Add(append(entry(ipc.OpReturn, 0, 0, 1), 4, 1, 0x10, 0xff, 0, 0, 0, 0, 0, 0, 0, 4))
	f.Add([]byte{3, 0x30, 0, 0, 0, 1, 0, 0, 0, 0, 4, 2, 0x80, 1, 2, 3, 4, 5, 6, 7, 8, 4})
	f.Add([]byte{7, 1, 7, 2, 7, 3, 7, 4, 7, 5, 7, 0, 8, '{', '}', 0, 4})
	op := ipc.About{Flags: ipc.AboutRDMA | ipc.AboutWrite, Pieces: []ipc.Piece{{Offset: 0, Length: 8}}}
	f.Add(append(append([]byte{9, 120}, op.AppendTo(nil)...), 10, 0, 8, 0, 5, 7, 6, 7, 7, 6))
	f.Add([]byte{11, 0, 0, 8, 5, 11, 1, 0, 0, 5, 11, 4, 1, 200, 11, 12, 255, 255, 11, 1, 1, 1, 11, 64, 0, 8, 5})
	f.Fuzz(func(t *testing.T, in []byte) {
		l, ops := newOpLab(t)
		n, far := ops.node(l, config.Node{}), l.bind(ops.node(l, config.Node{}))
		svc, path := serving(t, n, config.Service{MaxSockets: 8, SendArena: 1 << 20, ReceiveArena: 1 << 20, MemoryArena: 1 << 20, SendBudget: 1 << 20})
		e := intrude(t, path)
		defer e.leave()
		here := rdstest.NewAddr()
		e.bind(rdstest.AddrOf(here, 77))
		peer := e.resolve(here, far.LocalAddrPort().Addr())
		e.ask(ipc.Request{Op: ipc.CallReach, Socket: 1 << 16, Peer: peer, Wait: true})
		fuzzSteps(e, in, e.resolve(here, here), peer)

		// However it went, others are served.
		c, err := client.Dial(path)
		rdstest.Must(t, err)
		a, b := bound(t, c, rdstest.AddrOf(here, 0)), bound(t, c, rdstest.AddrOf(here, 0))
		rdstest.Must(t, rdstest.Stream(rdstest.Background(t), a, b, 20, func(i int) int { return 8 + i*1000 }))
		_ = c.Close()
		done := make(chan struct{})
		go func() {
			defer close(done)
			_ = svc.Close()
			_ = n.Close()
		}()
		select {
		case <-done:
		case <-time.After(rdstest.Patience):
			t.Fatal("the service does not close")
		}
		if svc.live != 0 || len(svc.lingering) != 0 || len(svc.sessions) != 0 {
			t.Errorf("left over: %d sessions, %d sockets", svc.live, len(svc.lingering))
		}
	})
}

// fuzzSteps does what the input says.
func fuzzSteps(e *evil, in []byte, peer, operator uint32) {
	take := func(n int) []byte {
		b := make([]byte, n)
		in = in[copy(b, in):]
		return b
	}
	word := func() uint64 { return binary.LittleEndian.Uint64(take(8)) }
	for steps := 0; len(in) > 0 && steps < 200; steps++ {
		switch take(1)[0] % 12 {
		case 0: // a submission that is not far from possible: socket and peer exist
			x := ipc.Entry{word(), word(), word(), word()}
			if x[3]&1 == 0 {
				x[0] = x[0]&0xffffffff | 1<<48
				x[1] = x[1]&^0xffffffff | uint64(peer)
			}
			e.submit(x)
		case 1, 2: // a word of the first page, or of the rings and cells
			at := int(take(1)[0])
			e.word(at * 16 % 4096).Store(word())
		case 3:
			at := int(binary.LittleEndian.Uint16(take(2)))
			e.word(4096 + at*8%(rawCells-4096+8*256)).Store(word())
		case 4:
			e.ring()
		case 5: // time for the daemon
			before := e.word(0x180).Load()
			rdstest.Holds(2*time.Millisecond, func() bool { return e.word(0x180).Load() != before })
		case 6: // completions are taken
			e.word(rawCQHead).Store(e.word(rawCQTail).Load())
			e.ring()
		case 7: // a call
			ops := []string{ipc.CallBind, ipc.CallClose, ipc.CallOption, ipc.CallCancel, ipc.CallConnect, ipc.CallInfo, ipc.CallExpose, ipc.CallConceal, ipc.CallReach, ipc.CallAdmit}
			b := take(1)[0]
			_ = e.conn.Send(&ipc.Request{Op: ops[int(b)%len(ops)], Socket: 1<<16 + uint32(b>>6), Linger: time.Duration(b), Option: ipc.OptionReceiveBuffer, Value: int64(b),
				Peer: operator, Length: uint32(b) << 4, Offset: uint32(b) << 13, Flags: uint32(b & 12), Cookie: uint64(b & 1)})
		case 8: // a frame
			n := min(int(take(1)[0]), len(in))
			_, _ = e.sock.Write(take(n + 1))
		case 9: // what a message says about memory
			n := int(take(1)[0])
			copy(e.seg.DataArea()[:ipc.AboutSize+8*ipc.PieceSize], take(n))
		case 10: // and such a message
			b := take(3)
			x := ipc.MakeEntry(ipc.OpSend+ipc.Op(b[0]&1), ipc.FlagAbout|b[0]>>1&1, 9, 1<<16, operator, uint32(b[1]), uint32(b[2]), 0, 1)
			e.submit(x)
		case 11: // a region, or its end
			b := take(3)
			x := exposing(1<<16+uint32(b[0]>>6), uint32(b[1])<<13, uint32(b[2])<<4, uint32(b[0]&12), uint64(b[1]))
			if b[0]&1 != 0 {
				x = concealing(x.Socket(), e.word(rawCQ+32*int(b[1])+16).Load()) // of a region, if a completion there was its answer
			}
			e.submit(x)
		}
	}
}

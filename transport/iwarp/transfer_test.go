//go:build !live

package iwarp

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"testing"

	"github.com/rds-go/rds/mr"
)

// Sends of all sizes arrive whole, in order, each in the memory posted for it.
func TestSendArrivesInPostedMemory(t *testing.T) {
	eachMode(t, func(t *testing.T, client, server *end) {
		src, dst := client.reg(1<<20, 0), server.reg(1<<20, mr.LocalWrite)
		fill(src.Bytes(), 1)
		for i, n := range sizes {
			clear(dst.Bytes())
			server.post(uint64(i), dst.SGE(0, n/2), dst.SGE(n/2, n-n/2))
			client.send(WorkRequest{ID: uint64(i), Flags: Signaled | Solicited, SGE: []SGE{src.SGE(0, n/3), src.SGE(n/3, n-n/3)}})
			client.want(uint64(i), Success, OpSend)
			c := server.want(uint64(i), Success, OpReceive)
			if int(c.Len) != n || !c.Solicited || !bytes.Equal(src.Bytes()[:n], dst.Bytes()[:n]) {
				t.Fatalf("message of %d bytes: %d came", n, c.Len)
			}
		}
	})
}

// Writes and Reads of all sizes move exactly the bytes they name. The remote
// memory is only looked at through the connection: to the race detector nothing
// else orders what this test and the peer's event loop do.
func TestWriteThenRead(t *testing.T) {
	eachMode(t, func(t *testing.T, client, server *end) {
		const room = 1<<20 + 64
		src, zero, back := client.reg(room, 0), client.reg(room, 0), client.reg(room, mr.LocalWrite)
		remote := server.reg(room, allRights)
		fill(src.Bytes(), 2)
		for _, n := range sizes {
			at := WorkRequest{RemoteKey: remote.Key(), RemoteAddr: remote.Base()}
			clean, write, part, all := at, at, at, at
			clean.Op, clean.SGE = OpWrite, []SGE{zero.SGE(0, room)}
			write.Op, write.SGE, write.RemoteAddr = OpWrite, []SGE{src.SGE(3, n)}, remote.Base()+5
			all.ID, all.Op, all.Flags, all.SGE = 1, OpRead, Signaled, []SGE{back.SGE(0, room)}
			client.send(clean, write, all)
			client.want(1, Success, OpRead)
			if !bytes.Equal(back.Bytes()[5:5+n], src.Bytes()[3:3+n]) {
				t.Fatalf("%d bytes written and read back differ", n)
			}
			for _, b := range [][]byte{back.Bytes()[:5], back.Bytes()[5+n:]} {
				if !bytes.Equal(b, zero.Bytes()[:len(b)]) {
					t.Fatalf("bytes beside the %d named were changed", n)
				}
			}
			clear(back.Bytes())
			part.ID, part.Op, part.Flags, part.SGE, part.RemoteAddr = 2, OpRead, Signaled, []SGE{back.SGE(9, n)}, remote.Base()+5
			client.send(part)
			if c := client.want(2, Success, OpRead); int(c.Len) != n {
				t.Fatalf("read %d of %d bytes", c.Len, n)
			}
			if !bytes.Equal(back.Bytes()[9:9+n], src.Bytes()[3:3+n]) || !bytes.Equal(back.Bytes()[9+n:], zero.Bytes()[9+n:]) {
				t.Fatalf("a read of %d bytes did not bring them alone", n)
			}
		}
	})
}

// A queue pair keeps many requests of all kinds outstanding, and completes them
// in order.
func TestManyOutstanding(t *testing.T) {
	eachMode(t, func(t *testing.T, client, server *end) {
		src, sink, dst := client.reg(8192*64, 0), client.reg(8192*64, mr.LocalWrite), server.reg(8192*64, mr.LocalWrite)
		fill(src.Bytes(), 3)
		blocks := make([]byte, 8192*64)
		fill(blocks, 4)
		remote, err := server.pd.RegMR(blocks, allRights, 1<<40)
		must(t, err)
		for i := range 64 {
			server.post(uint64(i), dst.SGE(i*8192, 8192))
		}
		for i := range 64 {
			client.send(
				WorkRequest{ID: uint64(2 * i), Op: OpRead, Flags: Signaled, SGE: []SGE{sink.SGE(i*8192, 8192)}, RemoteKey: remote.Key(), RemoteAddr: remote.Base() + uint64(i)*8192},
				WorkRequest{ID: uint64(2*i + 1), Op: OpSend, Flags: Signaled, SGE: []SGE{src.SGE(i*8192, 8192)}},
			)
		}
		for i := range 64 {
			client.want(uint64(2*i), Success, OpRead)
			client.want(uint64(2*i+1), Success, OpSend)
			server.want(uint64(i), Success, OpReceive)
		}
		if !bytes.Equal(sink.Bytes(), remote.Bytes()) || !bytes.Equal(src.Bytes(), dst.Bytes()) {
			t.Fatal("data differ")
		}
	})
}

func TestAtomicsReturnWhatWasThere(t *testing.T) {
	eachMode(t, func(t *testing.T, client, server *end) {
		remote, res := server.reg(64, allRights), client.reg(64, mr.LocalWrite)
		at := WorkRequest{Flags: Signaled, RemoteKey: remote.Key(), RemoteAddr: remote.Base() + 8}
		add, swap := at, at
		add.ID, add.Op, add.Add, add.SGE = 1, OpFetchAdd, 2, []SGE{res.SGE(0, 8)}
		swap.ID, swap.Op, swap.Compare, swap.CompareMask, swap.Swap, swap.SwapMask, swap.SGE = 2, OpCompareSwap, 42, ^uint64(0), 7, ^uint64(0), []SGE{res.SGE(8, 8)}
		first, read := add, at
		first.ID, first.Add = 0, 40
		read.ID, read.Op, read.SGE = 3, OpRead, []SGE{res.SGE(16, 8)}
		client.send(first, add, swap, read)
		client.want(0, Success, OpFetchAdd)
		client.want(1, Success, OpFetchAdd)
		client.want(2, Success, OpCompareSwap)
		client.want(3, Success, OpRead)
		word := func(at int) uint64 { return binary.NativeEndian.Uint64(res.Bytes()[at:]) }
		if got := [3]uint64{word(0), word(8), word(16)}; got != [3]uint64{40, 42, 7} {
			t.Fatalf("found %d and %d, left %d", got[0], got[1], got[2])
		}
	})
}

func TestInlineImmediateAndInvalidate(t *testing.T) {
	eachMode(t, func(t *testing.T, client, server *end) {
		dst, victim, tmp := server.reg(64, mr.LocalWrite), server.reg(64, allRights), client.reg(8, mr.LocalWrite)
		for i := range 3 {
			server.post(uint64(i), dst.SGE(0, 64))
		}
		text := []byte("inline")
		client.send(WorkRequest{ID: 1, Flags: Signaled, Inline: text}, WorkRequest{ID: 2, Op: OpImmediate, Flags: Signaled, Immediate: 77},
			WorkRequest{ID: 3, Op: OpSendInvalidate, Flags: Signaled, Invalidate: victim.Key()})
		copy(text, "mangle") // ours again
		for i, op := range []Op{OpSend, OpImmediate, OpSendInvalidate} {
			client.want(uint64(i+1), Success, op)
		}
		if c := server.want(0, Success, OpReceive); string(dst.Bytes()[:c.Len]) != "inline" {
			t.Fatalf("got %q", dst.Bytes()[:c.Len])
		}
		if c := server.want(1, Success, OpImmediate); c.Immediate != 77 {
			t.Fatalf("immediate %d", c.Immediate)
		}
		if c := server.want(2, Success, OpReceive); c.Invalidated != victim.Key() {
			t.Fatalf("invalidated %v", c.Invalidated)
		}
		client.send(WorkRequest{ID: 4, Op: OpRead, SGE: []SGE{tmp.SGE(0, 8)}, RemoteKey: victim.Key(), RemoteAddr: victim.Base()})
		client.want(4, RemoteAccess, OpRead)
		if err := victim.Dereg(within(t)); err != nil {
			t.Fatalf("an invalidated region cannot be deregistered: %v", err)
		}
	})
}

func TestDisconnectDeliversWhatWasPosted(t *testing.T) {
	eachMode(t, func(t *testing.T, client, server *end) {
		src, dst := client.reg(1<<20, 0), server.reg(1<<20, mr.LocalWrite)
		for i := range 8 {
			server.post(uint64(i), dst.SGE(0, 1<<20))
		}
		for range 8 {
			client.send(WorkRequest{SGE: []SGE{src.SGE(0, 1<<20)}})
		}
		must(t, client.qp.Disconnect())
		for i := range 8 {
			server.want(uint64(i), Success, OpReceive)
		}
		<-server.qp.Done()
		<-client.qp.Done()
		if s := fmt.Sprint(client.qp.State(), server.qp.State()); s != "error error" {
			t.Fatal(s)
		}
	})
}

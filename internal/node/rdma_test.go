//go:build !live

package node

import (
	"bytes"
	"encoding/binary"
	"errors"
	"maps"
	"net/netip"
	"syscall"
	"testing"

	"github.com/rds-go/rds/internal/rdstest"
	"github.com/rds-go/rds/internal/socket"
	"github.com/rds-go/rds/rds/config"
	"github.com/rds-go/rds/rds/datagram"
	"github.com/rds-go/rds/transport"
)

func TestWriteIsInPlaceWhenTheMessageArrives(t *testing.T) {
	eachWay(t, func(t *testing.T, l *lab, node func() *Node, a, b *socket.Socket) {
		for i := range uint64(20) {
			mem := make([]byte, 100_000)
			c := rdstest.MustGetMR(t, b, mem, datagram.MRReadWrite)
			data := rdstest.Payload(i, 90_000)
			rdstest.Operate(t, a, b, i, datagram.Outgoing{Data: []byte("written"), RDMA: &datagram.RDMA{Cookie: c, Offset: 7, Local: [][]byte{data[:10], data[10:]}, Write: true}})
			rdstest.Expect(t, b, "written")
			rdstest.Must(t, rdstest.Verify(mem[7:7+90_000], i))
			rdstest.WantStatus(t, a, i, datagram.StatusSuccess)
		}
		rdstest.WantCounter(t, nodeOf(a), "send_rdma_bytes", 20*90_000)
	})
}

func TestReadFillsLocalMemory(t *testing.T) {
	eachWay(t, func(t *testing.T, l *lab, node func() *Node, a, b *socket.Socket) {
		mem := rdstest.Payload(3, config.MaxMessage)
		c := rdstest.MustGetMR(t, b, mem, datagram.MRReadOnly)
		first, second := make([]byte, 1000), make([]byte, config.MaxMessage-1000)
		rdstest.Operate(t, a, b, 1, datagram.Outgoing{RDMA: &datagram.RDMA{Cookie: c, Local: [][]byte{first, second}}})
		rdstest.WantStatus(t, a, 1, datagram.StatusSuccess)
		if !bytes.Equal(append(first, second...), mem) {
			t.Error("what was read is not what is there")
		}
		rdstest.WantCounter(t, nodeOf(a), "recv_rdma_bytes", config.MaxMessage)
		rdstest.Operate(t, a, b, 2, datagram.Outgoing{RDMA: &datagram.RDMA{Cookie: c, Local: [][]byte{first}, Write: true}})
		rdstest.WantStatus(t, a, 2, datagram.StatusRemoteError)
	})
}

func TestAtomics(t *testing.T) {
	eachWay(t, func(t *testing.T, l *lab, node func() *Node, a, b *socket.Socket) {
		for i, x := range []struct {
			name      string
			was, want uint64
			op        datagram.Atomic
		}{
			{"add", 40, 42, datagram.Atomic{Add: 2}},
			{"add wraps", ^uint64(0), 1, datagram.Atomic{Add: 2}},
			{"no carry out of the low half", 0x1_ffffffff, 0x1_00000000, datagram.Atomic{Add: 1, AddMask: 1 << 31}},
			{"swap", 5, 9, datagram.Atomic{Kind: datagram.CompareSwap, Compare: 5, Swap: 9}},
			{"no swap", 6, 6, datagram.Atomic{Kind: datagram.CompareSwap, Compare: 5, Swap: 9}},
			{"masks do not matter to CompareSwap", 6, 6, datagram.Atomic{Kind: datagram.CompareSwap, Compare: 5, Swap: 9, CompareMask: 4, SwapMask: 1}},
			{"masked swap", 0xab, 0xcb, datagram.Atomic{Kind: datagram.MaskedCompareSwap, Compare: 0xfb, CompareMask: 0x0f, Swap: 0xcc, SwapMask: 0xf0}},
			{"no masked swap", 0xab, 0xab, datagram.Atomic{Kind: datagram.MaskedCompareSwap, Compare: 0xfc, CompareMask: 0x0f, Swap: 0xcc, SwapMask: 0xf0}},
		} {
			mem, err := b.AllocMemory(20)
			rdstest.Must(t, err)
			word := mem.B[8:16]
			rdstest.PutWord(word, x.was)
			c := rdstest.MustGetMR(t, b, mem.B, 0)
			var old uint64
			x.op.Cookie, x.op.Offset, x.op.Result = c, 8, &old
			rdstest.Operate(t, a, b, uint64(i), datagram.Outgoing{Data: []byte("done"), Atomic: &x.op})
			rdstest.Expect(t, b, "done")
			rdstest.WantStatus(t, a, uint64(i), datagram.StatusSuccess)
			if got := binary.NativeEndian.Uint64(word); got != x.want || old != x.was {
				t.Errorf("%s: %#x, and was %#x", x.name, got, old)
			}
			rdstest.NoError(t, b.FreeMR(c, datagram.MRInvalidate))
			mem.Release()
		}
		c := rdstest.MustGetMR(t, b, make([]byte, 8), 0)
		rdstest.Operate(t, a, b, 1, datagram.Outgoing{Atomic: &datagram.Atomic{Cookie: c, Add: 1}}) // nobody wants the result
		rdstest.WantStatus(t, a, 1, datagram.StatusSuccess)
	})
}

// One message may have both; its fate is the worse of the two.
func TestWriteAndAtomicTogether(t *testing.T) {
	eachWay(t, func(t *testing.T, l *lab, node func() *Node, a, b *socket.Socket) {
		mem := make([]byte, 64)
		c := rdstest.MustGetMR(t, b, mem, 0)
		o := datagram.Outgoing{RDMA: &datagram.RDMA{Cookie: c, Local: [][]byte{[]byte("payload!")}, Write: true}, Atomic: &datagram.Atomic{Cookie: c, Offset: 8, Add: 1}}
		rdstest.Operate(t, a, b, 1, o)
		rdstest.WantStatus(t, a, 1, datagram.StatusSuccess)
		rdstest.Expect(t, b, "")
		if string(mem[:8]) != "payload!" || binary.NativeEndian.Uint64(mem[8:]) != 1 {
			t.Errorf("% x", mem[:16])
		}
		half := make([]byte, 64)
		c = rdstest.MustGetMR(t, b, half, 0)
		o.RDMA.Cookie = c
		o.Atomic = &datagram.Atomic{Cookie: c + 1, Offset: 8, Add: 1}
		rdstest.Operate(t, a, b, 2, o)
		rdstest.WantStatus(t, a, 2, datagram.StatusRemoteError)
		o.RDMA.Cookie, o.Atomic = c+1, &datagram.Atomic{Cookie: c, Offset: 16, Add: 1}
		rdstest.Operate(t, a, b, 3, o)
		rdstest.WantStatus(t, a, 3, datagram.StatusRemoteError)
		rdstest.Must(t, b.FreeMR(c, datagram.MRInvalidate)) // the memory is ours again
		if string(half[:8]) != "payload!" || binary.NativeEndian.Uint64(half[16:]) != 1 {
			t.Errorf("what was not refused is not done: % x", half[:24])
		}
	})
}

func TestFenceHoldsTheMessageBack(t *testing.T) {
	opBubble(t, func(t *testing.T, l *lab, n *opNet, a, b *socket.Socket) {
		c := rdstest.MustGetMR(t, b, []byte("what there is to read"), 0)
		rdstest.MustSend(t, a, b.LocalAddrPort(), []byte("connect"))
		rdstest.Expect(t, b, "connect")
		n.Set(func() { n.Hold = true })
		got := make([]byte, 4)
		rdstest.Operate(t, a, b, 1, datagram.Outgoing{Data: []byte("not fenced"), RDMA: &datagram.RDMA{Cookie: c, Local: [][]byte{got}}})
		rdstest.Expect(t, b, "not fenced") // before the read has ended
		rdstest.Operate(t, a, b, 2, datagram.Outgoing{Data: []byte("fenced"), RDMA: &datagram.RDMA{Cookie: c, Local: [][]byte{got}, Fence: true}})
		rdstest.MustSend(t, a, b.LocalAddrPort(), []byte("behind"))
		n.WaitHeld(t, 2)
		nodeOf(a).EachPeer((*Peer).Push)
		rdstest.WantNothing(t, b)
		rdstest.WantNothing(t, a) // the messages' bytes alone are no success
		n.Release()
		rdstest.Expect(t, b, "fenced")
		rdstest.Expect(t, b, "behind")
		rdstest.WantStatus(t, a, 1, datagram.StatusSuccess)
		rdstest.WantStatus(t, a, 2, datagram.StatusSuccess)
		if string(got) != "what" {
			t.Errorf("read %q", got)
		}
		rdstest.Operate(t, a, b, 3, datagram.Outgoing{Data: []byte("of a read that failed"), RDMA: &datagram.RDMA{Cookie: c + 1, Local: [][]byte{got}, Fence: true}})
		rdstest.WantStatus(t, a, 3, datagram.StatusRemoteError)
		rdstest.MustSend(t, a, b.LocalAddrPort(), []byte("next"))
		rdstest.Expect(t, b, "next")
	})
}

func TestSilentOperations(t *testing.T) {
	eachWay(t, func(t *testing.T, l *lab, node func() *Node, a, b *socket.Socket) {
		mem := make([]byte, 64)
		c := rdstest.MustGetMR(t, b, mem, 0)
		write := &datagram.RDMA{Cookie: c, Local: [][]byte{[]byte("silence")}, Write: true, Silent: true}
		add := &datagram.Atomic{Cookie: c, Offset: 16, Add: 1, Silent: true}
		rdstest.Operate(t, a, b, 1, datagram.Outgoing{RDMA: write})
		rdstest.Operate(t, a, b, 2, datagram.Outgoing{RDMA: write, Atomic: add})
		rdstest.Operate(t, a, b, 3, datagram.Outgoing{Atomic: add})
		for range 3 { // in any order
			m := rdstest.MustRecv(t, a)
			if m.Kind != datagram.KindStatus || m.Status != datagram.StatusSuccess {
				t.Errorf("%+v", &m)
			}
		}
		rdstest.WantNothing(t, b)
		// What is not silent in all its parts has a message.
		loud := *add
		loud.Silent = false
		rdstest.Operate(t, a, b, 4, datagram.Outgoing{RDMA: write, Atomic: &loud})
		rdstest.Expect(t, b, "")
		rdstest.Operate(t, a, b, 5, datagram.Outgoing{RDMA: write, Data: []byte("payload")})
		rdstest.Expect(t, b, "payload")
		if string(mem[:7]) != "silence" || binary.NativeEndian.Uint64(mem[16:]) != 3 {
			t.Errorf("% x", mem[:24])
		}
		if got := halfOf(a).Account.Messages(); got > 2 {
			t.Errorf("%d messages charged", got)
		}
	})
}

// A bad key fails its own operation; the message that would follow a write does
// not arrive, and everything else goes on, on the same link.
func TestMRREQ26BadKeyCostsItsOwnOperation(t *testing.T) {
	eachWay(t, func(t *testing.T, l *lab, node func() *Node, a, b *socket.Socket) {
		c := rdstest.MustGetMR(t, b, make([]byte, 100), 0)
		data := [][]byte{make([]byte, 50)}
		for i, r := range []datagram.RDMA{
			{Cookie: c ^ 1, Write: true},
			{Cookie: 0, Write: true},
			{Cookie: c, Offset: 51, Write: true},
			{Cookie: c, Offset: 51},
			{Cookie: c - 1<<32, Write: true}, // an offset before the first byte
		} {
			r.Local = data
			rdstest.Operate(t, a, b, uint64(i), datagram.Outgoing{Data: []byte("bad"), RDMA: &r})
			rdstest.WantStatus(t, a, uint64(i), datagram.StatusRemoteError)
			if !r.Write {
				rdstest.Expect(t, b, "bad")
			}
			rdstest.MustSend(t, a, b.LocalAddrPort(), []byte("good"))
			rdstest.Expect(t, b, "good")
		}
		rdstest.WantCounter(t, nodeOf(a), "conn_reset", 0)
	})
}

func TestOperationThatFailsHere(t *testing.T) {
	opBubble(t, func(t *testing.T, l *lab, n *opNet, a, b *socket.Socket) {
		c := rdstest.MustGetMR(t, b, make([]byte, 100), 0)
		n.Set(func() { n.Fail = true })
		rdstest.Operate(t, a, b, 1, datagram.Outgoing{RDMA: &datagram.RDMA{Cookie: c, Local: [][]byte{{1}}, Write: true}})
		rdstest.WantStatus(t, a, 1, datagram.StatusOtherError)
	})
}

func TestFullLinkTakesOperationsLater(t *testing.T) {
	opBubble(t, func(t *testing.T, l *lab, n *opNet, a, b *socket.Socket) {
		mem := make([]byte, 100)
		c := rdstest.MustGetMR(t, b, mem, 0)
		n.Set(func() { n.Full = true })
		for i := range byte(3) {
			rdstest.Operate(t, a, b, uint64(i), datagram.Outgoing{Data: []byte{i}, RDMA: &datagram.RDMA{Cookie: c, Offset: uint64(i), Local: [][]byte{{i + 1}}, Write: true}})
		}
		rdstest.MustSend(t, a, b.LocalAddrPort(), []byte("last"))
		nodeOf(a).EachPeer((*Peer).Push)
		rdstest.WantNothing(t, b)
		n.Open()
		ends := map[uint64]datagram.Status{}
		for i := range byte(3) {
			rdstest.Expect(t, b, string([]byte{i}))
			m := rdstest.MustRecv(t, a) // opNet reports each end from a goroutine of its own, in any order
			ends[m.Token] = m.Status
		}
		if want := (map[uint64]datagram.Status{0: datagram.StatusSuccess, 1: datagram.StatusSuccess, 2: datagram.StatusSuccess}); !maps.Equal(ends, want) {
			t.Errorf("%v", ends)
		}
		rdstest.Expect(t, b, "last")
		if !bytes.Equal(mem[:4], []byte{1, 2, 3, 0}) {
			t.Errorf("% x", mem[:4])
		}
	})
}

// The errors of rds_sendmsg, in part ours: what it does not check is left to
// the peer.
func TestOperationErrors(t *testing.T) {
	opBubble(t, func(t *testing.T, l *lab, n *opNet, a, b *socket.Socket) {
		c := rdstest.MustGetMR(t, a, make([]byte, 100), 0)
		one := [][]byte{{1}}
		tooMany := make([][]byte, 1025)
		for i := range tooMany {
			tooMany[i] = one[0]
		}
		half := make([]byte, config.MaxMessage/2)
		read := &datagram.RDMA{Local: one}
		add := &datagram.Atomic{}
		for _, x := range []struct {
			name string
			o    datagram.Outgoing
			want error
		}{
			{"no local memory", datagram.Outgoing{RDMA: &datagram.RDMA{}}, syscall.EINVAL},
			{"an empty piece", datagram.Outgoing{RDMA: &datagram.RDMA{Local: [][]byte{{1}, {}}}}, syscall.EINVAL},
			{"1,025 pieces", datagram.Outgoing{RDMA: &datagram.RDMA{Local: tooMany}}, syscall.EMSGSIZE},
			{"more than 1 MiB", datagram.Outgoing{RDMA: &datagram.RDMA{Local: [][]byte{half, half, {1}}}}, syscall.EMSGSIZE},
			{"addresses that wrap", datagram.Outgoing{RDMA: &datagram.RDMA{Local: one, Offset: ^uint64(0)}}, syscall.EINVAL},
			{"an atomic of no kind", datagram.Outgoing{Atomic: &datagram.Atomic{Kind: datagram.MaskedCompareSwap + 1}}, syscall.EINVAL},
			{"an atomic that wraps", datagram.Outgoing{Atomic: &datagram.Atomic{Cookie: 8 << 32, Offset: ^uint64(7)}}, syscall.EINVAL},
			{"an atomic on no word", datagram.Outgoing{Atomic: &datagram.Atomic{Cookie: 8 << 32, Offset: 4}}, syscall.EINVAL},
			{"RDMA and Dest", datagram.Outgoing{RDMA: read, HasDest: true, Dest: c}, syscall.EINVAL},
			{"RDMA and Map", datagram.Outgoing{RDMA: read, Map: &datagram.Map{Memory: one[0]}}, syscall.EINVAL},
			{"Atomic and Dest", datagram.Outgoing{Atomic: add, HasDest: true, Dest: c}, syscall.EINVAL},
			{"Atomic and Map", datagram.Outgoing{Atomic: add, Map: &datagram.Map{Memory: one[0]}}, syscall.EINVAL},
			{"Dest and Map", datagram.Outgoing{HasDest: true, Dest: c, Map: &datagram.Map{Memory: one[0]}}, syscall.EINVAL},
			{"Dest of nobody", datagram.Outgoing{HasDest: true, Dest: c + 256}, syscall.EINVAL},
			{"Map of nothing", datagram.Outgoing{Map: &datagram.Map{}}, syscall.EINVAL},
			{"Map of too much", datagram.Outgoing{Map: &datagram.Map{Memory: make([]byte, config.MaxMessage+1)}}, syscall.EMSGSIZE},
			{"Map with unknown flags", datagram.Outgoing{Map: &datagram.Map{Memory: one[0], Flags: 0x40}}, syscall.EINVAL},
			{"no destination", datagram.Outgoing{To: netip.AddrPort{}, RDMA: read}, syscall.ENOTCONN},
			{"payload too long", datagram.Outgoing{Data: make([]byte, config.MaxMessage+1), RDMA: read}, syscall.EMSGSIZE},
		} {
			if !errors.Is(x.want, syscall.ENOTCONN) {
				x.o.To = b.LocalAddrPort()
			}
			rdstest.WantErr(t, x.name, a.SendMessage(rdstest.Background(t), &x.o), x.want)
			if k, err := a.TrySendBatch([]datagram.Outgoing{x.o}); k != 0 || !errors.Is(err, x.want) {
				t.Errorf("%s, in a batch: %d, %v", x.name, k, err)
			}
		}
		if got := halfOf(a).Account.Messages(); got != 0 {
			t.Errorf("%d messages charged", got)
		}
		if got := len(n.Begun); got != 0 {
			t.Errorf("%d operations begun", got)
		}
	})
}

// Operations in a batch are done in their order among the messages.
func TestOperationsInBatches(t *testing.T) {
	opBubble(t, func(t *testing.T, l *lab, n *opNet, a, b *socket.Socket) {
		mem := make([]byte, 100)
		c := rdstest.MustGetMR(t, b, mem, 0)
		var out []datagram.Outgoing
		for i := range byte(60) {
			o := datagram.Outgoing{To: b.LocalAddrPort(), Data: []byte{i}}
			if i%3 == 0 {
				o.RDMA = &datagram.RDMA{Cookie: c, Offset: uint64(i), Local: [][]byte{{i}}, Write: true}
			}
			out = append(out, o)
		}
		if k, err := a.SendBatch(rdstest.Background(t), out); k != len(out) || err != nil {
			t.Fatal(k, err)
		}
		for i := range byte(60) {
			rdstest.Expect(t, b, string([]byte{i}))
			if i%3 == 0 && mem[i] != i {
				t.Errorf("message %d before its write", i)
			}
		}
		if got := len(n.Begun); got != 20 {
			t.Errorf("%d operations", got)
		}
		if n.Begun[0].Kind != transport.OpWrite {
			t.Error("not a write")
		}
	})
}

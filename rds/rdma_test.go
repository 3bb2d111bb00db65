package rds

import (
	"bytes"
	"encoding/binary"
	"errors"
	"maps"
	"net/netip"
	"syscall"
	"testing"

	"github.com/rds-go/rds/transport"
)

// mustGetMR exposes memory.
func mustGetMR(t testing.TB, s *Socket, mem []byte, flags MRFlags) Cookie {
	t.Helper()
	c, err := s.GetMR(mem, flags)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// mustGetMRFor is mustGetMR for the operations of another socket's host.
func mustGetMRFor(t testing.TB, s, dest *Socket, mem []byte, flags MRFlags) Cookie {
	t.Helper()
	c, err := s.GetMRForDest(dest.LocalAddrPort(), mem, flags)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// operate sends a message with Notify and token, whatever else o says.
func operate(t testing.TB, s *Socket, to *Socket, token uint64, o Outgoing) {
	t.Helper()
	o.To, o.Notify, o.Token = to.LocalAddrPort(), true, token
	if err := s.SendMessage(background(t), &o); err != nil {
		t.Fatal(err)
	}
}

func wantNothing(t testing.TB, s *Socket) {
	t.Helper()
	if m, err := s.TryRecv(); !errors.Is(err, ErrWouldBlock) {
		t.Errorf("received %v, %v", &m, err)
		m.Release()
	}
}

func TestWriteIsInPlaceWhenTheMessageArrives(t *testing.T) {
	t.Parallel()
	eachRDMA(t, func(t *testing.T, l *lab, node func() *Node) {
		a, b := l.bind(node()), l.bind(node())
		for i := range uint64(20) {
			mem := make([]byte, 100_000)
			c := mustGetMR(t, b, mem, MRReadWrite)
			data := payload(i, 90_000)
			operate(t, a, b, i, Outgoing{Data: []byte("written"), RDMA: &RDMA{Cookie: c, Offset: 7, Local: [][]byte{data[:10], data[10:]}, Write: true}})
			expect(t, b, "written")
			if err := verify(mem[7:7+90_000], i); err != nil {
				t.Fatal(err)
			}
			wantStatus(t, a, i, StatusSuccess)
		}
		if got := counter(t, nodeOf(a), "send_rdma_bytes"); got != 20*90_000 {
			t.Errorf("send_rdma_bytes is %d", got)
		}
	})
}

func TestReadFillsLocalMemory(t *testing.T) {
	t.Parallel()
	eachRDMA(t, func(t *testing.T, l *lab, node func() *Node) {
		a, b := l.bind(node()), l.bind(node())
		mem := payload(3, MaxMessage)
		c := mustGetMR(t, b, mem, MRReadOnly)
		first, second := make([]byte, 1000), make([]byte, MaxMessage-1000)
		operate(t, a, b, 1, Outgoing{RDMA: &RDMA{Cookie: c, Local: [][]byte{first, second}}})
		wantStatus(t, a, 1, StatusSuccess)
		if !bytes.Equal(append(first, second...), mem) {
			t.Error("what was read is not what is there")
		}
		if got := counter(t, nodeOf(a), "recv_rdma_bytes"); got != MaxMessage {
			t.Errorf("recv_rdma_bytes is %d", got)
		}
		operate(t, a, b, 2, Outgoing{RDMA: &RDMA{Cookie: c, Local: [][]byte{first}, Write: true}})
		wantStatus(t, a, 2, StatusRemoteError)
	})
}

func TestAtomics(t *testing.T) {
	t.Parallel()
	eachRDMA(t, func(t *testing.T, l *lab, node func() *Node) {
		a, b := l.bind(node()), l.bind(node())
		for i, x := range []struct {
			name      string
			was, want uint64
			op        Atomic
		}{
			{"add", 40, 42, Atomic{Add: 2}},
			{"add wraps", ^uint64(0), 1, Atomic{Add: 2}},
			{"no carry out of the low half", 0x1_ffffffff, 0x1_00000000, Atomic{Add: 1, AddMask: 1 << 31}},
			{"swap", 5, 9, Atomic{Kind: CompareSwap, Compare: 5, Swap: 9}},
			{"no swap", 6, 6, Atomic{Kind: CompareSwap, Compare: 5, Swap: 9}},
			{"masks do not matter to CompareSwap", 6, 6, Atomic{Kind: CompareSwap, Compare: 5, Swap: 9, CompareMask: 4, SwapMask: 1}},
			{"masked swap", 0xab, 0xcb, Atomic{Kind: MaskedCompareSwap, Compare: 0xfb, CompareMask: 0x0f, Swap: 0xcc, SwapMask: 0xf0}},
			{"no masked swap", 0xab, 0xab, Atomic{Kind: MaskedCompareSwap, Compare: 0xfc, CompareMask: 0x0f, Swap: 0xcc, SwapMask: 0xf0}},
		} {
			mem, err := b.AllocMemory(20)
			if err != nil {
				t.Fatal(err)
			}
			word := mem.B[8:16]
			putWord(word, x.was)
			c := mustGetMR(t, b, mem.B, 0)
			var old uint64
			x.op.Cookie, x.op.Offset, x.op.Result = c, 8, &old
			operate(t, a, b, uint64(i), Outgoing{Data: []byte("done"), Atomic: &x.op})
			expect(t, b, "done")
			wantStatus(t, a, uint64(i), StatusSuccess)
			if got := binary.NativeEndian.Uint64(word); got != x.want || old != x.was {
				t.Errorf("%s: %#x, and was %#x", x.name, got, old)
			}
			if err := b.FreeMR(c, MRInvalidate); err != nil {
				t.Error(err)
			}
			mem.Release()
		}
		c := mustGetMR(t, b, make([]byte, 8), 0)
		operate(t, a, b, 1, Outgoing{Atomic: &Atomic{Cookie: c, Add: 1}}) // nobody wants the result
		wantStatus(t, a, 1, StatusSuccess)
	})
}

// One message may have both; its fate is the worse of the two.
func TestWriteAndAtomicTogether(t *testing.T) {
	t.Parallel()
	eachRDMA(t, func(t *testing.T, l *lab, node func() *Node) {
		a, b := l.bind(node()), l.bind(node())
		mem := make([]byte, 64)
		c := mustGetMR(t, b, mem, 0)
		o := Outgoing{RDMA: &RDMA{Cookie: c, Local: [][]byte{[]byte("payload!")}, Write: true}, Atomic: &Atomic{Cookie: c, Offset: 8, Add: 1}}
		operate(t, a, b, 1, o)
		wantStatus(t, a, 1, StatusSuccess)
		expect(t, b, "")
		if string(mem[:8]) != "payload!" || binary.NativeEndian.Uint64(mem[8:]) != 1 {
			t.Errorf("% x", mem[:16])
		}
		half := make([]byte, 64)
		c = mustGetMR(t, b, half, 0)
		o.RDMA.Cookie = c
		o.Atomic = &Atomic{Cookie: c + 1, Offset: 8, Add: 1}
		operate(t, a, b, 2, o)
		wantStatus(t, a, 2, StatusRemoteError)
		o.RDMA.Cookie, o.Atomic = c+1, &Atomic{Cookie: c, Offset: 16, Add: 1}
		operate(t, a, b, 3, o)
		wantStatus(t, a, 3, StatusRemoteError)
		if err := b.FreeMR(c, MRInvalidate); err != nil { // the memory is ours again
			t.Fatal(err)
		}
		if string(half[:8]) != "payload!" || binary.NativeEndian.Uint64(half[16:]) != 1 {
			t.Errorf("what was not refused is not done: % x", half[:24])
		}
	})
}

func TestFenceHoldsTheMessageBack(t *testing.T) {
	t.Parallel()
	l, n := newOpLab(t)
	a, b := n.pair(l)
	c := mustGetMR(t, b, []byte("what there is to read"), 0)
	mustSend(t, a, b.LocalAddrPort(), []byte("connect"))
	expect(t, b, "connect")
	n.set(func() { n.hold = true })
	got := make([]byte, 4)
	operate(t, a, b, 1, Outgoing{Data: []byte("not fenced"), RDMA: &RDMA{Cookie: c, Local: [][]byte{got}}})
	expect(t, b, "not fenced") // before the read has ended
	operate(t, a, b, 2, Outgoing{Data: []byte("fenced"), RDMA: &RDMA{Cookie: c, Local: [][]byte{got}, Fence: true}})
	mustSend(t, a, b.LocalAddrPort(), []byte("behind"))
	n.waitHeld(t, 2)
	nodeOf(a).eachPeer((*peer).Push)
	wantNothing(t, b)
	wantNothing(t, a) // the messages' bytes alone are no success
	n.release()
	expect(t, b, "fenced")
	expect(t, b, "behind")
	wantStatus(t, a, 1, StatusSuccess)
	wantStatus(t, a, 2, StatusSuccess)
	if string(got) != "what" {
		t.Errorf("read %q", got)
	}
	operate(t, a, b, 3, Outgoing{Data: []byte("of a read that failed"), RDMA: &RDMA{Cookie: c + 1, Local: [][]byte{got}, Fence: true}})
	wantStatus(t, a, 3, StatusRemoteError)
	mustSend(t, a, b.LocalAddrPort(), []byte("next"))
	expect(t, b, "next")
}

func TestSilentOperations(t *testing.T) {
	t.Parallel()
	eachRDMA(t, func(t *testing.T, l *lab, node func() *Node) {
		a, b := l.bind(node()), l.bind(node())
		mem := make([]byte, 64)
		c := mustGetMR(t, b, mem, 0)
		write := &RDMA{Cookie: c, Local: [][]byte{[]byte("silence")}, Write: true, Silent: true}
		add := &Atomic{Cookie: c, Offset: 16, Add: 1, Silent: true}
		operate(t, a, b, 1, Outgoing{RDMA: write})
		operate(t, a, b, 2, Outgoing{RDMA: write, Atomic: add})
		operate(t, a, b, 3, Outgoing{Atomic: add})
		for range 3 { // in any order
			m := mustRecv(t, a)
			if m.Kind != KindStatus || m.Status != StatusSuccess {
				t.Errorf("%+v", &m)
			}
		}
		wantNothing(t, b)
		// What is not silent in all its parts has a message.
		loud := *add
		loud.Silent = false
		operate(t, a, b, 4, Outgoing{RDMA: write, Atomic: &loud})
		expect(t, b, "")
		operate(t, a, b, 5, Outgoing{RDMA: write, Data: []byte("payload")})
		expect(t, b, "payload")
		if string(mem[:7]) != "silence" || binary.NativeEndian.Uint64(mem[16:]) != 3 {
			t.Errorf("% x", mem[:24])
		}
		if got := halfOf(a).account.Messages(); got > 2 {
			t.Errorf("%d messages charged", got)
		}
	})
}

// A bad key fails its own operation; the message that would follow a write does
// not arrive, and everything else goes on, on the same link.
func TestMRREQ26BadKeyCostsItsOwnOperation(t *testing.T) {
	t.Parallel()
	eachRDMA(t, func(t *testing.T, l *lab, node func() *Node) {
		a, b := l.bind(node()), l.bind(node())
		c := mustGetMR(t, b, make([]byte, 100), 0)
		data := [][]byte{make([]byte, 50)}
		for i, r := range []RDMA{
			{Cookie: c ^ 1, Write: true},
			{Cookie: 0, Write: true},
			{Cookie: c, Offset: 51, Write: true},
			{Cookie: c, Offset: 51},
			{Cookie: c - 1<<32, Write: true}, // an offset before the first byte
		} {
			r.Local = data
			operate(t, a, b, uint64(i), Outgoing{Data: []byte("bad"), RDMA: &r})
			wantStatus(t, a, uint64(i), StatusRemoteError)
			if !r.Write {
				expect(t, b, "bad")
			}
			mustSend(t, a, b.LocalAddrPort(), []byte("good"))
			expect(t, b, "good")
		}
		if got := counter(t, nodeOf(a), "conn_reset"); got != 0 {
			t.Errorf("%d connections reset", got)
		}
	})
}

func TestOperationThatFailsHere(t *testing.T) {
	t.Parallel()
	l, n := newOpLab(t)
	a, b := n.pair(l)
	c := mustGetMR(t, b, make([]byte, 100), 0)
	n.set(func() { n.fail = true })
	operate(t, a, b, 1, Outgoing{RDMA: &RDMA{Cookie: c, Local: [][]byte{{1}}, Write: true}})
	wantStatus(t, a, 1, StatusOtherError)
}

func TestFullLinkTakesOperationsLater(t *testing.T) {
	t.Parallel()
	l, n := newOpLab(t)
	a, b := n.pair(l)
	mem := make([]byte, 100)
	c := mustGetMR(t, b, mem, 0)
	n.set(func() { n.full = true })
	for i := range byte(3) {
		operate(t, a, b, uint64(i), Outgoing{Data: []byte{i}, RDMA: &RDMA{Cookie: c, Offset: uint64(i), Local: [][]byte{{i + 1}}, Write: true}})
	}
	mustSend(t, a, b.LocalAddrPort(), []byte("last"))
	nodeOf(a).eachPeer((*peer).Push)
	wantNothing(t, b)
	n.open()
	ends := map[uint64]Status{}
	for i := range byte(3) {
		expect(t, b, string([]byte{i}))
		m := mustRecv(t, a) // opNet reports each end from a goroutine of its own, in any order
		ends[m.Token] = m.Status
	}
	if want := (map[uint64]Status{0: StatusSuccess, 1: StatusSuccess, 2: StatusSuccess}); !maps.Equal(ends, want) {
		t.Errorf("%v", ends)
	}
	expect(t, b, "last")
	if !bytes.Equal(mem[:4], []byte{1, 2, 3, 0}) {
		t.Errorf("% x", mem[:4])
	}
}

// The errors of rds_sendmsg, in part ours: what it does not check is left to
// the peer.
func TestOperationErrors(t *testing.T) {
	t.Parallel()
	l, n := newOpLab(t)
	a, b := n.pair(l)
	c := mustGetMR(t, a, make([]byte, 100), 0)
	one := [][]byte{{1}}
	tooMany := make([][]byte, 1025)
	for i := range tooMany {
		tooMany[i] = one[0]
	}
	half := make([]byte, MaxMessage/2)
	read := &RDMA{Local: one}
	add := &Atomic{}
	for _, x := range []struct {
		name string
		o    Outgoing
		want error
	}{
		{"no local memory", Outgoing{RDMA: &RDMA{}}, syscall.EINVAL},
		{"an empty piece", Outgoing{RDMA: &RDMA{Local: [][]byte{{1}, {}}}}, syscall.EINVAL},
		{"1,025 pieces", Outgoing{RDMA: &RDMA{Local: tooMany}}, syscall.EMSGSIZE},
		{"more than 1 MiB", Outgoing{RDMA: &RDMA{Local: [][]byte{half, half, {1}}}}, syscall.EMSGSIZE},
		{"addresses that wrap", Outgoing{RDMA: &RDMA{Local: one, Offset: ^uint64(0)}}, syscall.EINVAL},
		{"an atomic of no kind", Outgoing{Atomic: &Atomic{Kind: MaskedCompareSwap + 1}}, syscall.EINVAL},
		{"an atomic that wraps", Outgoing{Atomic: &Atomic{Cookie: 8 << 32, Offset: ^uint64(7)}}, syscall.EINVAL},
		{"an atomic on no word", Outgoing{Atomic: &Atomic{Cookie: 8 << 32, Offset: 4}}, syscall.EINVAL},
		{"RDMA and Dest", Outgoing{RDMA: read, HasDest: true, Dest: c}, syscall.EINVAL},
		{"RDMA and Map", Outgoing{RDMA: read, Map: &Map{Memory: one[0]}}, syscall.EINVAL},
		{"Atomic and Dest", Outgoing{Atomic: add, HasDest: true, Dest: c}, syscall.EINVAL},
		{"Atomic and Map", Outgoing{Atomic: add, Map: &Map{Memory: one[0]}}, syscall.EINVAL},
		{"Dest and Map", Outgoing{HasDest: true, Dest: c, Map: &Map{Memory: one[0]}}, syscall.EINVAL},
		{"Dest of nobody", Outgoing{HasDest: true, Dest: c + 256}, syscall.EINVAL},
		{"Map of nothing", Outgoing{Map: &Map{}}, syscall.EINVAL},
		{"Map of too much", Outgoing{Map: &Map{Memory: make([]byte, MaxMessage+1)}}, syscall.EMSGSIZE},
		{"Map with unknown flags", Outgoing{Map: &Map{Memory: one[0], Flags: 0x40}}, syscall.EINVAL},
		{"no destination", Outgoing{To: netip.AddrPort{}, RDMA: read}, syscall.ENOTCONN},
		{"payload too long", Outgoing{Data: make([]byte, MaxMessage+1), RDMA: read}, syscall.EMSGSIZE},
	} {
		if !errors.Is(x.want, syscall.ENOTCONN) {
			x.o.To = b.LocalAddrPort()
		}
		wantErr(t, x.name, a.SendMessage(background(t), &x.o), x.want)
		if k, err := a.TrySendBatch([]Outgoing{x.o}); k != 0 || !errors.Is(err, x.want) {
			t.Errorf("%s, in a batch: %d, %v", x.name, k, err)
		}
	}
	if got := halfOf(a).account.Messages(); got != 0 {
		t.Errorf("%d messages charged", got)
	}
	if got := len(n.begun); got != 0 {
		t.Errorf("%d operations begun", got)
	}
}

// Operations in a batch are done in their order among the messages.
func TestOperationsInBatches(t *testing.T) {
	t.Parallel()
	l, n := newOpLab(t)
	a, b := n.pair(l)
	mem := make([]byte, 100)
	c := mustGetMR(t, b, mem, 0)
	var out []Outgoing
	for i := range byte(60) {
		o := Outgoing{To: b.LocalAddrPort(), Data: []byte{i}}
		if i%3 == 0 {
			o.RDMA = &RDMA{Cookie: c, Offset: uint64(i), Local: [][]byte{{i}}, Write: true}
		}
		out = append(out, o)
	}
	if k, err := a.SendBatch(background(t), out); k != len(out) || err != nil {
		t.Fatal(k, err)
	}
	for i := range byte(60) {
		expect(t, b, string([]byte{i}))
		if i%3 == 0 && mem[i] != i {
			t.Errorf("message %d before its write", i)
		}
	}
	if got := len(n.begun); got != 20 {
		t.Errorf("%d operations", got)
	}
	if n.begun[0].Kind != transport.OpWrite {
		t.Error("not a write")
	}
}

package rds

import (
	"bytes"
	"encoding/binary"
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// serving makes a node serve applications, and returns where.
func serving(t testing.TB, n *Node, scfg ServiceConfig) (*Service, string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "rds") // short enough for a socket's name
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	scfg.Path = filepath.Join(dir, "s")
	svc, err := NewService(n, scfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = svc.Close() })
	return svc, scfg.Path
}

// eachProvider runs a test between sockets of nodes and of applications, in
// memory, on XRC, and within one node.
func eachProvider(t *testing.T, test func(t *testing.T, a, b *Socket)) {
	t.Helper()
	eachRDMA(t, func(t *testing.T, l *lab, node func() *Node) {
		socket := func(t *testing.T, paths map[*Node]string, attached bool) *Socket {
			n := node()
			if !attached {
				return l.bind(n)
			}
			if paths[n] == "" {
				_, paths[n] = serving(t, n, ServiceConfig{})
			}
			return bound(t, dialed(t, paths[n]), addrOf(newAddr(), 4000))
		}
		for _, x := range []struct {
			name string
			a, b bool
		}{{"nodes", false, false}, {"node to rdsd", false, true}, {"rdsd to node", true, false}, {"rdsd", true, true}} {
			t.Run(x.name, func(t *testing.T) {
				paths := make(map[*Node]string)
				test(t, socket(t, paths, x.a), socket(t, paths, x.b))
			})
		}
	})
}

// lent is memory that the provider takes. What orders the accesses of peers, on a
// wire or in shared memory, the race detector does not see, so none of it is of
// Go's heap.
func lent(t testing.TB, s *Socket, n int) []byte {
	t.Helper()
	if halfOf(s) != nil {
		b, err := syscall.Mmap(-1, 0, n, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := s.Close(); !errors.Is(err, ErrBusy) { // nothing has it any more
				_ = syscall.Munmap(b)
			}
		})
		return b
	}
	m, err := s.AllocMemory(n)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Release() })
	return m.B
}

func TestProvidersWrite(t *testing.T) {
	t.Parallel()
	eachProvider(t, func(t *testing.T, a, b *Socket) {
		mem, local := lent(t, b, 100_000), lent(t, a, 90_000)
		c := mustGetMR(t, b, mem, 0)
		for i := range uint64(20) {
			copy(local, payload(i, len(local)))
			text := payload(i, []int{8, 1000, 40_000}[i%3]) // on the ring, and beside it
			operate(t, a, b, i, Outgoing{Data: text, RDMA: &RDMA{Cookie: c, Offset: 7, Local: [][]byte{local[:10], local[10:]}, Write: true}})
			m := mustRecv(t, b)
			if err := errors.Join(verify(m.Data, i), verify(mem[7:7+len(local)], i)); err != nil {
				t.Fatal(err)
			}
			m.Release()
			wantStatus(t, a, i, StatusSuccess)
		}
		if mem[6] != 0 || mem[7+len(local)] != 0 {
			t.Error("more was written")
		}
	})
}

func TestProvidersRead(t *testing.T) {
	t.Parallel()
	eachProvider(t, func(t *testing.T, a, b *Socket) {
		mem := lent(t, b, MaxMessage)
		copy(mem, payload(3, MaxMessage))
		c := mustGetMR(t, b, mem, MRReadOnly)
		first, second := lent(t, a, 1000), lent(t, a, MaxMessage-1000)
		operate(t, a, b, 1, Outgoing{Data: []byte("read"), RDMA: &RDMA{Cookie: c, Local: [][]byte{first, second}, Fence: true}})
		expect(t, b, "read")
		wantStatus(t, a, 1, StatusSuccess)
		if !bytes.Equal(first, mem[:1000]) || !bytes.Equal(second, mem[1000:]) {
			t.Error("what was read is not what is there")
		}
		operate(t, a, b, 2, Outgoing{RDMA: &RDMA{Cookie: c, Local: [][]byte{first}, Write: true}})
		wantStatus(t, a, 2, StatusRemoteError)
		pieces := make([][]byte, maxPieces)
		for i := range pieces {
			pieces[i] = second[i : i+1]
		}
		operate(t, a, b, 3, Outgoing{RDMA: &RDMA{Cookie: c, Local: pieces, Silent: true}})
		wantStatus(t, a, 3, StatusSuccess)
		if !bytes.Equal(second[:maxPieces], mem[:maxPieces]) {
			t.Error("pieces are not what is there")
		}
	})
}

func TestProvidersAtomic(t *testing.T) {
	t.Parallel()
	eachProvider(t, func(t *testing.T, a, b *Socket) {
		mem := lent(t, b, 64)
		c := mustGetMR(t, b, mem, 0)
		word := mem[8:16]
		putWord(word, 40)
		for i, x := range []struct {
			op   Atomic
			want uint64
		}{
			{Atomic{Add: 2}, 42},
			{Atomic{Kind: CompareSwap, Compare: 42, Swap: 0xab}, 0xab},
			{Atomic{Kind: MaskedCompareSwap, Compare: 0xfb, CompareMask: 0x0f, Swap: 0xcc, SwapMask: 0xf0}, 0xcb},
			{Atomic{Kind: CompareSwap, Compare: 1, Swap: 2}, 0xcb},
		} {
			was := binary.NativeEndian.Uint64(word)
			var old uint64
			x.op.Cookie, x.op.Offset, x.op.Result = c, 8, &old
			operate(t, a, b, uint64(i), Outgoing{Data: []byte("done"), Atomic: &x.op})
			expect(t, b, "done")
			wantStatus(t, a, uint64(i), StatusSuccess)
			if got := binary.NativeEndian.Uint64(word); got != x.want || old != was {
				t.Errorf("%d: %#x, and was %#x", i, got, old)
			}
		}
		old := uint64(77)
		operate(t, a, b, 9, Outgoing{Atomic: &Atomic{Cookie: c + 1, Offset: 8, Add: 1, Result: &old}})
		wantStatus(t, a, 9, StatusRemoteError)
		if old != 77 {
			t.Error("the result of a failure")
		}
	})
}

// Regions end by FreeMR and by use, keys are of one host if it is said so, and a
// bad key costs its own operation.
func TestProvidersRegions(t *testing.T) {
	t.Parallel()
	eachProvider(t, func(t *testing.T, a, b *Socket) {
		mem, local := lent(t, b, 100), lent(t, a, 100)
		local[0] = 1
		try := func(c Cookie, token uint64, text string, want Status) {
			t.Helper()
			operate(t, a, b, token, Outgoing{Data: []byte(text), RDMA: &RDMA{Cookie: c, Local: [][]byte{local[:1]}, Write: true}})
			if want == StatusSuccess {
				expect(t, b, text)
			}
			wantStatus(t, a, token, want)
		}
		for i, flags := range []MRFlags{0, MRInvalidate} {
			c := mustGetMR(t, b, mem, 0)
			try(c, 1, "live", StatusSuccess)
			if err := b.FreeMR(c, flags); err != nil {
				t.Fatal(err)
			}
			if i == 0 {
				if err := b.FreeMR(0, 0); err != nil {
					t.Fatal(err)
				}
			}
			mem[0] = 9
			try(c, 2, "dead", StatusRemoteError)
			if mem[0] != 9 {
				t.Error("a region that has ended was written")
			}
			wantErr(t, "twice", b.FreeMR(c, 0), ErrInvalid)
		}
		once := mustGetMR(t, b, mem, MRUseOnce)
		try(once, 3, "used", StatusSuccess)
		wantErr(t, "used up", b.FreeMR(once, 0), ErrInvalid)
		wantErr(t, "offered when used up", b.SendMessage(background(t), &Outgoing{To: a.LocalAddrPort(), HasDest: true, Dest: once}), ErrInvalid)
		try(once, 4, "used up", StatusRemoteError)
		for i := range 200 { // keys do not add up
			try(mustGetMRFor(t, b, a, mem, MRUseOnce), uint64(i), "again", StatusSuccess)
		}
		dest, err := b.GetMRForDest(netip.AddrPortFrom(newAddr(), 1), mem, 0)
		if err != nil {
			t.Fatal(err)
		}
		try(dest, 5, "another host's", StatusRemoteError)
		if dest, err = b.GetMRForDest(a.LocalAddrPort(), mem, 0); err != nil {
			t.Fatal(err)
		}
		try(dest, 6, "this host's", StatusSuccess)
		beside := mustGetMR(t, a, local, 0)
		wantErr(t, "another socket's", b.FreeMR(beside, 0), ErrInvalid)
	})
}

func TestProvidersDestAndMap(t *testing.T) {
	t.Parallel()
	eachProvider(t, func(t *testing.T, a, b *Socket) {
		mem, local := lent(t, a, 100), lent(t, b, 10)
		copy(local, "answer")
		c := mustGetMR(t, a, mem[30:], 0)
		offers := []Outgoing{
			{Data: []byte("plain")}, {Data: []byte("dest"), HasDest: true, Dest: c}, {HasDest: true, Dest: c},
			{Data: payload(4, 40_000), HasDest: true, Dest: c}, {Data: []byte("map"), Map: &Map{Memory: mem, Flags: MRUseOnce}},
		}
		for i := range offers {
			offers[i].To = b.LocalAddrPort()
		}
		if n, err := a.SendBatch(background(t), offers); n != len(offers) || err != nil {
			t.Fatal(n, err)
		}
		var last Cookie
		for i := range offers {
			o := &offers[i]
			want := o.Dest
			if o.Map != nil {
				want = o.Map.Cookie
			}
			m := mustRecv(t, b)
			if !bytes.Equal(m.Data, o.Data) || m.HasDest != (i > 0) || m.Dest != want || m.From != a.LocalAddrPort() {
				t.Errorf("message %d: %d bytes, %v %#x; want %#x", i, len(m.Data), m.HasDest, m.Dest, want)
			}
			last = m.Dest
			m.Release()
		}
		operate(t, b, a, 1, Outgoing{RDMA: &RDMA{Cookie: last, Offset: 30, Local: [][]byte{local[:6]}, Write: true}, Data: []byte("done")})
		expect(t, a, "done")
		wantStatus(t, b, 1, StatusSuccess)
		if string(mem[30:36]) != "answer" {
			t.Errorf("%q", mem[30:36])
		}
		if err := a.FreeMR(c, 0); err != nil {
			t.Fatal(err)
		}
		wantErr(t, "a cookie that has ended", a.SendMessage(background(t), &Outgoing{To: b.LocalAddrPort(), HasDest: true, Dest: c}), ErrInvalid)
	})
}

// What is silent has no message; what is not told has no fate.
func TestProvidersSilence(t *testing.T) {
	t.Parallel()
	eachProvider(t, func(t *testing.T, a, b *Socket) {
		mem, local := lent(t, b, 64), lent(t, a, 8)
		copy(local, "silence")
		c := mustGetMR(t, b, mem, 0)
		write := &RDMA{Cookie: c, Local: [][]byte{local[:7]}, Write: true, Silent: true}
		add := &Atomic{Cookie: c, Offset: 16, Add: 1, Silent: true}
		if err := a.SendMessage(background(t), &Outgoing{To: b.LocalAddrPort(), RDMA: write, Atomic: add}); err != nil {
			t.Fatal(err)
		}
		operate(t, a, b, 2, Outgoing{RDMA: write, Atomic: add})
		wantStatus(t, a, 2, StatusSuccess)
		operate(t, a, b, 3, Outgoing{RDMA: write, Atomic: add, Data: []byte("loud")})
		expect(t, b, "loud")
		wantStatus(t, a, 3, StatusSuccess)
		wantNothing(t, a)
		wantNothing(t, b)
		if string(mem[:7]) != "silence" || binary.NativeEndian.Uint64(mem[16:]) != 3 {
			t.Errorf("% x", mem[:24])
		}
	})
}

// Fates of failures come without Notify when RecvErr is set.
func TestProvidersRecvErr(t *testing.T) {
	t.Parallel()
	eachProvider(t, func(t *testing.T, a, b *Socket) {
		c := mustGetMR(t, b, lent(t, b, 8), 0)
		if err := a.SetRecvErr(true); err != nil {
			t.Fatal(err)
		}
		for _, cookie := range []Cookie{c, c + 1} {
			o := Outgoing{To: b.LocalAddrPort(), Token: 5, RDMA: &RDMA{Cookie: cookie, Local: [][]byte{lent(t, a, 1)}, Write: true}}
			if err := a.SendMessage(background(t), &o); err != nil {
				t.Fatal(err)
			}
		}
		wantStatus(t, a, 0, StatusRemoteError)
		expect(t, b, "")
		wantNothing(t, a)
	})
}

func TestProvidersErrors(t *testing.T) {
	t.Parallel()
	eachProvider(t, func(t *testing.T, a, b *Socket) {
		one := lent(t, a, 1)
		c := mustGetMR(t, a, lent(t, a, 100), 0)
		many := make([][]byte, maxPieces+1)
		for i := range many {
			many[i] = one
		}
		half := lent(t, a, MaxMessage/2)
		read := &RDMA{Local: [][]byte{one}}
		for _, x := range []struct {
			name string
			o    Outgoing
			want error
		}{
			{"no local memory", Outgoing{RDMA: &RDMA{}}, syscall.EINVAL},
			{"an empty piece", Outgoing{RDMA: &RDMA{Local: [][]byte{one, {}}}}, syscall.EINVAL},
			{"1,025 pieces", Outgoing{RDMA: &RDMA{Local: many}}, syscall.EMSGSIZE},
			{"more than 1 MiB", Outgoing{RDMA: &RDMA{Local: [][]byte{half, half, one}}}, syscall.EMSGSIZE},
			{"an atomic on no word", Outgoing{Atomic: &Atomic{Cookie: 8 << 32, Offset: 4}}, syscall.EINVAL},
			{"RDMA and Dest", Outgoing{RDMA: read, HasDest: true, Dest: c}, syscall.EINVAL},
			{"Atomic and Map", Outgoing{Atomic: &Atomic{}, Map: &Map{Memory: one}}, syscall.EINVAL},
			{"Dest of nobody", Outgoing{HasDest: true, Dest: c + 256}, syscall.EINVAL},
			{"Map of nothing", Outgoing{Map: &Map{}}, syscall.EINVAL},
			{"Map with unknown flags", Outgoing{Map: &Map{Memory: one, Flags: 0x40}}, syscall.EINVAL},
			{"payload too long", Outgoing{Data: make([]byte, MaxMessage+1), RDMA: read}, syscall.EMSGSIZE},
		} {
			x.o.To = b.LocalAddrPort()
			wantErr(t, x.name, a.SendMessage(background(t), &x.o), x.want)
			if k, err := a.TrySendBatch([]Outgoing{x.o}); k != 0 || !errors.Is(err, x.want) {
				t.Errorf("%s, in a batch: %d, %v", x.name, k, err)
			}
		}
		for _, x := range []struct {
			name string
			mem  []byte
			f    MRFlags
			want error
		}{
			{"nothing", nil, 0, syscall.EINVAL}, {"too much", make([]byte, MaxMessage+1), 0, syscall.EMSGSIZE},
			{"an unknown flag", one, 0x20, syscall.EINVAL}, {"read-write and read-only", one, MRReadWrite | MRReadOnly, syscall.EINVAL},
		} {
			_, err := a.GetMR(x.mem, x.f)
			wantErr(t, x.name, err, x.want)
		}
		wantErr(t, "no key", a.FreeMR(1, 0), syscall.EINVAL)
		wantErr(t, "unknown flag of FreeMR", a.FreeMR(0, 0x20), syscall.EINVAL)
		if _, err := a.AllocMemory(0); !errors.Is(err, ErrInvalid) {
			t.Error(err)
		}
		if err := a.Close(); err != nil {
			t.Fatal(err)
		}
		_, err := a.GetMR(one, 0)
		if !closed(err) || !closed(a.FreeMR(c, 0)) {
			t.Errorf("GetMR of a closed socket: %v", err)
		}
	})
}

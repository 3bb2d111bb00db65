//go:build live

package daemon

import (
	"bytes"
	"encoding/binary"
	"errors"
	"net/netip"
	"syscall"
	"testing"

	"github.com/rds-go/rds/internal/ipc"
	"github.com/rds-go/rds/internal/node"
	"github.com/rds-go/rds/internal/rdstest"
	"github.com/rds-go/rds/internal/socket"
	"github.com/rds-go/rds/rds/config"
	"github.com/rds-go/rds/rds/datagram"
)

// eachProvider runs a test between sockets of nodes and of applications, in
// memory, on XRC, and within one node.
func eachProvider(t *testing.T, test func(t *testing.T, a, b *socket.Socket)) {
	t.Helper()
	eachRDMA(t, func(t *testing.T, l *lab, nd func() *node.Node) {
		socket := func(t *testing.T, paths map[*node.Node]string, attached bool) *socket.Socket {
			n := nd()
			if !attached {
				return l.bind(n)
			}
			if paths[n] == "" {
				_, paths[n] = serving(t, n, config.Service{})
			}
			return bound(t, dialed(t, paths[n]), rdstest.AddrOf(rdstest.NewAddr(), 4000))
		}
		for _, x := range []struct {
			name string
			a, b bool
		}{{"nodes", false, false}, {"node to rdsd", false, true}, {"rdsd to node", true, false}, {"rdsd", true, true}} {
			t.Run(x.name, func(t *testing.T) {
				paths := make(map[*node.Node]string)
				test(t, socket(t, paths, x.a), socket(t, paths, x.b))
			})
		}
	})
}

func TestProvidersWrite(t *testing.T) {
	t.Parallel()
	eachProvider(t, func(t *testing.T, a, b *socket.Socket) {
		mem, local := lent(t, b, 100_000), lent(t, a, 90_000)
		c := rdstest.MustGetMR(t, b, mem, 0)
		for i := range uint64(20) {
			copy(local, rdstest.Payload(i, len(local)))
			text := rdstest.Payload(i, []int{8, 1000, 40_000}[i%3]) // on the ring, and beside it
			rdstest.Operate(t, a, b, i, datagram.Outgoing{Data: text, RDMA: &datagram.RDMA{Cookie: c, Offset: 7, Local: [][]byte{local[:10], local[10:]}, Write: true}})
			m := rdstest.MustRecv(t, b)
			rdstest.Must(t, errors.Join(rdstest.Verify(m.Data, i), rdstest.Verify(mem[7:7+len(local)], i)))
			m.Release()
			rdstest.WantStatus(t, a, i, datagram.StatusSuccess)
		}
		if mem[6] != 0 || mem[7+len(local)] != 0 {
			t.Error("more was written")
		}
	})
}

func TestProvidersRead(t *testing.T) {
	t.Parallel()
	eachProvider(t, func(t *testing.T, a, b *socket.Socket) {
		mem := lent(t, b, config.MaxMessage)
		copy(mem, rdstest.Payload(3, config.MaxMessage))
		c := rdstest.MustGetMR(t, b, mem, datagram.MRReadOnly)
		first, second := lent(t, a, 1000), lent(t, a, config.MaxMessage-1000)
		rdstest.Operate(t, a, b, 1, datagram.Outgoing{Data: []byte("read"), RDMA: &datagram.RDMA{Cookie: c, Local: [][]byte{first, second}, Fence: true}})
		rdstest.Expect(t, b, "read")
		rdstest.WantStatus(t, a, 1, datagram.StatusSuccess)
		if !bytes.Equal(first, mem[:1000]) || !bytes.Equal(second, mem[1000:]) {
			t.Error("what was read is not what is there")
		}
		rdstest.Operate(t, a, b, 2, datagram.Outgoing{RDMA: &datagram.RDMA{Cookie: c, Local: [][]byte{first}, Write: true}})
		rdstest.WantStatus(t, a, 2, datagram.StatusRemoteError)
		pieces := make([][]byte, ipc.MaxPieces)
		for i := range pieces {
			pieces[i] = second[i : i+1]
		}
		rdstest.Operate(t, a, b, 3, datagram.Outgoing{RDMA: &datagram.RDMA{Cookie: c, Local: pieces, Silent: true}})
		rdstest.WantStatus(t, a, 3, datagram.StatusSuccess)
		if !bytes.Equal(second[:ipc.MaxPieces], mem[:ipc.MaxPieces]) {
			t.Error("pieces are not what is there")
		}
	})
}

func TestProvidersAtomic(t *testing.T) {
	t.Parallel()
	eachProvider(t, func(t *testing.T, a, b *socket.Socket) {
		mem := lent(t, b, 64)
		c := rdstest.MustGetMR(t, b, mem, 0)
		word := mem[8:16]
		rdstest.PutWord(word, 40)
		for i, x := range []struct {
			op   datagram.Atomic
			want uint64
		}{
			{datagram.Atomic{Add: 2}, 42},
			{datagram.Atomic{Kind: datagram.CompareSwap, Compare: 42, Swap: 0xab}, 0xab},
			{datagram.Atomic{Kind: datagram.MaskedCompareSwap, Compare: 0xfb, CompareMask: 0x0f, Swap: 0xcc, SwapMask: 0xf0}, 0xcb},
			{datagram.Atomic{Kind: datagram.CompareSwap, Compare: 1, Swap: 2}, 0xcb},
		} {
			was := binary.NativeEndian.Uint64(word)
			var old uint64
			x.op.Cookie, x.op.Offset, x.op.Result = c, 8, &old
			rdstest.Operate(t, a, b, uint64(i), datagram.Outgoing{Data: []byte("done"), Atomic: &x.op})
			rdstest.Expect(t, b, "done")
			rdstest.WantStatus(t, a, uint64(i), datagram.StatusSuccess)
			if got := binary.NativeEndian.Uint64(word); got != x.want || old != was {
				t.Errorf("%d: %#x, and was %#x", i, got, old)
			}
		}
		old := uint64(77)
		rdstest.Operate(t, a, b, 9, datagram.Outgoing{Atomic: &datagram.Atomic{Cookie: c + 1, Offset: 8, Add: 1, Result: &old}})
		rdstest.WantStatus(t, a, 9, datagram.StatusRemoteError)
		if old != 77 {
			t.Error("the result of a failure")
		}
	})
}

// Regions end by FreeMR and by use, keys are of one host if it is said so, and a
// bad key costs its own operation.
func TestProvidersRegions(t *testing.T) {
	t.Parallel()
	eachProvider(t, func(t *testing.T, a, b *socket.Socket) {
		mem, local := lent(t, b, 100), lent(t, a, 100)
		local[0] = 1
		try := func(c datagram.Cookie, token uint64, text string, want datagram.Status) {
			t.Helper()
			rdstest.Operate(t, a, b, token, datagram.Outgoing{Data: []byte(text), RDMA: &datagram.RDMA{Cookie: c, Local: [][]byte{local[:1]}, Write: true}})
			if want == datagram.StatusSuccess {
				rdstest.Expect(t, b, text)
			}
			rdstest.WantStatus(t, a, token, want)
		}
		for i, flags := range []datagram.MRFlags{0, datagram.MRInvalidate} {
			c := rdstest.MustGetMR(t, b, mem, 0)
			try(c, 1, "live", datagram.StatusSuccess)
			rdstest.Must(t, b.FreeMR(c, flags))
			if i == 0 {
				rdstest.Must(t, b.FreeMR(0, 0))
			}
			mem[0] = 9
			try(c, 2, "dead", datagram.StatusRemoteError)
			if mem[0] != 9 {
				t.Error("a region that has ended was written")
			}
			rdstest.WantErr(t, "twice", b.FreeMR(c, 0), datagram.ErrInvalid)
		}
		once := rdstest.MustGetMR(t, b, mem, datagram.MRUseOnce)
		try(once, 3, "used", datagram.StatusSuccess)
		rdstest.WantErr(t, "used up", b.FreeMR(once, 0), datagram.ErrInvalid)
		rdstest.WantErr(t, "offered when used up", b.SendMessage(rdstest.Background(t), &datagram.Outgoing{To: a.LocalAddrPort(), HasDest: true, Dest: once}), datagram.ErrInvalid)
		try(once, 4, "used up", datagram.StatusRemoteError)
		for i := range 200 { // keys do not add up
			try(rdstest.MustGetMRFor(t, b, a, mem, datagram.MRUseOnce), uint64(i), "again", datagram.StatusSuccess)
		}
		dest, err := b.GetMRForDest(netip.AddrPortFrom(rdstest.NewAddr(), 1), mem, 0)
		rdstest.Must(t, err)
		try(dest, 5, "another host's", datagram.StatusRemoteError)
		if dest, err = b.GetMRForDest(a.LocalAddrPort(), mem, 0); err != nil {
			t.Fatal(err)
		}
		try(dest, 6, "this host's", datagram.StatusSuccess)
		beside := rdstest.MustGetMR(t, a, local, 0)
		rdstest.WantErr(t, "another socket's", b.FreeMR(beside, 0), datagram.ErrInvalid)
	})
}

func TestProvidersDestAndMap(t *testing.T) {
	t.Parallel()
	eachProvider(t, func(t *testing.T, a, b *socket.Socket) {
		mem, local := lent(t, a, 100), lent(t, b, 10)
		copy(local, "answer")
		c := rdstest.MustGetMR(t, a, mem[30:], 0)
		offers := []datagram.Outgoing{
			{Data: []byte("plain")}, {Data: []byte("dest"), HasDest: true, Dest: c}, {HasDest: true, Dest: c},
			{Data: rdstest.Payload(4, 40_000), HasDest: true, Dest: c}, {Data: []byte("map"), Map: &datagram.Map{Memory: mem, Flags: datagram.MRUseOnce}},
		}
		for i := range offers {
			offers[i].To = b.LocalAddrPort()
		}
		if n, err := a.SendBatch(rdstest.Background(t), offers); n != len(offers) || err != nil {
			t.Fatal(n, err)
		}
		var last datagram.Cookie
		for i := range offers {
			o := &offers[i]
			want := o.Dest
			if o.Map != nil {
				want = o.Map.Cookie
			}
			m := rdstest.MustRecv(t, b)
			if !bytes.Equal(m.Data, o.Data) || m.HasDest != (i > 0) || m.Dest != want || m.From != a.LocalAddrPort() {
				t.Errorf("message %d: %d bytes, %v %#x; want %#x", i, len(m.Data), m.HasDest, m.Dest, want)
			}
			last = m.Dest
			m.Release()
		}
		rdstest.Operate(t, b, a, 1, datagram.Outgoing{RDMA: &datagram.RDMA{Cookie: last, Offset: 30, Local: [][]byte{local[:6]}, Write: true}, Data: []byte("done")})
		rdstest.Expect(t, a, "done")
		rdstest.WantStatus(t, b, 1, datagram.StatusSuccess)
		if string(mem[30:36]) != "answer" {
			t.Errorf("%q", mem[30:36])
		}
		rdstest.Must(t, a.FreeMR(c, 0))
		rdstest.WantErr(t, "a cookie that has ended", a.SendMessage(rdstest.Background(t), &datagram.Outgoing{To: b.LocalAddrPort(), HasDest: true, Dest: c}), datagram.ErrInvalid)
	})
}

// What is silent has no message; what is not told has no fate.
func TestProvidersSilence(t *testing.T) {
	t.Parallel()
	eachProvider(t, func(t *testing.T, a, b *socket.Socket) {
		mem, local := lent(t, b, 64), lent(t, a, 8)
		copy(local, "silence")
		c := rdstest.MustGetMR(t, b, mem, 0)
		write := &datagram.RDMA{Cookie: c, Local: [][]byte{local[:7]}, Write: true, Silent: true}
		add := &datagram.Atomic{Cookie: c, Offset: 16, Add: 1, Silent: true}
		rdstest.Must(t, a.SendMessage(rdstest.Background(t), &datagram.Outgoing{To: b.LocalAddrPort(), RDMA: write, Atomic: add}))
		rdstest.Operate(t, a, b, 2, datagram.Outgoing{RDMA: write, Atomic: add})
		rdstest.WantStatus(t, a, 2, datagram.StatusSuccess)
		rdstest.Operate(t, a, b, 3, datagram.Outgoing{RDMA: write, Atomic: add, Data: []byte("loud")})
		rdstest.Expect(t, b, "loud")
		rdstest.WantStatus(t, a, 3, datagram.StatusSuccess)
		rdstest.WantNothing(t, a)
		rdstest.WantNothing(t, b)
		if string(mem[:7]) != "silence" || binary.NativeEndian.Uint64(mem[16:]) != 3 {
			t.Errorf("% x", mem[:24])
		}
	})
}

// Fates of failures come without Notify when RecvErr is set.
func TestProvidersRecvErr(t *testing.T) {
	t.Parallel()
	eachProvider(t, func(t *testing.T, a, b *socket.Socket) {
		c := rdstest.MustGetMR(t, b, lent(t, b, 8), 0)
		rdstest.Must(t, a.SetRecvErr(true))
		for _, cookie := range []datagram.Cookie{c, c + 1} {
			o := datagram.Outgoing{To: b.LocalAddrPort(), Token: 5, RDMA: &datagram.RDMA{Cookie: cookie, Local: [][]byte{lent(t, a, 1)}, Write: true}}
			rdstest.Must(t, a.SendMessage(rdstest.Background(t), &o))
		}
		rdstest.WantStatus(t, a, 0, datagram.StatusRemoteError)
		rdstest.Expect(t, b, "")
		rdstest.WantNothing(t, a)
	})
}

func TestProvidersErrors(t *testing.T) {
	t.Parallel()
	eachProvider(t, func(t *testing.T, a, b *socket.Socket) {
		one := lent(t, a, 1)
		c := rdstest.MustGetMR(t, a, lent(t, a, 100), 0)
		many := make([][]byte, ipc.MaxPieces+1)
		for i := range many {
			many[i] = one
		}
		half := lent(t, a, config.MaxMessage/2)
		read := &datagram.RDMA{Local: [][]byte{one}}
		for _, x := range []struct {
			name string
			o    datagram.Outgoing
			want error
		}{
			{"no local memory", datagram.Outgoing{RDMA: &datagram.RDMA{}}, syscall.EINVAL},
			{"an empty piece", datagram.Outgoing{RDMA: &datagram.RDMA{Local: [][]byte{one, {}}}}, syscall.EINVAL},
			{"1,025 pieces", datagram.Outgoing{RDMA: &datagram.RDMA{Local: many}}, syscall.EMSGSIZE},
			{"more than 1 MiB", datagram.Outgoing{RDMA: &datagram.RDMA{Local: [][]byte{half, half, one}}}, syscall.EMSGSIZE},
			{"an atomic on no word", datagram.Outgoing{Atomic: &datagram.Atomic{Cookie: 8 << 32, Offset: 4}}, syscall.EINVAL},
			{"RDMA and Dest", datagram.Outgoing{RDMA: read, HasDest: true, Dest: c}, syscall.EINVAL},
			{"Atomic and Map", datagram.Outgoing{Atomic: &datagram.Atomic{}, Map: &datagram.Map{Memory: one}}, syscall.EINVAL},
			{"Dest of nobody", datagram.Outgoing{HasDest: true, Dest: c + 256}, syscall.EINVAL},
			{"Map of nothing", datagram.Outgoing{Map: &datagram.Map{}}, syscall.EINVAL},
			{"Map with unknown flags", datagram.Outgoing{Map: &datagram.Map{Memory: one, Flags: 0x40}}, syscall.EINVAL},
			{"payload too long", datagram.Outgoing{Data: make([]byte, config.MaxMessage+1), RDMA: read}, syscall.EMSGSIZE},
		} {
			x.o.To = b.LocalAddrPort()
			rdstest.WantErr(t, x.name, a.SendMessage(rdstest.Background(t), &x.o), x.want)
			if k, err := a.TrySendBatch([]datagram.Outgoing{x.o}); k != 0 || !errors.Is(err, x.want) {
				t.Errorf("%s, in a batch: %d, %v", x.name, k, err)
			}
		}
		for _, x := range []struct {
			name string
			mem  []byte
			f    datagram.MRFlags
			want error
		}{
			{"nothing", nil, 0, syscall.EINVAL}, {"too much", make([]byte, config.MaxMessage+1), 0, syscall.EMSGSIZE},
			{"an unknown flag", one, 0x20, syscall.EINVAL}, {"read-write and read-only", one, datagram.MRReadWrite | datagram.MRReadOnly, syscall.EINVAL},
		} {
			_, err := a.GetMR(x.mem, x.f)
			rdstest.WantErr(t, x.name, err, x.want)
		}
		rdstest.WantErr(t, "no key", a.FreeMR(1, 0), syscall.EINVAL)
		rdstest.WantErr(t, "unknown flag of FreeMR", a.FreeMR(0, 0x20), syscall.EINVAL)
		if _, err := a.AllocMemory(0); !errors.Is(err, datagram.ErrInvalid) {
			t.Error(err)
		}
		rdstest.Must(t, a.Close())
		_, err := a.GetMR(one, 0)
		if !rdstest.Closed(err) || !rdstest.Closed(a.FreeMR(c, 0)) {
			t.Errorf("GetMR of a closed socket: %v", err)
		}
	})
}

//go:build !live

package rds

import (
	"bytes"
	"encoding/binary"
	"errors"
	"net"
	"net/netip"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/rds-go/rds/internal/rdstest"
	"github.com/rds-go/rds/mr"
)

// opConfig gives a node of a lab RDMA.
func opConfig(t *testing.T, l *lab, cfg Config) Config {
	n := rdstest.NewOpNet()
	n.Net = l.Net
	return n.With(t, cfg)
}

// Operations between sockets of one address, and of a socket on its own memory.
func TestOperationsOfOneAddress(t *testing.T) {
	rdstest.Bubble(t, func(t *testing.T) {
		l := newLoopLab(t)
		n := l.node(opConfig(t, l, Config{}))
		a := l.bind(n)
		b := l.bind(n, rdstest.AddrOf(a.LocalAddrPort().Addr(), 4001))
		for _, to := range []*Socket{b, a} {
			mem, err := to.AllocMemory(3 << 17)
			rdstest.Must(t, err)
			c, err := to.GetMRForDest(a.LocalAddrPort(), mem.B, 0)
			rdstest.Must(t, err)
			data, back := rdstest.Payload(7, 3<<17-8), make([]byte, 3<<17-8)
			rdstest.Operate(t, a, to, 1, Outgoing{RDMA: &RDMA{Cookie: c, Offset: 8, Local: [][]byte{data[:9], data[9:]}, Write: true, Silent: true}})
			rdstest.WantStatus(t, a, 1, StatusSuccess)
			rdstest.Operate(t, a, to, 2, Outgoing{RDMA: &RDMA{Cookie: c, Offset: 8, Local: [][]byte{back}, Silent: true}})
			rdstest.WantStatus(t, a, 2, StatusSuccess)
			if !bytes.Equal(data, back) {
				t.Error("what was read is not what was written")
			}
			var was uint64
			rdstest.Operate(t, a, to, 3, Outgoing{Atomic: &Atomic{Cookie: c, Add: 5, Result: &was, Silent: true}})
			rdstest.WantStatus(t, a, 3, StatusSuccess)
			if got := binary.NativeEndian.Uint64(mem.B); got != 5 || was != 0 {
				t.Errorf("%d, and was %d", got, was)
			}
			rdstest.Operate(t, a, to, 4, Outgoing{RDMA: rdstest.Write(c^1, 1), Data: []byte("bad")})
			rdstest.WantStatus(t, a, 4, StatusRemoteError)
			rdstest.WantNothing(t, to)
			rdstest.NoError(t, to.FreeMR(c, MRInvalidate))
			mem.Release()
		}
		other := l.bind(n) // of an address of its own, which the region is not for
		c, err := b.GetMRForDest(a.LocalAddrPort(), make([]byte, 8), 0)
		rdstest.Must(t, err)
		rdstest.Operate(t, other, b, 1, Outgoing{RDMA: rdstest.Write(c, 1)})
		rdstest.WantStatus(t, other, 1, StatusRemoteError)
	})
}

// Each of many sockets writes to another's memory and sends a message that builds
// on it, while every fourth operation has a bad key: what was written is in place
// when the message comes, and what is refused costs nobody else anything.
func TestOwnOperationsInAllDirections(t *testing.T) {
	rdstest.Bubble(t, func(t *testing.T) {
		const sockets, rounds = 8, 100
		l := newLoopLab(t)
		n := l.node(opConfig(t, l, Config{Memory: mr.Config{PeerLookUps: -1}})) // no key is guessed, and many are bad
		var all [sockets]*Socket
		var addr netip.Addr
		for i := range all {
			if i%2 == 0 { // two of each address
				addr = rdstest.NewAddr()
			}
			all[i] = l.bind(n, rdstest.AddrOf(addr, uint16(4000+i)))
		}
		var wg sync.WaitGroup
		for i, from := range all {
			to := (i + i%3) % sockets // itself among them
			wg.Go(func() {
				region := make([]byte, rounds*1000)
				c, err := all[to].GetMR(region, 0)
				if err != nil {
					t.Error(err)
					return
				}
				in, err := n.Bind(netip.AddrPortFrom(all[to].LocalAddrPort().Addr(), 0))
				if err != nil {
					t.Error(err)
					return
				}
				for r := range uint64(rounds) {
					o := Outgoing{
						To: in.LocalAddrPort(), Data: binary.BigEndian.AppendUint64(nil, r), Notify: true, Token: r,
						RDMA: &RDMA{Cookie: c, Offset: r * 1000, Local: [][]byte{rdstest.Payload(r, 1000)}, Write: true},
					}
					want := StatusSuccess
					if r%4 == 3 {
						o.RDMA.Cookie, want = c^1, StatusRemoteError
					}
					if err := from.SendMessage(rdstest.Background(t), &o); err != nil {
						t.Error(err)
						return
					}
					if want == StatusSuccess {
						m := rdstest.MustRecv(t, in)
						if binary.BigEndian.Uint64(m.Data) != r {
							t.Errorf("message % x, not %d", m.Data, r)
						}
						rdstest.NoError(t, rdstest.Verify(region[r*1000:][:1000], r))
						m.Release()
					}
					rdstest.WantStatus(t, from, r, want)
				}
				rdstest.WantNothing(t, in)
			})
		}
		wg.Wait()
		if got := counter(t, n, "conn_reset"); got != 0 {
			t.Errorf("%d connections reset", got)
		}
	})
}

// Regions come and go, with their sockets or without, while another writes to them
// and reads them: nothing touches memory that was taken back.
func TestOwnRegionsUnderFire(t *testing.T) {
	rdstest.Bubble(t, func(t *testing.T) {
		l := newLoopLab(t)
		n := l.node(opConfig(t, l, Config{Memory: mr.Config{PeerLookUps: -1}})) // no key is guessed, and many are bad
		host := l.bind(n).LocalAddrPort()
		var live, ended atomic.Uint64
		stop := make(chan struct{})
		var wg sync.WaitGroup
		user := l.bind(n) // one, for what users of a region do at the same time is for them to order
		local := bytes.Repeat([]byte{0xff}, MaxMessage)
		wg.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				o := Outgoing{To: host, Notify: true, RDMA: &RDMA{Cookie: Cookie(live.Load()), Local: [][]byte{local}, Write: i%2 == 0, Silent: true}}
				if err := user.SendMessage(rdstest.Background(t), &o); err != nil {
					t.Error(err)
					return
				}
				if m := rdstest.MustRecv(t, user); m.Status != StatusSuccess && m.Status != StatusRemoteError {
					t.Errorf("status %d", m.Status)
				}
				ended.Add(1)
			}
		})
		for i := range 60 {
			s := l.bind(n, rdstest.AddrOf(host.Addr(), uint16(5000+i)))
			mem := make([]byte, MaxMessage)
			c := rdstest.MustGetMR(t, s, mem, 0)
			live.Store(uint64(c))
			before := ended.Load()
			for ended.Load() <= before+uint64(i%4) { // who operates leaves virtual time few moments
				runtime.Gosched()
			}
			var err error
			if i%2 == 0 {
				err = s.FreeMR(c, MRInvalidate)
			} else {
				err = s.Close()
			}
			rdstest.Must(t, err)
			clear(mem) // the race detector looks on
			_ = s.Close()
		}
		close(stop)
		wg.Wait()
	})
}

// A node that closes, and a socket, in the midst of their own operations.
func TestCloseAmongOwnOperations(t *testing.T) {
	rdstest.Bubble(t, func(t *testing.T) {
		for _, whole := range []bool{false, true} {
			l := newLoopLab(t)
			n := l.node(opConfig(t, l, Config{}))
			a, b := l.bind(n), l.bind(n)
			mem, local := make([]byte, MaxMessage), make([]byte, MaxMessage)
			c := rdstest.MustGetMR(t, b, mem, 0)
			begun, over := make(chan struct{}, 1), make(chan struct{})
			go func() {
				defer close(over)
				for {
					err := a.SendMessage(rdstest.Background(t), &Outgoing{To: b.LocalAddrPort(), RDMA: &RDMA{Cookie: c, Local: [][]byte{local}, Write: true, Silent: true}})
					if err != nil {
						if !errors.Is(err, net.ErrClosed) {
							t.Error(err)
						}
						return
					}
					select {
					case begun <- struct{}{}:
					default:
					}
				}
			}()
			<-begun
			var err error
			if whole {
				err = n.Close()
			} else {
				err = a.Close()
			}
			var dropped *DroppedError
			if err != nil && (!errors.As(err, &dropped) || errors.Is(err, ErrBusy)) {
				t.Error(err)
			}
			clear(local) // it is the application's again, and the race detector looks on
			<-over
			if !whole {
				rdstest.NoError(t, b.Close())
			}
			clear(mem)
		}
	})
}

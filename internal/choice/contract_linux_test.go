//go:build live

package choice_test

import (
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"net/netip"
	"slices"
	"sync/atomic"
	"testing"

	"go.uber.org/zap"

	"github.com/rds-go/rds/internal/choice"
	"github.com/rds-go/rds/transport"
	"github.com/rds-go/rds/transport/tcp"
	"github.com/rds-go/rds/transport/transporttest"
	"github.com/rds-go/rds/transport/xrc"
)

var (
	addresses atomic.Uint32
	base      = rand.Uint32N(1 << 24)
	// Below the ephemeral range and not the real ones.
	port = uint16(20000 + 2*rand.IntN(5000))
)

// newAddr returns an address of 127.0.0.0/8 that no other test of this process
// has and none of another process is likely to have.
func newAddr() netip.Addr {
	var a [4]byte
	binary.BigEndian.PutUint32(a[:], 127<<24|(base+addresses.Add(1))%0xfffffe+1)
	return netip.AddrFrom4(a)
}

func newTCP(t testing.TB) *tcp.Transport {
	t.Helper()
	tr, err := tcp.New(tcp.Options{Port: port})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tr.Close() })
	return tr
}

func newXRC(t testing.TB) *xrc.Transport { t.Helper(); return newXRCWith(t, xrc.Options{}) }

func newXRCWith(t testing.TB, o xrc.Options) *xrc.Transport {
	t.Helper()
	o.Port = port + 1
	tr, err := xrc.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tr.Close() })
	return tr
}

// both is the transports of a node that has two, as far as the contract goes.
type both struct {
	*choice.Policy
	wires []transport.Transport
}

func newBoth(t testing.TB) *both {
	t.Helper()
	b := &both{}
	preferred, other := newXRCWith(t, xrc.Options{Admit: func(remote netip.Addr) bool { return b.Admits(remote, "xrc") }}), newTCP(t)
	b.wires = []transport.Transport{preferred, other}
	b.Policy = choice.New(choice.Options{
		Preferred: choice.Wire{Name: "xrc", Dial: preferred.Dial}, Other: choice.Wire{Name: "tcp", Dial: other.Dial}, Ask: preferred.Ask,
		Absent: xrc.Absent, Hung: xrc.Hung, Changed: func(netip.Addr) {}, Leave: func(_, _ netip.Addr) {}, Logger: zap.NewNop(),
	})
	return b
}

func (b *both) Name() string { return "both" }

func (b *both) Listen(local netip.Addr, accept func(transport.Link)) error {
	for _, w := range b.wires {
		err := w.Listen(local, func(l transport.Link) {
			if !b.Accepts(l) {
				l.Close(transport.Abort)
				return
			}
			accept(l)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (b *both) Stats() (all []transport.Counter) {
	for _, w := range b.wires {
		all = append(all, w.Stats()...)
	}
	return all
}

func (b *both) Unlisten() {
	for _, w := range slices.Backward(b.wires) {
		w.Unlisten()
	}
}

func (b *both) Close() (err error) {
	b.Policy.Close()
	for _, w := range slices.Backward(b.wires) {
		err = errors.Join(err, w.Close())
	}
	return err
}

// Dials of a policy keep the contract, whatever the peer speaks.
func TestContract(t *testing.T) {
	for _, c := range []struct {
		name string
		env  func(t *testing.T) transporttest.Env
	}{
		{"Both", func(t *testing.T) transporttest.Env { return transporttest.Env{A: newBoth(t), B: newBoth(t)} }},
		{"ToTCP", func(t *testing.T) transporttest.Env { return transporttest.Env{A: newBoth(t), B: newTCP(t)} }},
		{"FromXRC", func(t *testing.T) transporttest.Env { return transporttest.Env{A: newXRC(t), B: newBoth(t)} }},
	} {
		t.Run(c.name, func(t *testing.T) {
			transporttest.Run(t, func(t *testing.T) transporttest.Env {
				e := c.env(t)
				e.AddrA, e.AddrB, e.Nobody = newAddr(), newAddr(), newAddr()
				return e
			})
		})
	}
}

// Who serves whom is the same on both sides.
func TestChosenBySpeech(t *testing.T) {
	for _, c := range []struct {
		name string
		env  func(t *testing.T) transporttest.Env
		want string
	}{
		{"xrc", func(t *testing.T) transporttest.Env { return transporttest.Env{A: newBoth(t), B: newBoth(t)} }, "xrc"},
		{"tcp", func(t *testing.T) transporttest.Env { return transporttest.Env{A: newBoth(t), B: newTCP(t)} }, "tcp"},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := c.env(t)
			e.AddrA, e.AddrB = newAddr(), newAddr()
			p := e.Connect(t)
			if got := p.A.Link.Stats().Transport; got != c.want {
				t.Errorf("our end of the link is of %q, want %q", got, c.want)
			}
			if got := p.B.Link.Stats().Transport; got != c.want {
				t.Errorf("their end of the link is of %q, want %q", got, c.want)
			}
			if got := e.A.(*both).Chosen(e.AddrA, e.AddrB); got != c.want {
				t.Errorf("we have chosen %q, want %q", got, c.want)
			}
			if b, ok := e.B.(*both); ok {
				b.Taken(p.B.Link)
			}
			if b, ok := e.B.(*both); ok && b.Chosen(e.AddrB, e.AddrA) != c.want {
				t.Errorf("they have chosen %q, want %q", b.Chosen(e.AddrB, e.AddrA), c.want)
			}
		})
	}
}

// Who was forced to use the one tells a peer that tries the other.
func TestForcedPeerIsToldSo(t *testing.T) {
	e := transporttest.Env{A: newBoth(t), B: newBoth(t), AddrA: newAddr(), AddrB: newAddr()}
	if err := e.B.(*both).Force(e.AddrA, "tcp"); err != nil {
		t.Fatal(err)
	}
	p := e.Connect(t)
	if got := p.A.Link.Stats().Transport; got != "tcp" {
		t.Errorf("the link is of %q", got)
	}
}

package choice_test

import (
	"encoding/binary"
	"math/rand/v2"
	"net/netip"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"

	"github.com/rds-go/rds/transport/choice"
	"github.com/rds-go/rds/transport/tcp"
	"github.com/rds-go/rds/transport/transporttest"
	"github.com/rds-go/rds/transport/xrc"
)

// gnet starts a worker pool when the program starts; only what comes later is ours.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m, goleak.IgnoreCurrent()) }

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

func newXRC(t testing.TB) *xrc.Transport {
	t.Helper()
	tr, err := xrc.New(xrc.Options{Port: port + 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tr.Close() })
	return tr
}

func newBoth(t testing.TB) *choice.Transport {
	t.Helper()
	return choice.New(choice.Options{Preferred: newXRC(t), Other: newTCP(t), Absent: xrc.Absent})
}

// A choice keeps the contract, whatever the peer speaks.
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
			if got := e.A.(*choice.Transport).Chosen(e.AddrA, e.AddrB); got != c.want {
				t.Errorf("we have chosen %q, want %q", got, c.want)
			}
			if b, ok := e.B.(*choice.Transport); ok {
				b.Taken(p.B.Link)
			}
			if b, ok := e.B.(*choice.Transport); ok && b.Chosen(e.AddrB, e.AddrA) != c.want {
				t.Errorf("they have chosen %q, want %q", b.Chosen(e.AddrB, e.AddrA), c.want)
			}
		})
	}
}

// Who was forced to use the one tells a peer that tries the other.
func TestForcedPeerIsToldSo(t *testing.T) {
	e := transporttest.Env{A: newBoth(t), B: newBoth(t), AddrA: newAddr(), AddrB: newAddr()}
	if err := e.B.(*choice.Transport).Force(e.AddrA, "tcp"); err != nil {
		t.Fatal(err)
	}
	p := e.Connect(t)
	if got := p.A.Link.Stats().Transport; got != "tcp" {
		t.Errorf("the link is of %q", got)
	}
}

package mr

import (
	"bytes"
	"errors"
	"net/netip"
	"testing"
	"testing/synctest"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var (
	peerA = netip.MustParseAddr("192.0.2.1")
	peerB = netip.MustParseAddr("2001:db8::2")
)

const readWrite = LocalWrite | RemoteWrite | RemoteRead

// rig is a device with one domain and one owner, closed at the end of its test.
type rig struct {
	*testing.T
	*Device
	dom *Domain
	own *Owner
}

func newRig(t *testing.T, c Config) *rig {
	t.Helper()
	if c.Seed == 0 {
		c.Seed = 7
	}
	d, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return &rig{T: t, Device: d, dom: d.NewDomain(), own: d.NewOwner(OwnerConfig{})}
}

// parallelRig is the rig of a test that runs beside others.
func parallelRig(t *testing.T, c Config) *rig {
	t.Helper()
	t.Parallel()
	return newRig(t, c)
}

// inBubble runs a test, beside other tests, in which time stands still while anyone can run.
func inBubble(t *testing.T, c Config, f func(*rig)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { f(newRig(t, c)) })
}

func (g *rig) reader(name string) *Reader {
	r := g.NewReader(name, nil)
	g.Cleanup(r.Close)
	return r
}

func (g *rig) options(rights Rights) Options { return Options{Domain: g.dom, Rights: rights} }

// index and version are what a key hides.
func (g *rig) index(k Key) uint32 { i, _ := g.table.cipher.base(k); return i }

func (g *rig) version(k Key) uint8 { _, v := g.table.cipher.base(k); return v }

// region maps n bytes of fill.
func (g *rig) region(n int, fill byte, rights Rights) (Key, []byte) {
	g.Helper()
	mem := bytes.Repeat([]byte{fill}, n)
	return g.mapped(g.own, mem, g.options(rights)), mem
}

func (g *rig) mapped(o *Owner, mem []byte, opt Options) Key {
	g.Helper()
	k, err := o.Map(mem, opt)
	if err != nil {
		g.Fatalf("Map: %v", err)
	}
	return k
}

// read is a request of a peer for n bytes from the beginning.
func (g *rig) read(k Key, n int) *Request {
	return &Request{Key: k, Domain: g.dom, From: peerA, Rights: RemoteRead, Len: uint64(n)}
}

// fault is the outcome of a check in a section of its own.
func fault(r *Reader, req *Request) Fault {
	r.Enter()
	defer r.Leave()
	_, f := r.Check(req)
	return f
}

func (g *rig) wantFault(r *Reader, req *Request, want Fault) {
	g.Helper()
	if f := fault(r, req); f != want {
		g.Errorf("check of key %v: %v, want %v", req.Key, f, want)
	}
}

func (g *rig) want(err, want error) {
	g.Helper()
	if !errors.Is(err, want) {
		g.Errorf("error %v, want %v", err, want)
	}
}

func (g *rig) ok(err error) {
	g.Helper()
	if err != nil {
		g.Fatal(err)
	}
}

// later runs a call that may block and hands over its result.
func later(f func() error) <-chan error {
	c := make(chan error, 1)
	go func() { c <- f() }()
	return c
}

// blocked fails unless the call of later waits. In a bubble.
func (g *rig) blocked(c <-chan error, what string) {
	g.Helper()
	synctest.Wait()
	select {
	case err := <-c:
		g.Fatalf("%s returned %v", what, err)
	default:
	}
}

// same fails the test if what it got is not what it wants.
func same[V comparable](t testing.TB, what string, got, want V) {
	if got != want {
		t.Helper()
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

// errOf is the error of a call whose result does not matter.
func errOf[T any](_ T, err error) error { return err }

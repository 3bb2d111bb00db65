//go:build live

package gnetloop

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/rds-go/rds/internal/streamtest"
)

// sharer is an engine whose addresses of some prefixes share sockets.
type sharer struct {
	*testing.T
	*Engine
	told []string    // registered sockets, with their prefixes
	came chan string // connections: which listener, and the local address
}

// refusedPort is where no socket can be registered.
const refusedPort = 17251

func newSharer(t *testing.T, prefixes ...string) *sharer {
	t.Helper()
	s := &sharer{T: t, came: make(chan string, 8)}
	o := Options{Name: "test", EventLoops: 1, Sharing: &Sharing{Register: s.register}}
	for _, p := range prefixes {
		o.Sharing.Prefixes = append(o.Sharing.Prefixes, netip.MustParsePrefix(p))
	}
	var err error
	if s.Engine, err = New(o); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Engine.Close() })
	return s
}

func (s *sharer) register(prefixes []netip.Prefix, ln *net.TCPListener) error {
	s.told = append(s.told, fmt.Sprint(ln.Addr(), " of ", prefixes))
	if addrPort(ln.Addr()).Port() == refusedPort {
		return syscall.EPERM
	}
	return nil
}

func (s *sharer) listen(addr string) *Listener {
	s.Helper()
	ln, err := s.Listen(netip.MustParseAddrPort(addr), func(c *Conn) {
		s.came <- addr + " at " + c.LocalAddr().String()
		c.Close(0)
	})
	if err != nil {
		s.Fatal(err)
	}
	if ln.Addr().String() != addr {
		s.Errorf("%s listens on %v", addr, ln.Addr())
	}
	return ln
}

// visit connects to an address and says how the connection ends.
func visit(addr string) error {
	c, err := net.DialTimeout("tcp", addr, streamtest.Patience)
	if err != nil {
		return err
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(streamtest.Patience))
	_, err = c.Read(make([]byte, 1))
	return err
}

// Addresses of a prefix share one socket, which is told of once; a connection goes to whoever
// listens on its local address, is ended where nobody does, and the socket is closed with the
// last of the listeners.
func TestSharedListener(t *testing.T) {
	t.Parallel()
	// No kernel brings connections here, so all are to the address that the socket is bound to.
	const bound = "127.31.4.0:17250"
	s := newSharer(t, "127.31.8.0/24", "127.31.4.0/30", "fd00::/120")
	other := s.listen("127.31.8.7:17250")
	if err := visit(bound); errors.Is(err, os.ErrDeadlineExceeded) || len(s.came) > 0 {
		t.Errorf("a connection to an address that nobody listens on was not ended: %v", err)
	}
	first := s.listen(bound)
	if err := visit(bound); errors.Is(err, syscall.ECONNREFUSED) {
		t.Error(err)
	}
	if got, want := streamtest.Receive(t, s.came), bound+" at "+bound; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if _, err := s.Listen(first.Addr(), nil); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("twice on an address: %v", err)
	}
	s.listen("127.31.9.1:17250")
	want := []string{bound + " of [127.31.8.0/24 127.31.4.0/30]", "127.31.9.1:17250 of [127.31.9.1/32]"}
	if !slices.Equal(s.told, want) {
		t.Errorf("told of %q, want %q", s.told, want)
	}
	files, err := s.Listening()
	if err != nil || len(files) != 2 {
		t.Errorf("%d sockets, %v", len(files), err)
	}
	for _, f := range files {
		f.File.Close()
	}
	other.Close()
	if err := visit(bound); errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("after one of two listeners was closed: %v", err)
	}
	first.Close()
	if err := visit(bound); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("after the last listener was closed: %v", err)
	}
}

// A socket that cannot be registered does not listen.
func TestSharedListenerThatIsRefused(t *testing.T) {
	t.Parallel()
	s := newSharer(t, "127.31.16.0/24")
	if _, err := s.Listen(netip.MustParseAddrPort("127.31.16.7:17251"), nil); !errors.Is(err, syscall.EPERM) {
		t.Errorf("a socket that could not be registered: %v", err)
	}
	if err := visit("127.31.16.0:17251"); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("it listens all the same: %v", err)
	}
}

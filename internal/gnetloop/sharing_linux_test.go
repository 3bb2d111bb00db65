package gnetloop

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"syscall"
	"testing"
	"time"
)

// Addresses of a prefix share one socket, which is told of once; a connection goes to whoever
// listens on its local address, is ended where nobody does, and the socket is closed with the
// last of the listeners.
func TestSharedListener(t *testing.T) {
	t.Parallel()
	type told struct {
		prefixes []netip.Prefix
		at       netip.AddrPort
	}
	var all []told
	e, err := New(Options{Name: "test", EventLoops: 1, Sharing: &Sharing{
		Prefixes: []netip.Prefix{netip.MustParsePrefix("127.31.8.0/24"), netip.MustParsePrefix("127.31.4.0/30"), netip.MustParsePrefix("fd00::/120")},
		Register: func(prefixes []netip.Prefix, ln *net.TCPListener) error {
			at := addrPort(ln.Addr())
			all = append(all, told{prefixes, at})
			if at.Port() == 17251 {
				return syscall.EPERM
			}
			return nil
		},
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close() })
	came := make(chan string, 8)
	listen := func(addr string) *Listener {
		t.Helper()
		ln, err := e.Listen(netip.MustParseAddrPort(addr), func(c *Conn) {
			came <- addr + " at " + c.LocalAddr().String()
			c.Close(0)
		})
		if err != nil {
			t.Fatal(err)
		}
		if ln.Addr().String() != addr {
			t.Errorf("%s listens on %v", addr, ln.Addr())
		}
		return ln
	}
	// No kernel brings connections here, so all are to the address that the socket is bound to.
	dial := func() (err error) {
		c, err := net.DialTimeout("tcp", "127.31.4.0:17250", 10*time.Second)
		if err != nil {
			return err
		}
		defer c.Close()
		_ = c.SetDeadline(time.Now().Add(10 * time.Second))
		_, err = c.Read(make([]byte, 1))
		return err
	}
	other := listen("127.31.8.7:17250")
	if err := dial(); errors.Is(err, os.ErrDeadlineExceeded) || len(came) > 0 {
		t.Errorf("a connection to an address that nobody listens on was not ended: %v", err)
	}
	first := listen("127.31.4.0:17250")
	if err := dial(); errors.Is(err, syscall.ECONNREFUSED) {
		t.Error(err)
	}
	if got, want := <-came, "127.31.4.0:17250 at 127.31.4.0:17250"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if _, err := e.Listen(first.Addr(), nil); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("twice on an address: %v", err)
	}
	alone := listen("127.31.9.1:17250")
	if len(all) != 2 || all[0].at.String() != "127.31.4.0:17250" || len(all[0].prefixes) != 2 ||
		all[1].at != alone.Addr() || len(all[1].prefixes) != 1 || all[1].prefixes[0].String() != "127.31.9.1/32" {
		t.Errorf("told of %+v", all)
	}
	if files, err := e.Listening(); err != nil || len(files) != 2 {
		t.Errorf("%d sockets, %v", len(files), err)
	} else {
		for _, f := range files {
			f.File.Close()
		}
	}
	other.Close()
	first.Close()
	if err := dial(); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("after the last listener was closed: %v", err)
	}
	if _, err := e.Listen(netip.MustParseAddrPort("127.31.8.7:17251"), nil); !errors.Is(err, syscall.EPERM) {
		t.Errorf("a socket that could not be registered: %v", err)
	}
	if c, err := net.Dial("tcp", "127.31.4.0:17251"); err == nil {
		c.Close()
		t.Error("it listens all the same")
	}
}

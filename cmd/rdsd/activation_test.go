//go:build live

package main

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/rds-go/rds/internal/rdstest"
)

// unixFile is a listening Unix socket as a service manager would pass it.
func unixFile(t *testing.T, network, name string) *os.File {
	t.Helper()
	l, err := net.ListenUnix(network, &net.UnixAddr{Name: filepath.Join(rdstest.Dir(t), "s"), Net: network})
	must(t, err)
	l.SetUnlinkOnClose(false)
	defer l.Close()
	return named(t, l.File, name)
}

// named is the file under a name of its own, which the caller owns.
func named(t *testing.T, file func() (*os.File, error), name string) *os.File {
	t.Helper()
	f, err := file()
	must(t, err)
	defer f.Close()
	fd, err := syscall.Dup(int(f.Fd()))
	must(t, err)
	return os.NewFile(uintptr(fd), name)
}

func tcpFile(t *testing.T, name string) *os.File {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer l.Close()
	return named(t, l.(*net.TCPListener).File, name)
}

func TestInheritedSockets(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name            string
		files           []*os.File
		attach, control bool
		want            string // error
	}{
		{"none", nil, false, false, ""},
		{"both by name", []*os.File{unixFile(t, "unix", "control"), unixFile(t, "unixpacket", "attach")}, true, true, ""},
		{"attach", []*os.File{unixFile(t, "unixpacket", "attach")}, true, false, ""},
		{"control", []*os.File{unixFile(t, "unix", "control")}, false, true, ""},
		{"a single one without a name of ours", []*os.File{unixFile(t, "unixpacket", "rdsd.socket")}, true, false, ""},
		{"a single stream without a name of ours", []*os.File{unixFile(t, "unix", "rdsd.socket")}, false, false, `inherited socket "rdsd.socket": neither attach nor control`},
		{"two without names", []*os.File{unixFile(t, "unixpacket", "a"), unixFile(t, "unixpacket", "b")}, false, false,
			`inherited socket "a": neither attach nor control` + "\n" + `inherited socket "b": neither attach nor control`},
		{"stream to attach to", []*os.File{unixFile(t, "unix", "attach")}, false, false, `inherited socket "attach": not a sequential packet socket`},
		{"packets for control", []*os.File{unixFile(t, "unixpacket", "control")}, false, false, `inherited socket "control": not a stream socket`},
		{"twice", []*os.File{unixFile(t, "unixpacket", "attach"), unixFile(t, "unixpacket", "attach")}, false, false, `inherited socket "attach": a second one of that name`},
		{"not Unix", []*os.File{tcpFile(t, "attach")}, false, false, `inherited socket "attach": not a Unix socket`},
	} {
		in, err := listeners(c.files)
		if (err == nil) != (c.want == "") || (err != nil && err.Error() != c.want) {
			t.Errorf("%s: error %v, want %q", c.name, err, c.want)
		}
		if (in.attach != nil) != c.attach || (in.control != nil) != c.control {
			t.Errorf("%s: attach %v, control %v", c.name, in.attach, in.control)
		}
		paths := []string{}
		for _, l := range []*net.UnixListener{in.attach, in.control} {
			if l != nil {
				paths = append(paths, l.Addr().String())
			}
		}
		in.close()
		for _, p := range paths {
			if _, err := os.Lstat(p); err != nil {
				t.Errorf("%s: closing removed the manager's file: %v", c.name, err)
			}
		}
	}
}

// What is inherited takes the place of what the settings name.
func TestInheritedIntoPlan(t *testing.T) {
	t.Parallel()
	in, err := listeners([]*os.File{unixFile(t, "unix", "control"), unixFile(t, "unixpacket", "attach")})
	must(t, err)
	defer in.close()
	p := serving(t, "")
	must(t, in.into(&p))
	if p.service.Path != "" || p.service.Listener != in.attach || p.control.Path != "" || p.control.Listener != in.control {
		t.Errorf("service %+v, control %+v", p.service, p.control)
	}
	p = serving(t, "socket = \"none\"\ncontrol = \"none\"\n")
	if err := in.into(&p); err == nil || !strings.Contains(err.Error(), "socket: none") || !strings.Contains(err.Error(), "control: none") {
		t.Errorf("error %v", err)
	}
}

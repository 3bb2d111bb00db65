//go:build live

package ipc

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// connect returns the two ends of a session's socket, and the daemon's raw one
// to misbehave with.
func connect(t *testing.T) (app, daemon *Conn, raw *net.UnixConn) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.ListenUnix(Network, &net.UnixAddr{Name: path, Net: Network})
	must(t, err)
	defer l.Close()
	if app, err = Dial(path); err != nil {
		t.Fatal(err)
	}
	if raw, err = l.AcceptUnix(); err != nil {
		t.Fatal(err)
	}
	daemon = NewConn(raw)
	t.Cleanup(func() { _ = app.Close(); _ = daemon.Close() })
	return app, daemon, raw
}

func TestCallsCross(t *testing.T) {
	t.Parallel()
	app, daemon, _ := connect(t)
	addr := netip.MustParseAddrPort("[fe80::1%eth0]:4000")
	for _, v := range []any{
		&Hello{Protocol: Protocol, Version: Version, Features: []string{"a"}},
		&Welcome{Version: 1, Features: []string{"a"}, Error: "no", Errno: 1, Session: 2, SendBuffer: 3, ReceiveBuffer: 4, Linger: 5},
		&Request{ID: 1 << 63, Op: CallBind, Socket: 1, Addr: addr, Local: addr.Addr(), Remote: addr.Addr(), Option: OptionTOS, Value: -1, Linger: 1},
		&Reply{ID: 1, Error: "e", Errno: 1, Socket: 2, Addr: addr, Peer: 3, Messages: 4, Bytes: 5, Data: []byte{0, 255}, More: true},
	} {
		must(t, app.Send(v))
		got := reflect.New(reflect.TypeOf(v).Elem()).Interface()
		if err := daemon.Receive(got); err != nil || !reflect.DeepEqual(got, v) {
			t.Errorf("%+v (%v), want %+v", got, err, v)
		}
	}
	if b, _ := json.Marshal(Request{ID: 1, Op: CallInfo}); string(b) != `{"id":1,"op":"info"}` {
		t.Errorf("what is not set is sent: %s", b)
	}
	if b, _ := json.Marshal(Reply{Data: make([]byte, DataPart), Error: strings.Repeat("x", 1000)}); len(b) > maxFrame {
		t.Errorf("a part of a report makes a message of %d bytes", len(b))
	}
}

func TestMessagesOfAnySizeUpToTheLimitCross(t *testing.T) {
	t.Parallel()
	app, daemon, _ := connect(t)
	for _, n := range []int{0, 1, maxFrame - 2} { // two quotes
		must(t, app.Send(strings.Repeat("x", n)))
		var s string
		if err := daemon.Receive(&s); err != nil || len(s) != n {
			t.Errorf("%d of %d: %v", len(s), n, err)
		}
	}
	if err := app.Send(strings.Repeat("x", maxFrame-1)); err != ErrFrame {
		t.Errorf("a message of %d bytes was sent: %v", maxFrame+1, err)
	}
}

func TestMalformedMessagesAreErrors(t *testing.T) {
	t.Parallel()
	app, daemon, raw := connect(t)
	must(t, raw.SetWriteBuffer(4*maxFrame))
	for _, c := range []struct {
		name, frame string
		want        error
	}{
		{"no JSON", "hello", ErrFrame},
		{"half an object", `{"id":`, ErrFrame},
		{"two objects", `{"id":1}{"id":2}`, ErrFrame},
		{"another type", `{"id":"x"}`, ErrFrame},
		{"a negative socket", `{"socket":-1}`, ErrFrame},
		{"a socket beyond 32 bits", `{"socket":4294967296}`, ErrFrame},
		{"no address", `{"addr":"example.com:1"}`, ErrFrame},
		{"an array", `[]`, ErrFrame},
		{"deep", strings.Repeat("[", maxFrame), ErrFrame},
		{"one byte too long", `"` + strings.Repeat("x", maxFrame-1) + `"`, ErrFrame},
		{"much too long", `"` + strings.Repeat("x", 2*maxFrame) + `"`, ErrFrame},
		{"unknown fields", `{"id":1,"later":{"x":[1]}}`, nil},
		{"empty", "", io.EOF},
	} {
		for _, files := range []bool{false, true} {
			if _, _, err := raw.WriteMsgUnix([]byte(c.frame), nil, nil); err != nil {
				t.Fatalf("%s: %v", c.name, err)
			}
			var v Request
			var err error
			if files {
				_, err = app.ReceiveFiles(&v, WelcomeFiles)
			} else {
				err = app.Receive(&v)
			}
			if !errors.Is(err, c.want) || (err == nil) != (c.want == nil) {
				t.Errorf("%s: %v, want %v", c.name, err, c.want)
			}
		}
	}
	_ = daemon.Close()
	if err := app.Receive(new(Request)); err != io.EOF {
		t.Errorf("after the end: %v", err)
	}
	if _, err := app.ReceiveFiles(new(Request), 1); err != io.EOF {
		t.Errorf("after the end: %v", err)
	}
}

// descriptors lists what is open in this process.
func descriptors(t *testing.T) []string {
	t.Helper()
	dir, err := os.ReadDir("/proc/self/fd")
	must(t, err)
	var out []string
	for _, e := range dir {
		if name, err := os.Readlink("/proc/self/fd/" + e.Name()); err == nil && !strings.Contains(name, "/proc/") {
			out = append(out, e.Name()+" "+name)
		}
	}
	slices.Sort(out)
	return out
}

// sameFiles checks files that came with a message.
func sameFiles(t *testing.T, name string, got, want []*os.File) {
	t.Helper()
	for i, f := range got {
		a, _ := f.Stat()
		b, _ := want[i].Stat()
		if !os.SameFile(a, b) {
			t.Errorf("%s: file %d is another one", name, i)
		}
		if flags, err := unix.FcntlInt(f.Fd(), unix.F_GETFD, 0); err != nil || flags&unix.FD_CLOEXEC == 0 {
			t.Errorf("%s: file %d is inherited", name, i)
		}
	}
}

// Not parallel: it counts the descriptors of the process.
func TestNoDescriptorOfABadMessageStaysOpen(t *testing.T) {
	app, daemon, raw := connect(t)
	dir := t.TempDir()
	var files []*os.File
	var fds []int
	for i := range 16 {
		f, err := os.Create(filepath.Join(dir, fmt.Sprint(i)))
		must(t, err)
		defer f.Close()
		files, fds = append(files, f), append(fds, int(f.Fd()))
	}
	for _, c := range []struct {
		name  string
		frame string
		send  int
		want  int
		got   int // -1: an error
	}{
		{"as wanted", `{}`, 4, 4, 4},
		{"none", `{}`, 0, 4, 0},
		{"too few", `{}`, 3, 4, -1},
		{"one too many", `{}`, 5, 4, -1},
		{"one too many, which the room of a control message would take", `{}`, 4, 3, -1},
		{"many too many", `{}`, 16, 4, -1},
		{"none wanted", `{}`, 2, 0, -1},
		{"no JSON", `x`, 4, 4, -1},
		{"too long", strings.Repeat(" ", maxFrame+1), 4, 4, -1},
		{"empty", ``, 4, 4, -1},
		{"empty, and too many", ``, 9, 4, -1},
	} {
		var oob []byte
		if c.send > 0 {
			oob = unix.UnixRights(fds[:c.send]...)
		}
		for _, withFiles := range []bool{true, false} {
			before := descriptors(t)
			if _, _, err := raw.WriteMsgUnix([]byte(c.frame), oob, nil); err != nil {
				t.Fatal(err)
			}
			var got []*os.File
			var v Welcome
			var err error
			if withFiles {
				got, err = app.ReceiveFiles(&v, c.want)
				if (err != nil) != (c.got < 0) || err == nil && len(got) != c.got {
					t.Errorf("%s: %d files, %v, want %d", c.name, len(got), err, c.got)
				}
				sameFiles(t, c.name, got, files)
				CloseFiles(got)
			} else {
				_ = app.Receive(&v)
			}
			if after := descriptors(t); !slices.Equal(before, after) {
				t.Errorf("%s, files %v: open before\n%s\nafter\n%s", c.name, withFiles, strings.Join(before, "\n"), strings.Join(after, "\n"))
			}
		}
	}
	must(t, daemon.Send(Welcome{Version: 1}, files[:4]...))
	var w Welcome
	got, err := app.ReceiveFiles(&w, WelcomeFiles)
	if err != nil || len(got) != 4 || w.Version != 1 {
		t.Errorf("%d files, %v", len(got), err)
	}
	CloseFiles(got)
	_ = files[0].Close()
	if err := daemon.Send(Welcome{}, files[0]); err == nil {
		t.Error("a closed file was sent")
	}
}

func TestTheKernelSaysWhoConnected(t *testing.T) {
	t.Parallel()
	_, daemon, _ := connect(t)
	c, err := daemon.Peer()
	must(t, err)
	if c.PID != os.Getpid() || c.UID != uint32(os.Geteuid()) || c.GID != uint32(os.Getegid()) {
		t.Errorf("%+v", c)
	}
	groups, err := os.Getgroups()
	must(t, err)
	if len(c.Groups) != len(groups) {
		t.Errorf("groups %d, want %d", c.Groups, groups)
	}
	for _, g := range groups {
		if !slices.Contains(c.Groups, uint32(g)) {
			t.Errorf("groups %d, want %d", c.Groups, groups)
		}
	}
	_ = daemon.Close()
	if _, err := daemon.Peer(); err == nil {
		t.Error("a closed connection has a peer")
	}
}

func TestBoundRefusesLongCalls(t *testing.T) {
	t.Parallel()
	app, daemon, _ := connect(t)
	daemon.Bound()
	for _, c := range []struct {
		n    int
		want error
	}{{maxCall - 2, nil}, {maxCall - 1, ErrFrame}} { // two quotes
		must(t, app.Send(strings.Repeat("x", c.n)))
		var s string
		if err := daemon.Receive(&s); !errors.Is(err, c.want) || err == nil && len(s) != c.n {
			t.Errorf("%d bytes: %d, %v", c.n, len(s), err)
		}
	}
}

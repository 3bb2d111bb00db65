package rds

import (
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rds-go/rds/internal/ipc"
	"github.com/rds-go/rds/internal/rdstest"
)

// process makes this program again, as a part of test, in a role.
func process(test, role string, args ...string) *exec.Cmd {
	cmd := exec.Command(os.Args[0], "-test.run=^"+test+"$", "-test.count=1")
	cmd.Env = append(os.Environ(), exhaustEnv+"=1", "GORACE=atexit_sleep_ms=0", rdstest.RoleEnv+"="+role, rdstest.ArgEnv+"="+strings.Join(args, " "))
	return cmd
}

// evil is an attached application that keeps no rule: it has shaken hands, and
// writes to the shared memory what it likes.
type evil struct {
	testing.TB
	sock *net.UnixConn // the socket of conn
	conn *ipc.Conn
	w    ipc.Welcome
	seg  *ipc.Segment
	raw  []byte // all of it, once more
	bell *os.File
	ear  *os.File
	sq   ipc.Producer
	id   uint64 // id of the last call

	others map[uint64]ipc.Reply // replies that came while another was awaited
}

// intrude shakes hands by hand.
func intrude(t testing.TB, path string, features ...string) *evil {
	t.Helper()
	c, err := net.DialUnix(ipc.Network, nil, &net.UnixAddr{Name: path, Net: ipc.Network})
	if err != nil {
		t.Fatal(err)
	}
	e := &evil{TB: t, sock: c, conn: ipc.NewConn(c)}
	_ = c.SetDeadline(time.Now().Add(rdstest.Patience))
	if err := e.conn.Send(&ipc.Hello{Protocol: ipc.Protocol, Version: ipc.Version, Features: append(features, ipc.FeatureRDMA)}); err != nil {
		t.Fatal(err)
	}
	files, err := e.conn.ReceiveFiles(&e.w, ipc.WelcomeFiles)
	if err != nil || len(files) == 0 {
		t.Fatalf("%+v, %v", e.w, err)
	}
	if e.seg, err = ipc.OpenSegment(files[0]); err == nil {
		e.raw, err = unix.Mmap(int(files[0].Fd()), 0, e.seg.Size(), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	}
	if err != nil {
		t.Fatal(err)
	}
	ipc.CloseFiles(files[:2])
	e.bell, e.ear, e.sq = files[2], files[3], e.seg.Submit()
	return e
}

// leave gives everything back.
func (e *evil) leave() {
	_ = e.sock.Close()
	ipc.CloseFiles([]*os.File{e.bell, e.ear})
	_ = unix.Munmap(e.raw)
	_ = e.seg.Close()
}

// ask makes a call and waits for its answer.
func (e *evil) ask(q ipc.Request) (r ipc.Reply) {
	e.Helper()
	e.id++
	q.ID = e.id
	_ = e.sock.SetDeadline(time.Now().Add(rdstest.Patience)) // what came before may have taken its time
	if err := e.conn.Send(&q); err != nil {
		e.Fatal(err)
	}
	return e.reply(q.ID)
}

// reply waits for the answer to a call, which may have come before another's.
func (e *evil) reply(id uint64) ipc.Reply {
	e.Helper()
	for {
		if r, ok := e.others[id]; ok {
			delete(e.others, id)
			return r
		}
		var r ipc.Reply
		if err := e.conn.Receive(&r); err != nil {
			e.Fatalf("call %d: %v", id, err)
		}
		if e.others == nil {
			e.others = make(map[uint64]ipc.Reply)
		}
		e.others[r.ID] = r
	}
}

// bind and resolve are calls that succeed.
func (e *evil) bind(a netip.AddrPort) (id uint32, port uint16) {
	e.Helper()
	r := e.ask(ipc.Request{Op: ipc.CallBind, Addr: a})
	if r.Error != "" {
		e.Fatal(r.Error)
	}
	return r.Socket, r.Addr.Port()
}

func (e *evil) resolve(local, remote netip.Addr) uint32 {
	e.Helper()
	r := e.ask(ipc.Request{Op: ipc.CallResolve, Local: local, Remote: remote})
	if r.Error != "" {
		e.Fatal(r.Error)
	}
	return r.Peer
}

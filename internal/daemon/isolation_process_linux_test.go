//go:build live

package daemon

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/rds-go/rds/internal/client"
	"github.com/rds-go/rds/internal/node"
	"github.com/rds-go/rds/internal/rdstest"
	"github.com/rds-go/rds/rds/config"
	"github.com/rds-go/rds/rds/datagram"
)

// Two processes attached to one daemon expose memory to a peer. The cookie of one is good for
// its own sockets, both of them, on every path and after every reconnect, and for no socket of
// the other process: such operations are refused one by one, and the other process notices
// nothing. The peer is another node, or a socket of the daemon's.
func TestXRCREQ47CookiesOfOneApplicationAreNoOthers(t *testing.T) {
	if os.Getenv(rdstest.RoleEnv) == "exposes" {
		beIsolated(strings.Fields(os.Getenv(rdstest.ArgEnv)))
	}
	t.Run("peer", func(t *testing.T) {
		isolate(t, func(l *lab, _ *node.Node) *node.Node {
			return l.node(config.Node{Wire: config.WireXRC, Paths: 8})
		})
	})
	t.Run("own", func(t *testing.T) {
		isolate(t, func(_ *lab, n *node.Node) *node.Node { return n })
	})
}

// Another process can neither free a region, nor offer it to a peer as its own, by the cookie
// or by guesses of it.
func TestMRREQ30AnotherProcessFreesNoRegion(t *testing.T) {
	l := newLab(t)
	_, path := serving(t, l.node(config.Node{Wire: config.WireXRC}), config.Service{})
	host := rdstest.NewAddr()
	peer := l.bind(l.node(config.Node{Wire: config.WireXRC}))
	x := startIsolated(t, path, host, 500)
	y := startIsolated(t, path, host, 600, fmt.Sprintf("%#x", uint64(x.cookie)))
	if got := y.noticed(t); got != "nothing" {
		t.Errorf("the thief: %s", got)
	}
	rdstest.OperateAt(t, peer, x.at[0], 1, datagram.Outgoing{RDMA: &datagram.RDMA{Cookie: x.cookie, Local: [][]byte{[]byte("alive")}, Write: true, Silent: true}})
	rdstest.WantStatus(t, peer, 1, datagram.StatusSuccess)
	if got := x.noticed(t); got != "memory" {
		t.Error(got)
	}
}

// isolated is one of the processes.
type isolated struct {
	cmd    *exec.Cmd
	in     io.WriteCloser
	out    *bufio.Reader
	at     [2]netip.AddrPort
	cookie datagram.Cookie // of memory of 64 bytes
}

func startIsolated(t *testing.T, path string, at netip.Addr, port uint16, args ...string) *isolated {
	t.Helper()
	p := &isolated{at: [2]netip.AddrPort{rdstest.AddrOf(at, port), rdstest.AddrOf(at, port+1)}}
	p.cmd = rdstest.Process("TestXRCREQ47CookiesOfOneApplicationAreNoOthers", "exposes", append([]string{path, p.at[0].String(), p.at[1].String()}, args...)...)
	p.in, p.out = rdstest.Piped(t, p.cmd)
	t.Cleanup(func() { _ = p.cmd.Process.Kill() })
	line, err := p.out.ReadString('\n')
	if _, scan := fmt.Sscan(line, &p.cookie); err != nil || scan != nil {
		t.Fatalf("%q, %v, %v", line, err, scan)
	}
	return p
}

// noticed has the process say what it has noticed, and ends it.
func (p *isolated) noticed(t *testing.T) string {
	t.Helper()
	_ = p.in.Close()
	line, err := p.out.ReadString('\n')
	rdstest.NoError(t, err)
	_ = p.cmd.Wait()
	return strings.TrimSpace(line)
}

func isolate(t *testing.T, other func(*lab, *node.Node) *node.Node) {
	l := newLab(t)
	n := l.node(config.Node{Wire: config.WireXRC})
	_, path := serving(t, n, config.Service{})
	host := rdstest.NewAddr()
	from := other(l, n)
	x, y := startIsolated(t, path, host, 500), startIsolated(t, path, host, 600)
	var peers []rdstest.Socket // their ports are on several paths
	for range 4 {
		peers = append(peers, l.bind(from))
	}
	token := uint64(0)
	do := func(peer rdstest.Socket, kind string, c datagram.Cookie, to netip.AddrPort, want datagram.Status) {
		t.Helper()
		var o datagram.Outgoing
		switch kind {
		case "write":
			o.RDMA = &datagram.RDMA{Cookie: c, Local: [][]byte{[]byte("written!")}, Write: true, Silent: true}
		case "message":
			o.Data, o.RDMA = []byte("behind"), &datagram.RDMA{Cookie: c, Local: [][]byte{[]byte("written!")}, Write: true}
		case "read":
			o.RDMA = &datagram.RDMA{Cookie: c, Local: [][]byte{make([]byte, 8)}, Silent: true}
		case "atomic":
			o.Atomic = &datagram.Atomic{Cookie: c, Offset: uint64(-c.Offset() & 7), Kind: datagram.FetchAdd, Add: 1, Silent: true}
		}
		for got := datagram.StatusAgain; got == datagram.StatusAgain; { // the socket's last operation was refused
			token++
			rdstest.OperateAt(t, peer, to, token, o)
			m := rdstest.MustRecv(t, peer)
			if got = m.Status; m.Kind != datagram.KindStatus || m.Token != token || got != want && got != datagram.StatusAgain {
				t.Fatalf("%s to %v: %v, want %v", kind, to, &m, want)
			}
		}
	}
	before := rdstest.Counter(t, from, "conn_reset")
	for _, peer := range peers {
		for _, to := range x.at {
			do(peer, "write", x.cookie, to, datagram.StatusSuccess)
			do(peer, "read", x.cookie, to, datagram.StatusSuccess)
			do(peer, "atomic", x.cookie, to, datagram.StatusSuccess)
		}
		for _, kind := range []string{"write", "message", "read", "atomic"} {
			do(peer, kind, x.cookie, y.at[0], datagram.StatusRemoteError)
			do(peer, "write", x.cookie, x.at[0], datagram.StatusSuccess)
			do(peer, kind, y.cookie, x.at[1], datagram.StatusRemoteError)
			do(peer, "write", x.cookie, x.at[1], datagram.StatusSuccess)
			do(peer, kind, x.cookie, peer.LocalAddrPort(), datagram.StatusRemoteError)
			do(peer, kind, x.cookie, rdstest.AddrOf(host, 700), datagram.StatusRemoteError) // nobody has the port
			do(peer, "write", x.cookie, x.at[0], datagram.StatusSuccess)
		}
	}
	rdstest.WantCounter(t, from, "conn_reset", before)
	if from != n {
		for range 3 {
			rdstest.CutLinks(from)
			for _, peer := range peers {
				afterCut(t, peer, x.cookie, x.at[1])
				do(peer, "write", x.cookie, y.at[1], datagram.StatusRemoteError)
				do(peer, "write", x.cookie, x.at[0], datagram.StatusSuccess)
			}
		}
	}
	if got := y.noticed(t); got != "nothing" {
		t.Errorf("the other application has noticed %s", got)
	}
	if got := x.noticed(t); got != "memory" {
		t.Errorf("the application has noticed %s", got)
	}
}

// afterCut writes until that succeeds: an operation that was begun on the connection before is
// lost with it.
func afterCut(t *testing.T, peer rdstest.Socket, c datagram.Cookie, to netip.AddrPort) {
	t.Helper()
	for {
		rdstest.OperateAt(t, peer, to, 1, datagram.Outgoing{RDMA: &datagram.RDMA{Cookie: c, Local: [][]byte{[]byte("again...")}, Write: true, Silent: true}})
		switch m := rdstest.MustRecv(t, peer); m.Status {
		case datagram.StatusSuccess:
			return
		case datagram.StatusDropped:
		default:
			t.Fatalf("%v", &m)
		}
	}
}

// beIsolated is the process: path address address, and perhaps the cookie of another process,
// which it tries to free and to offer. It exposes memory, prints the cookie, and at the end of
// its input what it has noticed.
func beIsolated(args []string) {
	err := func() error {
		c, err := client.Dial(args[0])
		if err != nil {
			return err
		}
		s, err := c.Bind(netip.MustParseAddrPort(args[1]))
		if err != nil {
			return err
		}
		second, err := c.Bind(netip.MustParseAddrPort(args[2]))
		if err != nil {
			return err
		}
		memory, err := s.AllocMemory(64)
		if err != nil {
			return err
		}
		cookie, err := s.GetMR(memory.B, 0)
		if err != nil {
			return err
		}
		var noticed []string
		if len(args) > 3 {
			var foreign datagram.Cookie
			if _, err := fmt.Sscan(args[3], &foreign); err != nil {
				return err
			}
			if err := s.SendMessage(context.Background(), &datagram.Outgoing{To: second.LocalAddrPort(), HasDest: true, Dest: foreign}); !errors.Is(err, datagram.ErrInvalid) {
				noticed = append(noticed, fmt.Sprint("offered: ", err))
			}
			for guess := range uint32(1000) {
				if err := s.FreeMR(datagram.MakeCookie(foreign.Key()+guess, foreign.Offset()), datagram.MRInvalidate); !errors.Is(err, datagram.ErrInvalid) {
					noticed = append(noticed, fmt.Sprint("freed: ", err))
				}
			}
		}
		fmt.Printf("%#x\n", uint64(cookie))
		_, _ = io.Copy(io.Discard, os.Stdin)
		for _, s := range []rdstest.Socket{s, second} {
			if m, err := s.TryRecv(); !errors.Is(err, datagram.ErrWouldBlock) {
				noticed = append(noticed, fmt.Sprint(&m, err))
			}
		}
		if !bytes.Equal(memory.B, make([]byte, 64)) {
			noticed = append(noticed, "memory")
		}
		if noticed == nil {
			noticed = []string{"nothing"}
		}
		fmt.Println(strings.Join(noticed, ", "))
		return nil
	}()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

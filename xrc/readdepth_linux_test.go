//go:build live

package xrc

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/netip"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"

	"github.com/rds-go/rds/internal/daemon"
	"github.com/rds-go/rds/internal/node"
	"github.com/rds-go/rds/internal/rdstest"
	"github.com/rds-go/rds/mr"
	"github.com/rds-go/rds/rds/config"
	"github.com/rds-go/rds/transport/iwarp"
)

// remoteMemory is a server's queue, and memory.
type remoteMemory struct {
	queue, key uint32
	addr       uint64
}

// relayedHosts are a host here and one that is a process with two servers. What they send each other goes
// through a relay.
func relayedHosts(t *testing.T, through func(io.Reader) io.Reader) (near *host, far *worker, at netip.Addr, servers [2]remoteMemory) {
	t.Helper()
	l := rdstest.NewLab(t)
	// The relay is between the hosts under their own addresses: each knows the other's ports as the own ones.
	r := &rdstest.Relay{TB: t, Through: through, Near: rdstest.NewAddr(), Far: rdstest.NewAddr(), Conns: make(map[*net.TCPConn]int)}
	farPort := l.Port ^ 2
	for x := range uint16(2) {
		between := func(from, to netip.Addr, seen, real uint16) *rdstest.RelayPort {
			return &rdstest.RelayPort{At: netip.AddrPortFrom(to, seen^x), From: rdstest.AddrOf(from, 0), To: netip.AddrPortFrom(to, real^x), Xrc: int(x)}
		}
		r.Ports = append(r.Ports, between(r.Near, r.Far, l.Port, farPort), between(r.Far, r.Near, farPort, l.Port))
		r.Forward(int(x))
	}
	t.Cleanup(r.End)
	near = &host{addr: r.Near}
	near.node = rdstest.Start(&l, node.New, config.Node{Wire: config.WireXRC, Serves: true, Addresses: []netip.Addr{r.Near}})
	near.svc, near.path = rdstest.Serve(t, daemon.New, near.node, config.Service{})
	dir := rdstest.Dir(t)
	path, f := filepath.Join(dir, "s"), domainFile(t)
	far = startProcess(t, nil, hostRole, path, r.Far.String(), strconv.Itoa(int(farPort)))
	far.hear("ready")
	for k := range servers {
		line := startProcess(t, f, serverRole, path, strconv.Itoa(7+k)).hear("ready")
		if _, err := fmt.Sscan(line, &servers[k].queue, &servers[k].key, &servers[k].addr); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
	}
	return near, far, r.Far, servers
}

// Two processes have a queue and memory each, behind one target of a daemon, which is a process, too. With a
// depth of 0 the target refuses reads and atomics, and sends and writes to both pass. A depth of 4 is that of both
// queues together: while the daemon is stopped by SIGSTOP four reads are on the wire, and never more.
func TestXRCREQ13DepthOfReadsIsThatOfAllQueuesTogether(t *testing.T) {
	var wire readCount
	near, far, at, servers := relayedHosts(t, wire.through)
	a, b := servers[0], servers[1]

	p := newProcess(t, near, nil, 1, 1024)
	ctx := rdstest.Background(t)
	connect := func(reads int) *Initiator {
		i, err := p.Connect(ctx, InitiatorAttr{PD: p.pd, CQ: p.cq, Remote: at, Service: 7, MaxSend: 128, Reads: reads})
		must(t, err)
		if i.Reads() != reads {
			t.Fatalf("depth %d, want %d", i.Reads(), reads)
		}
		return i
	}
	post := func(i *Initiator, list ...iwarp.WorkRequest) {
		t.Helper()
		if n, err := i.PostSend(list...); err != nil {
			t.Fatalf("%d of %d posted: %v", n, len(list), err)
		}
	}
	sink := p.mem.SGE(0, 64)
	read := iwarp.WorkRequest{Op: iwarp.OpRead, Flags: iwarp.Signaled, SGE: []iwarp.SGE{sink}, Queue: a.queue, RemoteKey: mr.Key(a.key), RemoteAddr: a.addr}
	add := iwarp.WorkRequest{Op: iwarp.OpFetchAdd, Flags: iwarp.Signaled, SGE: []iwarp.SGE{p.mem.SGE(0, 8)}, Queue: b.queue, RemoteKey: mr.Key(b.key), RemoteAddr: b.addr, Add: 1}
	for _, forbidden := range []iwarp.WorkRequest{read, add} {
		i := connect(0)
		for _, s := range servers {
			post(i, iwarp.WorkRequest{Flags: iwarp.Signaled, Queue: s.queue, Inline: []byte("sent")},
				iwarp.WorkRequest{Op: iwarp.OpWrite, Flags: iwarp.Signaled, Inline: []byte("written"), Queue: s.queue, RemoteKey: mr.Key(s.key), RemoteAddr: s.addr})
		}
		post(i, forbidden)
		for range 2 * len(servers) {
			if c := p.poll(t); c.Status != iwarp.Success || c.Op != iwarp.OpSend && c.Op != iwarp.OpWrite {
				t.Fatalf("beside a depth of 0: %+v", c)
			}
		}
		if c := p.poll(t); c.Status != iwarp.RemoteInvalid || c.Op != forbidden.Op {
			t.Fatalf("with a depth of 0: %+v", c)
		}
	}

	const depth, reads = 4, 100
	i := connect(depth)
	if _, err := i.Join(ctx, 8); err != nil {
		t.Fatal(err)
	}
	either := [2]iwarp.WorkRequest{read, read}
	either[1].Queue, either[1].RemoteKey, either[1].RemoteAddr = b.queue, mr.Key(b.key), b.addr
	for _, w := range either {
		post(i, w)
		if c := p.poll(t); c.Status != iwarp.Success || c.Op != iwarp.OpRead {
			t.Fatalf("%+v", c)
		}
	}
	far.stop()
	for k := range reads {
		post(i, either[k%2])
	}
	if !rdstest.Holds(rdstest.Patience, func() bool { n, _ := wire.get(); return n >= depth }) {
		var early [1]iwarp.Completion
		n, _ := wire.get()
		t.Fatalf("%d reads are on the wire, and %d have ended: %+v", n, p.cq.Poll(early[:]), early)
	}
	must(t, far.cmd.Process.Signal(syscall.SIGCONT))
	for range reads {
		if c := p.poll(t); c.Status != iwarp.Success || c.Op != iwarp.OpRead {
			t.Fatalf("%+v", c)
		}
	}
	if n, most := wire.get(); n != 0 || most != depth {
		t.Errorf("%d reads were on the wire at a time, the depth is %d; %d are left", most, depth, n)
	}
}

// readCount counts the reads on the wire, that is Read Requests (RFC 5040) without the last segment of a Read Response.
type readCount struct {
	mu       sync.Mutex
	now, max int
}

func (c *readCount) get() (now, most int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now, c.max
}

// through counts what a direction of a connection carries.
func (c *readCount) through(in io.Reader) io.Reader {
	r, w := io.Pipe()
	go func() { w.CloseWithError(c.copy(w, bufio.NewReader(in))) }()
	return r
}

// copy passes on the MPA frame of the set-up, then FPDUs.
func (c *readCount) copy(to io.Writer, in *bufio.Reader) error {
	pass := func(head, more int) error {
		if _, err := io.CopyN(to, in, int64(head+more)); err != nil {
			return err
		}
		return nil
	}
	head, err := in.Peek(20)
	if err != nil {
		return err
	}
	if err := pass(20, int(binary.BigEndian.Uint16(head[18:]))); err != nil {
		return err
	}
	for {
		head, err := in.Peek(4)
		if err != nil {
			return err
		}
		const last, opcode, readRequest, readResponse = 0x40, 0x0f, 1, 2
		n := 2 + int(binary.BigEndian.Uint16(head))
		c.mu.Lock()
		switch {
		case head[3]&opcode == readRequest:
			c.now++
			c.max = max(c.max, c.now)
		case head[3]&opcode == readResponse && head[2]&last != 0:
			c.now--
		}
		c.mu.Unlock()
		if err := pass(n+(-n&3), 4); err != nil {
			return err
		}
	}
}

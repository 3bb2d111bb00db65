//go:build live

package daemon

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/rds-go/rds/internal/rdstest"
	"github.com/rds-go/rds/internal/socket"
	"github.com/rds-go/rds/rds/config"
)

// fanIn is a point of the matrix.
type fanIn struct {
	peers, sockets  int // sockets of each peer
	daemon          bool
	wire            config.Wire
	buffer, overrun int
	send            int           // send buffer of each socket
	pause           time.Duration // at least
}

func (f fanIn) String() string {
	provider := "node"
	if f.daemon {
		provider = "rdsd"
	}
	return fmt.Sprintf("%s/%s/%dx%d", f.wire, provider, f.peers, f.sockets)
}

// TestFanIn: many peers send to one socket that does not receive for a while, since its
// program pauses or is stopped. Nothing is lost or doubled, memory stays within its
// bound, and on XRC the socket holds its receive buffer and the overrun at most, nobody pauses,
// and another socket of the host is served. When the program dies the others go on. RDS_LONG=1 has the whole matrix with the default limits.
func TestFanIn(t *testing.T) {
	if role := os.Getenv(rdstest.RoleEnv); role != "" {
		beFanIn(role, strings.Fields(os.Getenv(rdstest.ArgEnv)))
	}
	points := []fanIn{{peers: 1, sockets: 1}, {peers: 2, sockets: 12}, {peers: 17, sockets: 1}}
	limits := fanIn{buffer: 256 << 10, overrun: 512 << 10, send: 256 << 10}
	if os.Getenv("RDS_LONG") != "" {
		points = nil
		for _, peers := range []int{1, 2, 17, 64, 200} {
			points = append(points, fanIn{peers: peers, sockets: 1}, fanIn{peers: peers, sockets: 12})
		}
		limits = fanIn{buffer: config.DefaultBuffer, overrun: config.DefaultReceiveOverrun, send: config.DefaultBuffer, pause: 3 * time.Second}
	}
	for _, f := range points {
		f.buffer, f.overrun, f.send, f.pause = limits.buffer, limits.overrun, limits.send, limits.pause
		for _, f.wire = range []config.Wire{config.WireTCP, config.WireXRC} {
			for _, f.daemon = range []bool{false, true} {
				t.Run(f.String(), func(t *testing.T) { f.run(t) })
			}
		}
	}
}

// taker is a process of the receiving side.
type taker struct {
	testing.TB
	cmd *exec.Cmd
	in  io.Writer
	out *bufio.Reader
}

func startTaker(t testing.TB, role string, args ...any) *taker {
	t.Helper()
	k := &taker{TB: t, cmd: rdstest.Process("TestFanIn", role, strings.Fields(fmt.Sprintln(args...))...)}
	k.in, k.out = rdstest.Piped(t, k.cmd)
	t.Cleanup(func() { _ = k.cmd.Process.Kill(); _ = k.cmd.Wait() })
	if line, err := k.out.ReadString('\n'); err != nil || line != "ready\n" {
		t.Fatalf("%s does not start: %q, %v", role, line, err)
	}
	return k
}

func (k *taker) signal(s syscall.Signal) {
	k.Helper()
	rdstest.Must(k, k.cmd.Process.Signal(s))
}

func (k *taker) say(what string) {
	k.Helper()
	if _, err := io.WriteString(k.in, what+"\n"); err != nil {
		k.Fatal(err)
	}
}

func (k *taker) count() (c fanInCount) {
	k.Helper()
	k.say("count")
	if _, err := fmt.Fscanf(k.out, fanInFormat, &c.full, &c.wrong, &c.other, &c.p99, &c.worst, &c.dropped, &c.pause, &c.astray, &c.reset, &c.queued); err != nil {
		k.Fatal(err)
	}
	return c
}

// resident is the memory of a process, in bytes.
func (k *taker) resident() int64 {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", k.cmd.Process.Pid))
	rdstest.Must(k, err)
	pages, _ := strconv.ParseInt(strings.Fields(string(b))[1], 10, 64)
	return pages * int64(os.Getpagesize())
}

// kernelQueues is what the receive queues of TCP hold on this machine for a port.
func kernelQueues(t testing.TB, port uint16) (total int64) {
	b, err := os.ReadFile("/proc/net/tcp")
	rdstest.Must(t, err)
	connections := 0
	for _, line := range strings.Split(string(b), "\n") {
		f := strings.Fields(line)
		if len(f) < 5 || !strings.HasSuffix(f[1], fmt.Sprintf(":%04X", port)) && !strings.HasSuffix(f[2], fmt.Sprintf(":%04X", port)) || f[3] == "0A" {
			continue
		}
		_, rx, _ := strings.Cut(f[4], ":")
		n, _ := strconv.ParseInt(rx, 16, 64)
		total += n
		connections++
	}
	if connections == 0 {
		t.Errorf("no connection of port %d", port)
	}
	return total
}

// fanInRun is a point being run.
type fanInRun struct {
	fanIn
	*testing.T
	port     uint16 // TCP port of the wire
	to       netip.Addr
	front    *taker // has the other socket: the node, or the daemon
	full     *taker // has the full socket: the node, or the application
	accepted atomic.Int64
	stop     context.CancelFunc
	done     sync.WaitGroup
}

func (f fanIn) run(t *testing.T) {
	l := newLab(t)
	r := &fanInRun{fanIn: f, T: t, port: l.Port}
	if f.wire == config.WireXRC {
		r.port = (&config.Node{Port: l.Port}).XrcPort()
	}
	// The receiver's address is between those of its peers: half of them connect to it,
	// and it connects to the others.
	froms := make([]netip.Addr, f.peers)
	for i := range froms {
		if i == (f.peers+1)/2 {
			r.to = rdstest.NewAddr()
		}
		froms[i] = rdstest.NewAddr()
	}
	if !r.to.IsValid() {
		r.to = rdstest.NewAddr()
	}
	role, path := "node", filepath.Join(t.TempDir(), "s")
	if f.daemon {
		role = "daemon"
	}
	r.front = startTaker(t, role, r.to, l.Port, f.wire, f.buffer, f.overrun, path)
	r.full = r.front
	if f.daemon {
		r.full = startTaker(t, "application", r.to, path)
	}
	base := r.front.resident()
	ctx, cancel := context.WithCancel(context.Background())
	r.stop = cancel
	defer r.done.Wait()
	defer cancel()
	for i, a := range froms {
		n := l.node(config.Node{Wire: f.wire, MaxMessage: fanInMost, SendBuffer: min(f.send, 256<<20/(f.peers*f.sockets)), TCP: config.TCP{EventLoops: 1}})
		for k := range f.sockets {
			s := l.bind(n, rdstest.AddrOf(a, uint16(4000+k)))
			r.done.Go(func() { r.send(ctx, s) })
		}
		if i < 8 {
			s := l.bind(n, rdstest.AddrOf(a, 5000))
			r.done.Go(func() { r.ask(ctx, s) })
		}
	}
	most := 0
	full := func(n int) func() bool { return func() bool { return r.full.count().full >= n } }
	rdstest.Eventually(t, "the first messages", full(2*f.peers*f.sockets))
	r.front.count() // what is late from here on counts

	r.full.say("pause")
	r.stalls()
	r.measure("paused", base)
	r.full.say("resume")
	most = r.full.count().full + 2*f.peers*f.sockets
	rdstest.Eventually(t, "messages after the pause", full(most))

	r.full.signal(syscall.SIGSTOP)
	r.stalls()
	if f.daemon {
		r.measure("stopped", base)
	}
	r.full.signal(syscall.SIGCONT)
	rdstest.Eventually(t, "messages after the stop", full(r.full.count().full+2*f.peers*f.sockets))

	r.stop()
	r.done.Wait()
	all := int(r.accepted.Load())
	rdstest.Eventually(t, "all messages", full(all))
	c, front := r.full.count(), r.front.count()
	if c.full != all || c.wrong != 0 || front.dropped+front.astray != 0 || front.reset != 0 || r.wire == config.WireXRC && front.pause != 0 {
		t.Errorf("%d messages received of %d, %d wrong, %d dropped, %d pauses, %d connections lost", c.full, all, c.wrong, front.dropped+front.astray, front.pause, front.reset)
	}
	t.Logf("%d messages, 0 lost; %d pauses", all, front.pause)
	r.dies(l)
}

// send sends to the full port as fast as it may.
func (r *fanInRun) send(ctx context.Context, s *socket.Socket) {
	for seq := uint64(0); ; seq++ {
		if err := s.Send(ctx, rdstest.AddrOf(r.to, fanInFull), fanInPayload(seq)); err != nil {
			if ctx.Err() == nil {
				r.Error(err)
			}
			return
		}
		r.accepted.Add(1)
	}
}

// ask sends the time to the other port again and again.
func (r *fanInRun) ask(ctx context.Context, s *socket.Socket) {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			err := s.Send(ctx, rdstest.AddrOf(r.to, fanInOther), binary.BigEndian.AppendUint64(nil, uint64(time.Now().UnixNano())))
			if err != nil && ctx.Err() == nil {
				r.Error(err)
				return
			}
		}
	}
}

// stalls waits until the senders have been stopped, for as long as the point says.
func (r *fanInRun) stalls() {
	r.Helper()
	begin, was, since := time.Now(), r.accepted.Load(), time.Now()
	rdstest.Eventually(r, "the senders to wait", func() bool {
		if now := r.accepted.Load(); now != was {
			was, since = now, time.Now()
		}
		return time.Since(since) > 200*time.Millisecond && time.Since(begin) > r.pause
	})
}

// measure checks what a full socket costs, and tells how the other socket was served.
func (r *fanInRun) measure(when string, base int64) {
	r.Helper()
	resident, queues := r.front.resident()-base, kernelQueues(r, r.port)
	// The bound of a socket, one read and a message for each path, and the same once
	// more for the garbage collector; in the kernel what its receive buffers may hold.
	most := 2*int64(r.buffer+r.overrun+r.peers*(2<<20)) + 64<<20
	kernel := int64(r.peers) * (8 << 20)
	c := r.front.count()
	r.Logf("%s: %d KiB resident, at most %d; %d KiB in the kernel, at most %d; other socket: %d messages, p99 %v, worst %v",
		when, resident>>10, most>>10, queues>>10, kernel>>10, c.other, c.p99, c.worst)
	if resident > most || queues > kernel {
		r.Error("that is too much")
	}
	if r.wire == config.WireXRC {
		if c.queued == 0 || c.queued > r.buffer+r.overrun {
			r.Errorf("%d octets wait on the full port, %d at most", c.queued, r.buffer+r.overrun)
		}
		// a path of RDS over TCP that is paused brings nothing to other sockets either
		rdstest.Eventually(r, "the other socket", func() bool { return r.front.count().other > c.other })
	}
}

// dies kills the program with the full socket while a peer sends to it: the other socket
// goes on, and so does the port's next owner.
func (r *fanInRun) dies(l *lab) {
	if !r.daemon {
		return // its other socket dies with it
	}
	ctx, cancel := context.WithTimeout(context.Background(), rdstest.Patience)
	defer cancel()
	s, o := l.bind(l.node(config.Node{Wire: r.wire})), l.bind(l.node(config.Node{Wire: r.wire}))
	r.full.say("pause")
	go func() {
		b := make([]byte, fanInSize)
		for s.Send(ctx, rdstest.AddrOf(r.to, fanInFull), b) == nil {
		}
	}()
	r.full.signal(syscall.SIGSTOP)
	rdstest.Eventually(r, "the socket to be full", func() bool { return congestedAt(nodeOf(s), fanInFull) })
	r.full.signal(syscall.SIGKILL)
	was := r.front.count().other
	for range 10 {
		rdstest.Must(r, o.Send(ctx, rdstest.AddrOf(r.to, fanInOther), binary.BigEndian.AppendUint64(nil, uint64(time.Now().UnixNano()))))
	}
	rdstest.Eventually(r, "the other socket", func() bool { return r.front.count().other == was+10 })
	rdstest.Eventually(r, "the end of the congestion", func() bool { return !congestedAt(nodeOf(s), fanInFull) })
	if n := r.front.count().dropped; n != 0 {
		r.Errorf("%d messages dropped for want of room", n)
	}
}

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/rds-go/rds/internal/cli/clitest"
	"github.com/rds-go/rds/internal/rdstest"
	"github.com/rds-go/rds/mr"
	"github.com/rds-go/rds/transport/iwarp"
	"github.com/rds-go/rds/xrc"
	"github.com/rds-go/rds/xrc/objects"
)

// xsrqNet gives each test a network of its own, 127.p.n.x, and the program a port.
var xsrqNet atomic.Uint32

func xsrqAddresses(t *testing.T) (server, client netip.Addr) {
	t.Helper()
	clitest.NeedLoopback(t)
	p, n := byte(1+os.Getpid()%250), byte(100+xsrqNet.Add(1))
	return netip.AddrFrom4([4]byte{127, p, n, 2}), netip.AddrFrom4([4]byte{127, p, n, 1})
}

// xsrqPort is the program's.
func xsrqPort() uint16 { return uint16(20000 + os.Getpid()%10000) }

// xsrqDaemonAt starts a daemon in the test, for --socket.
func xsrqDaemonAt(t *testing.T, addr netip.Addr) *xsrqDaemon {
	t.Helper()
	d, err := newXsrqDaemon(addr, &xsrqOptions{port: xsrqPort(), crc: true}, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.close)
	return d
}

// pingXsrq runs ping to its end, with the flags that say where the server is.
func pingXsrq(t *testing.T, at []string, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	return clitest.Run(t, bin.Path("rdsverbs"), append(append([]string{"xsrq", "ping"}, args...), at...)...)
}

// played are the lines of ping --json that are of queues, and the last one.
func played(t *testing.T, text string) (queues []playedLine, end playedEnd) {
	t.Helper()
	for line := range bytes.Lines([]byte(text)) {
		var l playedLine
		if err := json.Unmarshal(line, &l); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		switch l.Type {
		case "played":
			queues = append(queues, l)
		case "end":
			if err := json.Unmarshal(line, &end); err != nil {
				t.Fatal(err)
			}
		}
	}
	return queues, end
}

// What is no message, or cannot be answered, costs the queue nothing.
func TestXsrqWrongMessagesAreDropped(t *testing.T) {
	t.Parallel()
	server, at := startXsrq(t, "-n", "1", "--receives", "4", "-S", "256", "--json")
	remote, from := netip.MustParseAddr(at[1]), netip.MustParseAddr(at[5])
	d := xsrqDaemonAt(t, from)
	p, err := newProcess(within(t), &xsrqJob{Socket: d.socket, Receives: 64, Size: 1024}, 64)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Advertise(xrc.ServiceAttr{ID: 9, Domain: p.dom, SRQ: p.srq}); err != nil {
		t.Fatal(err)
	}
	ch, err := p.Connect(within(t), xrc.InitiatorAttr{PD: p.pd, CQ: p.cq, Remote: remote, Service: 1, MaxSend: 64})
	if err != nil {
		t.Fatal(err)
	}
	mem, err := p.pd.Alloc(1024, mr.LocalWrite)
	if err != nil {
		t.Fatal(err)
	}
	next := func() iwarp.Completion {
		var c [1]iwarp.Completion
		for p.cq.Poll(c[:]) == 0 {
			if err := p.cq.Wait(within(t)); err != nil {
				t.Fatal(err)
			}
		}
		return c[0]
	}
	send := func(n int, h xsrqHeader) {
		h.host = from
		h.put(mem.Bytes())
		if _, err := ch.PostSend(iwarp.WorkRequest{Flags: iwarp.Signaled, Queue: ch.Queue().SRQN, SGE: []iwarp.SGE{mem.SGE(0, n)}}); err != nil {
			t.Fatal(err)
		}
	}
	sent := func(want iwarp.Status) {
		if c := next(); c.Initiator != ch.Number() || c.Status != want {
			t.Errorf("%+v, want %v", c, want)
		}
	}
	good := xsrqHeader{kind: xsrqPing, service: 9, answer: p.srq.Num()}
	const rounds = 3 // more than the queue has receives
	for range rounds {
		send(0, good)
		sent(iwarp.Success)
		send(xsrqHeaderLen-1, good)
		sent(iwarp.Success)
		send(xsrqHeaderLen, xsrqHeader{kind: xsrqAnswer, service: 9, answer: p.srq.Num()})
		sent(iwarp.Success)
		send(xsrqHeaderLen, xsrqHeader{kind: xsrqPing, service: 9}) // no queue
		sent(iwarp.Success)
		send(xsrqHeaderLen, xsrqHeader{kind: xsrqPing, service: 10, answer: p.srq.Num()}) // no service
		sent(iwarp.Success)
		send(257, good) // longer than its receives: it takes none
		if c := next(); c.Initiator != ch.Number() || c.Status == iwarp.Success {
			t.Errorf("%+v", c)
		}
	}
	send(xsrqHeaderLen, good)
	for range 2 { // the ping and its answer, in either order
		if c := next(); c.Status != iwarp.Success || c.Initiator == 0 && !answers(p.received(&c), mem.Bytes()[:xsrqHeaderLen]) {
			t.Errorf("%+v", c)
		}
	}
	server.Signal(os.Interrupt)
	var r servedLine
	if err := json.Unmarshal([]byte(server.Line(server.Stdout, `"served"`)), &r); err != nil || r.Messages != 5*rounds+1 || r.Dropped != 5*rounds {
		t.Errorf("%+v, %v", r, err)
	}
	server.Wait()
}

// A client gets an error, and soon, when the server ends, and a new server serves
// the next one.
func TestXsrqServerEnds(t *testing.T) {
	t.Parallel()
	server, at := startXsrq(t, "-n", "2")
	client := clitest.Start(t, bin.Path("rdsverbs"), append([]string{"xsrq", "ping", "-n", "2", "-m", "2", "-C", "1g", "-W", "30", "--json"}, at...)...)
	client.Line(client.Stdout, "connected")
	server.Signal(os.Interrupt)
	if status := server.Wait(); status != 0 {
		t.Errorf("server: status %d\n%s%s", status, server.Stdout, server.Stderr)
	}
	if status := client.Wait(); status != 1 || strings.Contains(client.Stderr.String(), errTimeout.Error()) {
		t.Errorf("status %d\n%s%s", status, client.Stdout, client.Stderr)
	}
	if _, end := played(t, client.Stdout.String()); end.Error == "" {
		t.Errorf("%+v", end)
	}
	server = clitest.Start(t, bin.Path("rdsverbs"), append([]string{"xsrq", "serve", "-n", "2"}, at[:4]...)...)
	server.Line(server.Stdout, "listening")
	status, stdout, stderr := pingXsrq(t, at, "-n", "2", "-m", "2", "-C", "10", "--json")
	if _, end := played(t, stdout); status != 0 || end.Error != "" || end.Pings != 40 {
		t.Errorf("status %d, %+v, %s", status, end, stderr)
	}
}

// Queues that nobody posts to any more cost the others nothing, and go on when the
// one who stopped them has left. The server's processes are attached to a daemon that runs already.
func TestXsrqStoppedQueuesStopNobodyElse(t *testing.T) {
	t.Parallel()
	const queues, senders, count, stopped, receives = 12, 3, 40, 10, 4
	here, from := xsrqAddresses(t)
	d := xsrqDaemonAt(t, here)
	server := clitest.Start(t, bin.Path("rdsverbs"), "xsrq", "serve", "-a", here.String(), "--socket", d.socket, "-n", fmt.Sprint(queues), "--receives", fmt.Sprint(receives))
	server.Line(server.Stdout, "listening")
	at := []string{"-a", here.String(), "-p", fmt.Sprint(xsrqPort()), "-I", from.String()}
	flags := []string{"-n", fmt.Sprint(queues), "-m", fmt.Sprint(senders), "-C", fmt.Sprint(count), "--json"}
	status, stdout, stderr := pingXsrq(t, at, append(flags, "--stop", fmt.Sprint(stopped))...)
	lines, end := played(t, stdout)
	if status != 0 || len(lines) != queues || end.TCP != 1 {
		t.Errorf("status %d\n%s%s", status, stdout, stderr)
	}
	for i, l := range lines {
		switch {
		case l.Pings != senders*count/2 || l.After == nil:
			t.Errorf("line %d: %+v", i, l)
		case l.Index >= stopped && (l.Stopped || l.After.Pings != senders*count/2):
			t.Errorf("line %d: %+v", i, l)
		case l.Index < stopped && (!l.Stopped || l.After.Pings >= receives):
			t.Errorf("line %d: %+v", i, l) // the message that stopped it took one
		}
	}
	if status, stdout, stderr = pingXsrq(t, at, flags...); status != 0 {
		t.Errorf("status %d\n%s%s", status, stdout, stderr)
	}
	if _, end := played(t, stdout); end.Pings != queues*senders*count {
		t.Errorf("%+v", end)
	}
	if stats := d.node.Xrc.ChannelStats(); stats.Peers != 1 {
		t.Errorf("%+v for all that was played", stats)
	}
	server.Signal(os.Interrupt)
	if status := server.Wait(); status != 0 || strings.Count(server.Stdout.String(), " dropped\n") != queues {
		t.Errorf("server: status %d\n%s%s", status, server.Stdout, server.Stderr)
	}
}

// More clients than a queue has repliers, some of them killed, leave neither initiators nor targets that live.
func TestXsrqClientsLeaveNothing(t *testing.T) {
	t.Parallel()
	here, from := xsrqAddresses(t)
	d, far := xsrqDaemonAt(t, here), xsrqDaemonAt(t, from)
	server := clitest.Start(t, bin.Path("rdsverbs"), "xsrq", "serve", "-a", here.String(), "--socket", d.socket, "-n", "2")
	server.Line(server.Stdout, "listening")
	at := []string{"-a", here.String(), "-I", from.String(), "--socket", far.socket}
	for i := range 5 * maxRepliers {
		if i%4 == 0 {
			client := clitest.Start(t, bin.Path("rdsverbs"), append([]string{"xsrq", "ping", "-n", "2", "-m", "2", "-C", "1g"}, at...)...)
			client.Line(client.Stdout, "connected")
			client.Signal(os.Kill)
			client.Wait()
			continue
		}
		if status, stdout, stderr := pingXsrq(t, at, "-n", "2", "-m", "1", "-C", "5", "-W", "20"); status != 0 {
			t.Fatalf("client %d: status %d\n%s%s", i, status, stdout, stderr)
		}
	}
	rdstest.Eventually(t, "nothing to be left", func() bool {
		now := d.node.Xrc.Objects().Stats()
		live := now.TotalTargets() - now.Targets[objects.StateError] // those in error are reaped
		return now.Initiators == 1 && live == 1                      // of the path between the two daemons
	})
	server.Signal(os.Interrupt)
	if status := server.Wait(); status != 0 {
		t.Errorf("server: status %d\n%s%s", status, server.Stdout, server.Stderr)
	}
}

// The process of a queue is killed in the middle: pings to it fail, those to the others all come back.
func TestXsrqQueueIsKilled(t *testing.T) {
	t.Parallel()
	for _, domains := range []string{"--own-domains=false", "--own-domains"} {
		const killed, count = 0, 3000
		server, at := startXsrq(t, "-n", "3", "--json", domains)
		var q queueLine
		if err := json.Unmarshal(bytes.Split([]byte(server.Stdout.String()), []byte("\n"))[killed], &q); err != nil || q.Index != killed {
			t.Fatalf("%v\n%s", err, server.Stdout)
		}
		client := clitest.Start(t, bin.Path("rdsverbs"), append([]string{"xsrq", "ping", "-n", "3", "-m", "2", "-C", fmt.Sprint(count), "-W", "3", "--json"}, at...)...)
		client.Line(client.Stdout, "connected")
		if err := syscall.Kill(q.PID, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		if status := client.Wait(); status != 1 {
			t.Errorf("status %d: %s", status, client.Stderr)
		}
		lines, _ := played(t, client.Stdout.String())
		for i, l := range lines {
			if whole := l.Pings == 2*count && l.Error == ""; whole == (i == killed) {
				t.Errorf("%s: queue %d: %+v", domains, i, l)
			}
		}
		if len(lines) != 3 {
			t.Errorf("%s", client.Stdout)
		}
		server.Signal(os.Interrupt)
		if status := server.Wait(); status != 1 || !strings.Contains(server.Stderr.String(), "queue 0: its process has ended: signal: killed") {
			t.Errorf("server: status %d\n%s%s", status, server.Stdout, server.Stderr)
		}
	}
}

// A sender's process is killed in the middle: the others have all their answers.
func TestXsrqSenderIsKilled(t *testing.T) {
	t.Parallel()
	const senders, count = 3, 3000
	server, at := startXsrq(t, "-n", "2")
	client := clitest.Start(t, bin.Path("rdsverbs"), append([]string{"xsrq", "ping", "-n", "2", "-m", fmt.Sprint(senders), "-C", fmt.Sprint(count), "--json"}, at...)...)
	client.Line(client.Stdout, "connected")
	lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", client.PID()))
	var children []string
	for _, name := range lists {
		b, _ := os.ReadFile(name)
		children = append(children, strings.Fields(string(b))...)
	}
	if len(children) != senders {
		t.Fatalf("processes %q of %d", children, client.PID())
	}
	var pid int
	fmt.Sscan(children[1], &pid)
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if status := client.Wait(); status != 1 || !strings.Contains(client.Stderr.String(), "its process has ended: signal: killed") {
		t.Errorf("status %d: %s", status, client.Stderr)
	}
	if _, end := played(t, client.Stdout.String()); end.Pings != 2*count*(senders-1) {
		t.Errorf("%+v", end)
	}
	server.Signal(os.Interrupt)
	if status := server.Wait(); status != 0 {
		t.Errorf("server: status %d\n%s%s", status, server.Stdout, server.Stderr)
	}
}

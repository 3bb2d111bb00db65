//go:build live

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/rds-go/rds/internal/cli/clitest"
	"github.com/rds-go/rds/internal/daemon"
	"github.com/rds-go/rds/internal/node"
	"github.com/rds-go/rds/internal/rdstest"
	"github.com/rds-go/rds/rds/config"
	"github.com/rds-go/rds/transport/iwarp"
	"github.com/rds-go/rds/xrc"
)

// xsrqHosts are two hosts, each with a daemon, in the test.
type xsrqHosts struct {
	here, from         netip.Addr // the server's and the client's
	server, client     *node.Node
	hereSock, fromSock string
}

func newXsrqHosts(t *testing.T) *xsrqHosts {
	t.Helper()
	l := rdstest.NewLab(t)
	h := &xsrqHosts{here: rdstest.NewAddr(), from: rdstest.NewAddr()}
	start := func(a netip.Addr) (*node.Node, string) {
		n := rdstest.Start(&l, node.New, config.Node{Wire: config.WireXRC, Serves: true, Addresses: []netip.Addr{a}})
		_, path := rdstest.Serve(t, daemon.New, n, config.Service{})
		return n, path
	}
	h.server, h.hereSock = start(h.here)
	h.client, h.fromSock = start(h.from)
	return h
}

// serve runs a server until it listens.
func (h *xsrqHosts) serve(t *testing.T, args ...string) *clitest.Process {
	t.Helper()
	server := clitest.Start(t, bin.Path("rdsverbs"), append([]string{"xsrq", "serve", "--socket", h.hereSock}, args...)...)
	server.Line(server.Stdout, "listening")
	return server
}

// at are the flags of ping that say where the server is.
func (h *xsrqHosts) at() []string {
	return []string{"-a", h.here.String(), "-I", h.from.String(), "--socket", h.fromSock}
}

// startXsrq runs a server, and returns the flags that say where it is.
func startXsrq(t *testing.T, args ...string) (server *clitest.Process, at []string) {
	t.Helper()
	h := newXsrqHosts(t)
	return h.serve(t, args...), h.at()
}

// pingXsrq runs ping to its end, with the flags that say where the server is.
func pingXsrq(t *testing.T, at []string, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	return clitest.Run(t, bin.Path("rdsverbs"), append(append([]string{"xsrq", "ping"}, args...), at...)...)
}

// playedLine is a line of ping --json of type played or end.
type playedLine struct {
	Type       string `json:"type"`
	Index      int    `json:"index"`
	Pings      int    `json:"pings"`
	Stopped    bool   `json:"stopped"`
	Unanswered int    `json:"unanswered"`
	Error      string `json:"error"`
	TCP        int    `json:"tcp_connections"`
}

// played are the lines of ping --json that are of queues, and the last one.
func played(t *testing.T, text string) (queues []playedLine, end playedLine) {
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
			end = l
		}
	}
	return queues, end
}

// What is no message, or cannot be answered, costs the queue nothing.
func TestXsrqWrongMessagesAreDropped(t *testing.T) {
	t.Parallel()
	h := newXsrqHosts(t)
	server := h.serve(t, "-n", "1", "--receives", "4", "-S", "256", "--json")
	p, err := newProcess(within(t), &xsrqJob{Socket: h.fromSock, Receives: 64, Size: 1024}, nil, 65, 64)
	rdstest.Must(t, err)
	if _, err := p.Advertise(xrc.ServiceAttr{ID: 9, Domain: p.dom, SRQ: p.srq}); err != nil {
		t.Fatal(err)
	}
	ch, err := p.Connect(within(t), xrc.InitiatorAttr{PD: p.pd, CQ: p.cq, Remote: h.here, Service: 1, MaxSend: 64})
	rdstest.Must(t, err)
	var left []iwarp.Completion
	next := func() (c iwarp.Completion) {
		for len(left) == 0 {
			select {
			case left = <-p.done:
			case <-within(t).Done():
				t.Fatal("nothing completes")
			}
		}
		c, left = left[0], left[1:]
		return c
	}
	const mine = 64 // the slot behind the receives
	send := func(n int, m xsrqHeader) {
		m.Host = h.from.As16()
		m.put(p.slot(mine))
		if _, err := ch.PostSend(iwarp.WorkRequest{Flags: iwarp.Signaled, Queue: ch.Queue().SRQN, SGE: p.sge(mine, n)}); err != nil {
			t.Fatal(err)
		}
	}
	sent := func(want iwarp.Status) {
		if c := next(); c.Initiator != ch.Number() || c.Status != want {
			t.Errorf("%+v, want %v", c, want)
		}
	}
	good := xsrqHeader{Kind: kindPing, Service: 9, Answer: p.srq.Num()}
	const rounds = 3 // more than the queue has receives
	for range rounds {
		send(0, good)
		sent(iwarp.Success)
		send(xsrqHeaderLen-1, good)
		sent(iwarp.Success)
		send(xsrqHeaderLen, xsrqHeader{Kind: kindAnswer, Service: 9, Answer: p.srq.Num()})
		sent(iwarp.Success)
		send(xsrqHeaderLen, xsrqHeader{Kind: kindPing, Service: 9}) // no queue
		sent(iwarp.Success)
		send(xsrqHeaderLen, xsrqHeader{Kind: kindPing, Service: 10, Answer: p.srq.Num()}) // no service
		sent(iwarp.Success)
		send(257, good) // longer than its receives: it takes none
		if c := next(); c.Initiator != ch.Number() || c.Status == iwarp.Success {
			t.Errorf("%+v", c)
		}
	}
	send(xsrqHeaderLen, good)
	for range 2 { // the ping and its answer, in either order
		if c := next(); c.Status != iwarp.Success || c.Initiator == 0 && !answers(p.slot(int(c.ID))[:c.Len], p.slot(mine)[:xsrqHeaderLen]) {
			t.Errorf("%+v", c)
		}
	}
	server.Signal(os.Interrupt)
	var r messageCounts
	if err := json.Unmarshal([]byte(server.Line(server.Stdout, `"served"`)), &r); err != nil || r.Messages != 5*rounds+1 || r.Dropped != 5*rounds {
		t.Errorf("%+v, %v", r, err)
	}
	server.Wait()
}

// A client gets an error, and soon, when the server ends, and a new server serves
// the next one.
func TestXsrqServerEnds(t *testing.T) {
	t.Parallel()
	h := newXsrqHosts(t)
	server, at := h.serve(t, "-n", "2"), h.at()
	client := clitest.Start(t, bin.Path("rdsverbs"), append([]string{"xsrq", "ping", "-n", "2", "-m", "2", "-C", "1g", "-W", "30", "--json"}, at...)...)
	client.Line(client.Stdout, "connected")
	interrupt(t, server)
	if status := client.Wait(); status != 1 || strings.Contains(client.Stderr.String(), errTimeout.Error()) {
		t.Errorf("status %d\n%s%s", status, client.Stdout, client.Stderr)
	}
	if _, end := played(t, client.Stdout.String()); end.Error == "" {
		t.Errorf("%+v", end)
	}
	h.serve(t, "-n", "2")
	status, stdout, stderr := pingXsrq(t, at, "-n", "2", "-m", "2", "-C", "10", "--json")
	if _, end := played(t, stdout); status != 0 || end.Error != "" || end.Pings != 40 {
		t.Errorf("status %d, %+v, %s", status, end, stderr)
	}
}

// Queues that nobody posts to any more cost the others nothing, and go on when the
// one who stopped them has left.
func TestXsrqStoppedQueuesStopNobodyElse(t *testing.T) {
	t.Parallel()
	const queues, senders, count, stopped, receives = 12, 3, 40, 10, 4
	h := newXsrqHosts(t)
	server, at := h.serve(t, "-n", fmt.Sprint(queues), "--receives", fmt.Sprint(receives)), h.at()
	flags := []string{"-n", fmt.Sprint(queues), "-m", fmt.Sprint(senders), "-C", fmt.Sprint(count), "--json"}
	status, stdout, stderr := pingXsrq(t, at, append(flags, "--stop", fmt.Sprint(stopped))...)
	lines, end := played(t, stdout)
	if status != 0 || len(lines) != queues || end.TCP != 1 {
		t.Errorf("status %d\n%s%s", status, stdout, stderr)
	}
	for i, l := range lines {
		switch {
		case l.Index >= stopped && (l.Stopped || l.Pings != senders*count):
			t.Errorf("line %d: %+v", i, l)
		case l.Index < stopped && (!l.Stopped || l.Unanswered == 0 || l.Pings < count/2 || l.Pings >= senders*count):
			t.Errorf("line %d: %+v", i, l) // one sender stops the queue halfway
		}
	}
	if status, stdout, stderr = pingXsrq(t, at, flags...); status != 0 {
		t.Errorf("status %d\n%s%s", status, stdout, stderr)
	}
	if _, end := played(t, stdout); end.Pings != queues*senders*count {
		t.Errorf("%+v", end)
	}
	if stats := h.server.Xrc.ChannelStats(); stats.Peers != 1 {
		t.Errorf("%+v for all that was played", stats)
	}
	server.Signal(os.Interrupt)
	if status := server.Wait(); status != 0 || strings.Count(server.Stdout.String(), " dropped\n") != queues {
		t.Errorf("server: status %d\n%s%s", status, server.Stdout, server.Stderr)
	}
}

// The process of a queue is killed in the middle: pings to it fail, those to the others all come back.
func TestXsrqQueueIsKilled(t *testing.T) {
	t.Parallel()
	const killed, count = 0, 1000
	server, at := startXsrq(t, "-n", "3", "--json")
	var q struct{ Index, PID int }
	if err := json.Unmarshal(bytes.Split([]byte(server.Stdout.String()), []byte("\n"))[killed], &q); err != nil || q.Index != killed {
		t.Fatalf("%v\n%s", err, server.Stdout)
	}
	client := clitest.Start(t, bin.Path("rdsverbs"), append([]string{"xsrq", "ping", "-n", "3", "-m", "2", "-C", fmt.Sprint(count), "-W", "3", "--json"}, at...)...)
	client.Line(client.Stdout, "connected")
	rdstest.Must(t, syscall.Kill(q.PID, syscall.SIGKILL))
	if status := client.Wait(); status != 1 {
		t.Errorf("status %d: %s", status, client.Stderr)
	}
	lines, _ := played(t, client.Stdout.String())
	for i, l := range lines {
		if whole := l.Pings == 2*count && l.Error == ""; whole == (i == killed) {
			t.Errorf("queue %d: %+v", i, l)
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

// A sender's process is killed in the middle: the others have all their answers.
func TestXsrqSenderIsKilled(t *testing.T) {
	t.Parallel()
	const senders, count = 3, 1000
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
	rdstest.Must(t, syscall.Kill(pid, syscall.SIGKILL))
	if status := client.Wait(); status != 1 || !strings.Contains(client.Stderr.String(), "its process has ended: signal: killed") {
		t.Errorf("status %d: %s", status, client.Stderr)
	}
	if _, end := played(t, client.Stdout.String()); end.Pings != 2*count*(senders-1) {
		t.Errorf("%+v", end)
	}
	interrupt(t, server)
}

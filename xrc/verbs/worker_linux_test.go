package verbs

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/rds-go/rds/internal/client"
	"github.com/rds-go/rds/internal/rdstest"
	"github.com/rds-go/rds/mr"
	"github.com/rds-go/rds/transport/iwarp"
)

const workerEnv = "RDS_TEST_XRC_WORKER"

func TestMain(m *testing.M) {
	os.Setenv("RDS_SOCKET", "none") // whatever this machine has
	if os.Getenv(workerEnv) != "" {
		if err := beWorker(os.Args[1:]); err != nil {
			fmt.Println("failed", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// beWorker is a process that receives in the domain of the file with descriptor 3: args are the daemon's socket and
// a service id. Messages are numbered; it verifies that none of a sender is missing. What it is told on its
// standard input it does.
func beWorker(args []string) error {
	c, err := client.Dial(args[0])
	if err != nil {
		return err
	}
	o, err := c.Objects()
	if err != nil {
		return err
	}
	s, err := Open(context.Background(), o)
	if err != nil {
		return err
	}
	id, _ := strconv.ParseUint(args[1], 10, 64)
	if len(args) > 2 {
		return beClient(s, netip.MustParseAddr(args[2]), id)
	}
	const receives = 64
	dom, err := s.OpenDomain(os.NewFile(3, "domain"), os.O_CREATE)
	if err != nil {
		return err
	}
	pd, err := s.AllocPD()
	if err != nil {
		return err
	}
	cq, err := s.CreateCQ(2 * receives)
	if err != nil {
		return err
	}
	srq, err := s.CreateSRQ(SRQAttr{Domain: dom, PD: pd, CQ: cq, MaxWR: receives})
	if err != nil {
		return err
	}
	mem, err := pd.Alloc(receives*slot, mr.LocalWrite)
	if err != nil {
		return err
	}
	post := func(k uint64) error {
		_, err := srq.PostReceive(iwarp.ReceiveRequest{ID: k, SGE: []iwarp.SGE{mem.SGE(int(k)*slot, slot)}})
		return err
	}
	for k := range uint64(receives) {
		if err := post(k); err != nil {
			return err
		}
	}
	if _, err := s.Advertise(ServiceAttr{ID: id, Domain: dom, SRQ: srq}); err != nil {
		return err
	}
	fmt.Println("ready", srq.Num())
	go obey(s, dom)
	var list [receives]iwarp.Completion
	next := uint64(0)
	for {
		if err := cq.Wait(context.Background()); err != nil {
			return err
		}
		for _, c := range list[:cq.Poll(list[:])] {
			if c.Status != iwarp.Success {
				return fmt.Errorf("receive: %+v", c)
			}
			if n := binary.NativeEndian.Uint64(mem.Bytes()[c.ID*slot:]); n != next {
				return fmt.Errorf("message %d came, and %d was due", n, next)
			}
			next++
			if err := post(c.ID); err != nil {
				return err
			}
		}
	}
}

// obey does what the standard input says, and says how it went.
func obey(s *Session, dom *Domain) {
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		f := strings.Fields(in.Text())
		n := uint64(0)
		if len(f) > 1 {
			n, _ = strconv.ParseUint(f[1], 10, 32)
		}
		var err error
		switch f[0] {
		case "register":
			_, err = s.Register(dom, uint32(n))
		case "unregister":
			err = s.Unregister(context.Background(), dom, uint32(n))
		case "event":
			var e Event
			if e, err = s.NextEvent(context.Background()); err == nil {
				fmt.Println("event", e.Kind, e.Object.Number)
				err = s.Ack(e)
			}
		case "end":
			os.Exit(0)
		}
		fmt.Println("did", f[0], err)
	}
}

// worker is such a process.
type worker struct {
	testing.TB
	cmd *exec.Cmd
	in  *os.File
	out *bufio.Scanner
	srq uint32
}

func startWorker(t testing.TB, h *host, domain *os.File, service uint64) *worker {
	t.Helper()
	cmd := exec.Command(os.Args[0], h.path, strconv.FormatUint(service, 10))
	cmd.Env = append(os.Environ(), workerEnv+"=1")
	cmd.ExtraFiles = []*os.File{domain}
	cmd.Stderr = os.Stderr
	r, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdin = r
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	r.Close()
	w := &worker{TB: t, cmd: cmd, in: in, out: bufio.NewScanner(out)}
	t.Cleanup(func() {
		in.Close()
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	n, err := strconv.ParseUint(w.hear("ready"), 10, 32)
	if err != nil {
		t.Fatal(err)
	}
	w.srq = uint32(n)
	return w
}

// hear waits for a line that begins with a word, and returns the rest of it.
func (w *worker) hear(word string) string {
	w.Helper()
	for w.out.Scan() {
		if rest, ok := strings.CutPrefix(w.out.Text(), word+" "); ok {
			return rest
		}
		if strings.HasPrefix(w.out.Text(), "failed") {
			break
		}
	}
	w.Fatalf("the worker says %q, %v", w.out.Text(), w.out.Err())
	return ""
}

// do has the worker do something, which ends without an error.
func (w *worker) do(what string, args ...any) {
	w.Helper()
	fmt.Fprintln(w.in, append([]any{what}, args...)...)
	if got := w.hear("did " + what); got != "<nil>" {
		w.Fatalf("%s: %s", what, got)
	}
}

func (w *worker) kill() {
	w.Helper()
	if err := w.cmd.Process.Kill(); err != nil {
		w.Fatal(err)
	}
	_ = w.cmd.Wait()
}

// stream sends numbered messages to one queue through an initiator, up to some at a time.
type stream struct {
	p     *process
	i     *Initiator
	queue uint32
	next  uint64
}

func (m *stream) send() error {
	b := make([]byte, 64)
	binary.NativeEndian.PutUint64(b, m.next)
	_, err := m.i.PostSend(iwarp.WorkRequest{ID: m.next, Flags: iwarp.Signaled, Queue: m.queue, Inline: b})
	if err == nil {
		m.next++
	}
	return err
}

// Two processes share a target, each with a queue in one domain. One is killed in the middle of traffic: what is
// sent to it fails at once, the other's traffic goes on without loss or reordering, and the target lives, because the other is
// registered with it. When that one leaves, the target is destroyed before its call returns, and the sender hears of it.
func TestKilledProcessLeavesTheTargetToOthers(t *testing.T) {
	t.Parallel()
	l := rdstest.NewLab(t)
	near, far := newHost(t, &l), newHost(t, &l)
	f := domainFile(t)
	a, b := startWorker(t, far, f, 7), startWorker(t, far, f, 8)
	p := newProcess(t, near, nil, 1, 1024)
	i := p.connect(t, far.addr, 7)
	b.do("register", i.Target())
	targets := func() int { return far.node.Xrc.Objects().Stats().TotalTargets() }
	before := targets()
	toA, toB := stream{p: p, i: i, queue: a.srq}, stream{p: p, i: i, queue: b.srq}
	sent, failed := map[uint32]uint64{}, 0
	pump := func(m *stream) {
		t.Helper()
		if err := m.send(); err != nil {
			t.Fatal(err)
		}
		c := p.poll(t)
		if c.Status == iwarp.Success {
			sent[m.queue]++
			return
		}
		if m.queue == b.srq || c.Status != iwarp.RemoteInvalidRD {
			t.Fatalf("a message to queue %d: %+v", m.queue, c)
		}
		failed++
	}
	const rounds = 2000
	for k := range rounds {
		if k == rounds/2 {
			a.kill()
		}
		pump(&toA)
		pump(&toB)
	}
	if failed == 0 || sent[b.srq] != rounds || sent[a.srq] < rounds/2 {
		t.Errorf("%d messages to the process that was killed, %d failed, %d to the other", sent[a.srq], failed, sent[b.srq])
	}
	if n := targets(); n != before {
		t.Errorf("%d targets, %d before", n, before)
	}
	b.do("unregister", i.Target())
	if n := targets(); n != before-1 {
		t.Errorf("%d targets when the last process has left, %d before", n, before)
	}
	e, err := p.NextEvent(rdstest.Background(t))
	if err != nil || e.Object.Number != i.Number() {
		t.Errorf("the sender hears %v of %v, %v", e.Kind, e.Object, err)
	}
	if err := p.Ack(e); err != nil {
		t.Error(err)
	}
	if err := i.Close(rdstest.Background(t)); err != nil {
		t.Error(err)
	}
}

// A process that only registers keeps the target alive, and hears of it as the others do.
func TestRegistrationKeepsTheTarget(t *testing.T) {
	t.Parallel()
	l := rdstest.NewLab(t)
	near, far := newHost(t, &l), newHost(t, &l)
	f := domainFile(t)
	a, b, keeper := startWorker(t, far, f, 7), startWorker(t, far, f, 8), startWorker(t, far, f, 9)
	p := newProcess(t, near, nil, 1, 1024)
	i := p.connect(t, far.addr, 7)
	keeper.do("register", i.Target())
	a.kill()
	m := stream{p: p, i: i, queue: b.srq}
	for range 100 {
		if err := m.send(); err != nil {
			t.Fatal(err)
		}
		if c := p.poll(t); c.Status != iwarp.Success {
			t.Fatalf("%+v", c)
		}
	}
	if err := i.Close(rdstest.Background(t)); err != nil {
		t.Fatal(err)
	}
	fmt.Fprintln(keeper.in, "event")
	if got, want := keeper.hear("event"), fmt.Sprintf("qp-fatal %d", i.Target()); got != want {
		t.Errorf("the process that only registered hears %q, want %q", got, want)
	}
}

//go:build live

package xrc

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/rds-go/rds/internal/rdstest"
	"github.com/rds-go/rds/transport/iwarp"
)

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
	w := startProcess(t, domain, h.path, strconv.FormatUint(service, 10))
	n, err := strconv.ParseUint(w.hear("ready"), 10, 32)
	must(t, err)
	w.srq = uint32(n)
	return w
}

// startProcess starts this test's program with arguments of beWorker. It is killed when the test ends.
func startProcess(t testing.TB, domain *os.File, args ...string) *worker {
	t.Helper()
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), workerEnv+"=1")
	if domain != nil {
		cmd.ExtraFiles = []*os.File{domain}
	}
	cmd.Stderr = os.Stderr
	r, in, err := os.Pipe()
	must(t, err)
	cmd.Stdin = r
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	r.Close()
	w := &worker{TB: t, cmd: cmd, in: in, out: bufio.NewScanner(out)}
	t.Cleanup(func() {
		in.Close()
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
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

// stop stops the process by SIGSTOP, and returns when it is stopped.
func (w *worker) stop() {
	w.Helper()
	pid := w.cmd.Process.Pid
	must(w, syscall.Kill(pid, syscall.SIGSTOP))
	var status syscall.WaitStatus
	_, err := syscall.Wait4(pid, &status, syscall.WUNTRACED, nil)
	for errors.Is(err, syscall.EINTR) {
		_, err = syscall.Wait4(pid, &status, syscall.WUNTRACED, nil)
	}
	if err != nil || !status.Stopped() {
		w.Fatalf("the process is not stopped: %#x, %v", status, err)
	}
}

func (w *worker) kill() {
	w.Helper()
	must(w, w.cmd.Process.Kill())
	_ = w.cmd.Wait()
	w.in.Close()
}

// stream sends numbered messages to one queue through an initiator, up to some at a time.
type stream struct {
	p     *process
	i     *Initiator
	queue uint32
	next  uint64
	tag   uint64 // bits of the ids of work requests, beside the number of the message
}

func (m *stream) send() error {
	b := make([]byte, 64)
	binary.NativeEndian.PutUint64(b, m.next)
	_, err := m.i.PostSend(iwarp.WorkRequest{ID: m.tag | m.next, Flags: iwarp.Signaled, Queue: m.queue, Inline: b})
	if err == nil {
		m.next++
	}
	return err
}

// sharedTarget is two processes, each with a queue in one domain, a target that both are registered with, and
// who sends to both through it.
type sharedTarget struct {
	testing.TB
	far  *host
	a, b *worker
	p    *process
	i    *Initiator
	toA  stream
	toB  stream
}

func newSharedTarget(t testing.TB) *sharedTarget {
	t.Helper()
	l := rdstest.NewLab(t)
	near, far := newHost(t, &l), newHost(t, &l)
	f := domainFile(t)
	h := &sharedTarget{TB: t, far: far, a: startWorker(t, far, f, 7), b: startWorker(t, far, f, 8), p: newProcess(t, near, nil, 1, 1024)}
	h.i = h.p.connect(t, far.addr, 7)
	h.b.do("register", h.i.Target())
	h.toA, h.toB = stream{p: h.p, i: h.i, queue: h.a.srq}, stream{p: h.p, i: h.i, queue: h.b.srq}
	return h
}

// send sends the next message of a stream, and returns how it went.
func (h *sharedTarget) send(m *stream) iwarp.Status {
	h.Helper()
	must(h, m.send())
	return h.p.poll(h).Status
}

// targets is how many targets there are where the processes are.
func (h *sharedTarget) targets() int { return h.far.node.Xrc.Objects().Stats().TotalTargets() }

// The process for whose service a target was made is killed, and the target lives, because another process is registered
// with it.
func TestXRCREQ1TargetOutlivesAProcess(t *testing.T) {
	t.Parallel()
	h := newSharedTarget(t)
	before := h.targets()
	h.a.kill()
	for range 100 {
		if s := h.send(&h.toB); s != iwarp.Success {
			t.Fatal(s)
		}
	}
	if n := h.targets(); n != before {
		t.Errorf("%d targets, %d before", n, before)
	}
}

// When the last process leaves, the target is destroyed before its call returns, and the sender hears of it.
func TestXRCREQ6LastProcessDestroysTheTarget(t *testing.T) {
	t.Parallel()
	h := newSharedTarget(t)
	before := h.targets()
	h.a.kill()
	if s := h.send(&h.toB); s != iwarp.Success { // and the death of the other process is known
		t.Fatal(s)
	}
	rdstest.Eventually(t, "the other process to be gone", func() bool { return h.send(&h.toA) == iwarp.RemoteInvalidRD })
	h.b.do("unregister", h.i.Target())
	if n := h.targets(); n != before-1 {
		t.Errorf("%d targets when the last process has left, %d before", n, before)
	}
	e, err := h.p.NextEvent(rdstest.Background(t))
	if err != nil || e.Object.Number != h.i.Number() {
		t.Errorf("the sender hears %v of %v, %v", e.Kind, e.Object, err)
	}
	must(t, h.p.Ack(e))
	must(t, h.i.Close(rdstest.Background(t)))
}

// One of two processes is killed in the middle of traffic: the other one's messages go on, without loss and in order,
// and what is sent to the first is answered.
func TestXRCREQ31DeathOfAProcessDisturbsNobody(t *testing.T) {
	t.Parallel()
	h := newSharedTarget(t)
	const rounds = 2000
	failed := 0
	for k := range rounds {
		if k == rounds/2 {
			h.a.kill()
		}
		switch s := h.send(&h.toA); {
		case s == iwarp.Success && failed == 0:
		case s == iwarp.RemoteInvalidRD && k >= rounds/2:
			failed++
		default:
			t.Fatalf("message %d to the process that is killed: %v after %d that failed", k, s, failed)
		}
		if s := h.send(&h.toB); s != iwarp.Success {
			t.Fatalf("message %d to the other process: %v", k, s)
		}
	}
	if failed == 0 {
		t.Error("nothing was sent to the process that was killed")
	}
}

// What is under way to a process that is killed, and waits there for receives, is answered when it is, and so is
// what comes later.
func TestXRCREQ32QueueOfAKilledProcessAnswers(t *testing.T) {
	t.Parallel()
	h := newSharedTarget(t)
	h.a.do("stop") // it posts no receives when it has taken the next messages
	// It has 64 receives and posts those of the first messages again, which are from 1 to 64, so that one in 129 waits.
	sent := 0
	for n := 0; n < 129; {
		err := h.toA.send()
		switch {
		case err == nil:
			sent++
			n++
		case !errors.Is(err, ErrFull):
			t.Fatal(err)
		default:
			if c := h.p.poll(t); c.Status != iwarp.Success {
				t.Fatalf("%+v", c)
			}
			sent--
		}
	}
	h.a.kill()
	refused := 0
	for range sent {
		switch c := h.p.poll(t); c.Status {
		case iwarp.Success:
		case iwarp.RemoteInvalidRD:
			refused++
		default:
			t.Fatalf("%+v", c)
		}
	}
	if s := h.send(&h.toA); refused == 0 || s != iwarp.RemoteInvalidRD {
		t.Errorf("%d are refused, one more ends with %v", refused, s)
	}
}

// A process that only registers keeps the target alive, and hears of it as the others do.
func TestXRCREQ24ProcessThatOnlyRegistersHears(t *testing.T) {
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
		must(t, m.send())
		if c := p.poll(t); c.Status != iwarp.Success {
			t.Fatalf("%+v", c)
		}
	}
	must(t, i.Close(rdstest.Background(t)))
	for _, kind := range []string{"communication-established", "qp-fatal"} {
		fmt.Fprintln(keeper.in, "event")
		if got, want := keeper.hear("event"), fmt.Sprintf("%s %d", kind, i.Target()); got != want {
			t.Errorf("the process that only registered hears %q, want %q", got, want)
		}
	}
}

//go:build live

package rds

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/rds-go/rds/internal/rdstest"
)

// talker is a process with a node, which exchanges numbered messages with another one
// until it is told to stop, and verifies what it receives.
type talker struct {
	testing.TB
	cmd    *exec.Cmd
	in     io.Closer
	stderr strings.Builder
	news   chan struct{} // cap 1: something below has changed

	mu   sync.Mutex
	got  int       // guarded by mu; messages received
	at   time.Time // guarded by mu; the last of them
	down []down    // guarded by mu; paths of it that have ended
	over bool      // guarded by mu; it has received all, or has ended
}

type down struct {
	at    time.Time
	cause string
}

// talk says what a talker does.
type talk struct {
	here, there netip.AddrPort
	port        uint16
	wire        Wire
	paths       int
	silence     time.Duration
	every       time.Duration // between two messages; 0: as many as it can send
	size        int           // bytes of a message
	most        int           // messages; 0: until it is told to stop
}

const talkerRole = "talker"

// startTalker starts a process, in a network namespace unless that is "".
func startTalker(t testing.TB, test, namespace string, k talk) *talker {
	t.Helper()
	p := &talker{TB: t, news: make(chan struct{}, 1)}
	p.cmd = rdstest.Process(test, talkerRole, k.here.String(), k.there.String(), strconv.Itoa(int(k.port)), string(k.wire), strconv.Itoa(k.paths),
		k.silence.String(), k.every.String(), strconv.Itoa(k.size), strconv.Itoa(k.most))
	if namespace != "" {
		ip, err := exec.LookPath("ip")
		rdstest.Must(t, err)
		p.cmd.Args = append([]string{"ip", "netns", "exec", namespace}, p.cmd.Args...)
		p.cmd.Path = ip
	}
	p.cmd.Stderr = &p.stderr
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	in, out := rdstest.Piped(t, p.cmd)
	p.in = in
	read := make(chan struct{})
	go func() {
		defer close(read)
		for in := bufio.NewScanner(out); in.Scan(); {
			p.note(in.Text())
		}
		p.note("over")
	}()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		<-read
		_ = p.cmd.Wait()
		if t.Failed() {
			t.Logf("%v: %s", k.here, p.stderr.String())
		}
	})
	return p
}

func (p *talker) note(line string) {
	p.mu.Lock()
	now := time.Now()
	what, rest, _ := strings.Cut(line, "\t")
	switch what {
	case "got":
		p.got, _ = strconv.Atoi(rest)
		p.at = now
	case "path down":
		p.down = append(p.down, down{now, rest})
	case "over":
		p.over = true
	}
	p.mu.Unlock()
	select {
	case p.news <- struct{}{}:
	default:
	}
}

// wait returns when the condition holds, which is asked with p.mu held.
func (p *talker) wait(what string, ok func() bool) {
	p.Helper()
	timeout := time.NewTimer(rdstest.Patience)
	defer timeout.Stop()
	for {
		p.mu.Lock()
		done, over, got := ok(), p.over, p.got
		p.mu.Unlock()
		if done {
			return
		}
		if over {
			p.Fatalf("ended before this: %s", what)
		}
		select {
		case <-p.news:
		case <-timeout.C:
			p.Fatalf("not in time: %s, after %d messages", what, got)
		}
	}
}

// received returns how many messages have been received.
func (p *talker) received() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.got
}

// downs returns the paths that have ended so far.
func (p *talker) downs() []down {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]down(nil), p.down...)
}

// silent waits for a path that ends because the peer is silent, and returns when that was.
func (p *talker) silent() (at time.Time) {
	p.Helper()
	p.wait("a path ends because the peer is silent", func() bool {
		for _, d := range p.down {
			if strings.Contains(d.cause, "silent") || strings.Contains(d.cause, "not answered") {
				at = d.at
				return true
			}
		}
		return false
	})
	return at
}

// more waits for so many messages from now on, and returns when the first that is
// seen as the last received came.
func (p *talker) more(n int) time.Time {
	p.Helper()
	want := p.received() + n
	var at time.Time
	p.wait(fmt.Sprintf("%d more messages", n), func() bool { at = p.at; return p.got >= want })
	return at
}

// finish has both stop sending, and fails if one has not received all that the other
// has sent, once and in order.
func finish(t testing.TB, ps ...*talker) {
	t.Helper()
	for _, p := range ps {
		_ = p.in.Close()
	}
	for _, p := range ps {
		p.wait("all is received", func() bool { return p.over })
	}
	for _, p := range ps {
		if err := p.cmd.Wait(); err != nil {
			t.Fatalf("%v: %s", err, p.stderr.String())
		}
	}
}

// beTalker is the process.
func beTalker(args []string) {
	var k talk
	number := func(i int) int { n, _ := strconv.Atoi(args[i]); return n }
	span := func(i int) time.Duration { d, _ := time.ParseDuration(args[i]); return d }
	k.here, k.there = netip.MustParseAddrPort(args[0]), netip.MustParseAddrPort(args[1])
	k.port, k.wire, k.paths = uint16(number(2)), Wire(args[3]), number(4)
	k.silence, k.every, k.size, k.most = span(5), span(6), number(7), number(8)
	if err := k.run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

func (k *talk) run() error {
	encoder := zapcore.NewConsoleEncoder(zapcore.EncoderConfig{MessageKey: "what"})
	n, err := NewNode(Config{
		Addresses: []netip.Addr{k.here.Addr()}, Port: k.port, Wire: k.wire, Paths: k.paths, Linger: rdstest.Patience,
		TCP:    TCPConfig{Silence: k.silence},
		Logger: zap.New(zapcore.NewCore(encoder, zapcore.Lock(os.Stdout), zap.InfoLevel)),
	})
	if err != nil {
		return err
	}
	s, err := n.Bind(k.here)
	if err != nil {
		return err
	}
	told := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		close(told)
	}()
	received := make(chan error, 1)
	go func() { received <- k.receive(s) }()
	if err := k.send(s, told); err != nil {
		return err
	}
	if err := <-received; err != nil {
		return err
	}
	fmt.Println("over")
	if err := s.Close(); err != nil { // waits for acknowledgement
		return err
	}
	return n.Close()
}

// send ends with a message that has nothing but its number.
func (k *talk) send(s *Socket, told <-chan struct{}) error {
	tick := time.NewTicker(max(k.every, 1))
	defer tick.Stop()
	for i := 0; ; i++ {
		stop := k.most > 0 && i == k.most
		select {
		case <-told:
			stop = true
		default:
		}
		if k.most > 0 && stop {
			<-told
		}
		size := k.size
		if stop {
			size = 8
		}
		if err := s.Send(context.Background(), k.there, rdstest.Payload(uint64(i), size)); err != nil {
			return fmt.Errorf("message %d: %w", i, err)
		}
		if stop {
			return nil
		}
		if k.every > 0 {
			<-tick.C
		}
	}
}

func (k *talk) receive(s *Socket) error {
	for i := 0; ; i++ {
		m, err := s.Recv(context.Background())
		if err == nil {
			err = rdstest.Verify(m.Data, uint64(i))
		}
		if err != nil {
			return fmt.Errorf("receiving message %d: %w", i, err)
		}
		last := len(m.Data) == 8
		m.Release()
		if last {
			return nil
		}
		fmt.Printf("got\t%d\n", i+1)
	}
}

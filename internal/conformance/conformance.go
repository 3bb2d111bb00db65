package conformance

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rds-go/rds/rds"
)

// Setup is what one case runs on.
type Setup struct {
	// Near and Far are two hosts, or one: then they are the same provider, or
	// two programs at one daemon.
	Near, Far rds.Provider
	// OneHost says that they are one: no wire is between them.
	OneHost bool
	// NearAddr and FarAddr are addresses of them.
	NearAddr, FarAddr netip.Addr
	// Other is another address of Near.
	Other netip.Addr
	// Nowhere is an address at which nobody answers.
	Nowhere netip.Addr
	// Foreign is an address that is neither's own.
	Foreign netip.Addr
	// Slow runs the cases one after the other.
	Slow bool
}

// patience is how long a case waits for what must happen.
const patience = 30 * time.Second

// test is one case.
type test struct {
	name string
	run  func(*lab)
}

// Run runs all cases against the provider of that name, each on a Setup of its
// own.
func Run(t *testing.T, provider string, setup func(t *testing.T) Setup) {
	for _, c := range cases() {
		t.Run(c.name, func(t *testing.T) {
			d := difference(c.name, provider)
			if d != nil && d.Skip {
				t.Skipf("%s: %s", provider, d.What)
			}
			l := &lab{T: t, Setup: setup(t), differ: d}
			if !l.Slow {
				t.Parallel()
			}
			c.run(l)
			if d != nil && !l.asked && !t.Failed() {
				t.Errorf("the table has a difference nobody asks for: %s", d.What)
			}
		})
	}
}

// Names lists the cases.
func Names() []string {
	var out []string
	for _, c := range cases() {
		out = append(out, c.name)
	}
	return out
}

func cases() []test {
	return slices.Concat(bindCases, sendCases, bufferCases, waitCases, receiveCases, congestionCases, fateCases, memoryCases, transportCases, closeCases)
}

// lab is what a case works with.
type lab struct {
	*testing.T
	Setup
	differ *Difference
	asked  bool
}

// differs tells whether the table has a difference for this case and provider.
func (l *lab) differs() bool {
	l.asked = true
	return l.differ != nil
}

// bind makes a socket that goes with the case, without lingering.
func (l *lab) bind(p rds.Provider, a netip.Addr, port uint16) *rds.Socket {
	l.Helper()
	s, err := p.Bind(netip.AddrPortFrom(a, port))
	if err != nil {
		l.Fatal(err)
	}
	l.Cleanup(func() {
		s.SetLinger(0)
		_ = s.Close()
	})
	return s
}

func (l *lab) near() *rds.Socket { l.Helper(); return l.bind(l.Near, l.NearAddr, 0) }
func (l *lab) far() *rds.Socket  { l.Helper(); return l.bind(l.Far, l.FarAddr, 0) }

func (l *lab) pair() (a, b *rds.Socket) { l.Helper(); return l.near(), l.far() }

// nowhere is a port of the host that does not answer.
func (l *lab) nowhere() netip.AddrPort { return netip.AddrPortFrom(l.Nowhere, 4000) }

func (l *lab) patient() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	l.Cleanup(cancel)
	return ctx
}

// brief is a context that ends soon: what waits for it was blocked.
func (l *lab) brief() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Millisecond)
	l.Cleanup(cancel)
	return ctx
}

func (l *lab) must(err error) {
	l.Helper()
	if err != nil {
		l.Fatal(err)
	}
}

func (l *lab) send(s *rds.Socket, to netip.AddrPort, data string) {
	l.Helper()
	l.must(s.Send(l.patient(), to, []byte(data)))
}

func (l *lab) recv(s *rds.Socket) rds.Message {
	l.Helper()
	m, err := s.Recv(l.patient())
	l.must(err)
	return m
}

// expect receives a datagram and checks its payload.
func (l *lab) expect(s *rds.Socket, want string) {
	l.Helper()
	m := l.recv(s)
	if m.Kind != rds.KindData || string(m.Data) != want {
		l.Errorf("PROMISE: received %v %.40q, want %.40q", &m, m.Data, want)
	}
	m.Release()
}

// empty checks that there is nothing to receive.
func (l *lab) empty(s *rds.Socket) {
	l.Helper()
	m, err := s.TryRecv()
	if err == nil {
		l.Errorf("PROMISE: %v was left", &m)
		m.Release()
		return
	}
	l.fails("an empty socket", err, syscall.EAGAIN)
}

// fails checks that err is an *OpError of one line that is all of wants.
func (l *lab) fails(what string, err error, wants ...error) {
	l.Helper()
	var oe *rds.OpError
	switch {
	case err == nil:
		l.Errorf("%s: no error, want %v", what, wants)
		return
	case !errors.As(err, &oe):
		l.Errorf("%s: %v (%T) is no *OpError", what, err, err)
	case strings.Contains(err.Error(), "\n"):
		l.Errorf("%s: more than one line: %q", what, err)
	}
	for _, w := range wants {
		if !errors.Is(err, w) {
			l.Errorf("%s: %v is not %v", what, err, w)
		}
	}
}

// eventually waits for something that announces itself to nobody.
func (l *lab) eventually(what string, ok func() bool) {
	l.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	end := time.NewTimer(patience)
	defer end.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-end.C:
			l.Fatalf("not in time: %s", what)
		}
	}
}

// arrived waits until a socket has something to receive.
func (l *lab) arrived(s *rds.Socket) {
	l.Helper()
	l.eventually("arrival", func() bool { return s.Poll()&(rds.PollIn|rds.PollWrBand) == rds.PollIn })
}

// fill sends to nowhere until the send buffer is full, and returns how many
// messages of size bytes it took.
func (l *lab) fill(s *rds.Socket, size int) (n int) {
	l.Helper()
	data := make([]byte, size)
	for {
		err := s.TrySend(l.nowhere(), data)
		switch {
		case errors.Is(err, syscall.EAGAIN):
			return n
		case err != nil:
			l.Fatal(err)
		}
		n++
	}
}

// running is a call that may block.
type running chan error

func start(f func() error) running {
	c := make(running, 1)
	go func() { c <- f() }()
	return c
}

// end is what the call returned, in time.
func (l *lab) end(what string, c running) error {
	l.Helper()
	select {
	case err := <-c:
		return err
	case <-l.patient().Done():
		l.Fatalf("%s: still blocked", what)
		return nil
	}
}

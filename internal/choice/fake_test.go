//go:build !live

package choice

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/rds-go/rds/transport"
)

// answer is what a dial of a fake transport meets.
type answer int

const (
	refuses answer = iota
	rejects
	fails // for a reason that says nothing of the peer
	silent
	answers
	late // answers after fake.delay
	hangs
)

var (
	errRejected = errors.New("rejected")
	errFails    = errors.New("no route")
	errHung     = errors.New("no reply")
)

// fake is a transport whose dials end as the test says.
type fake struct {
	name string

	mu      sync.Mutex
	answer  answer
	hold    chan struct{} // if not nil, dials wait for its end
	dialing chan struct{} // gets a value when a dial begins
	dials   int
	delay   time.Duration // delay of a late answer
	asks    int

	answered func(*fakeLink) // if not nil, a dial calls it with its link
}

func newFake(name string) *fake { return &fake{name: name, dialing: make(chan struct{}, 100)} }

func (f *fake) set(a answer) {
	f.mu.Lock()
	f.answer = a
	f.mu.Unlock()
}

// dialed returns the number of dials since the last call.
func (f *fake) dialed() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := f.dials
	f.dials = 0
	return n
}

func (f *fake) Dial(ctx context.Context, _, remote netip.Addr, _ int) (transport.Link, error) {
	f.mu.Lock()
	f.dials++
	hold, a, answered := f.hold, f.answer, f.answered
	f.mu.Unlock()
	select {
	case f.dialing <- struct{}{}:
	default: // nobody looks
	}
	if hold != nil {
		select {
		case <-hold:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	switch a {
	case refuses:
		return nil, fmt.Errorf("%s: %w", f.name, syscall.ECONNREFUSED)
	case rejects:
		return nil, fmt.Errorf("%s: %w", f.name, errRejected)
	case fails:
		return nil, fmt.Errorf("%s: %w", f.name, errFails)
	case silent:
		<-ctx.Done()
		return nil, ctx.Err()
	case hangs:
		<-ctx.Done()
		return nil, fmt.Errorf("%w: %w", errHung, ctx.Err())
	case late:
		select {
		case <-time.After(f.delay):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	l := &fakeLink{by: f, remote: remote}
	if answered != nil {
		answered(l)
	}
	return l, nil
}

// Ask answers as Dial would, and counts apart.
func (f *fake) Ask(ctx context.Context, _, _ netip.Addr) error {
	f.mu.Lock()
	f.asks++
	a := f.answer
	f.mu.Unlock()
	switch a {
	case answers:
		return nil
	case silent:
		<-ctx.Done()
		return ctx.Err()
	case rejects:
		return errRejected
	}
	return fmt.Errorf("%s: %w", f.name, syscall.ECONNREFUSED)
}

// asked returns the number of questions since the last call.
func (f *fake) asked() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := f.asks
	f.asks = 0
	return n
}

func (f *fake) wire() Wire { return Wire{Name: f.name, Dial: f.Dial} }

// connect is a peer that connects to us. It returns the link, and whether the policy accepts
// it.
func (r *rig) connect(f *fake, remote netip.Addr) (*fakeLink, bool) {
	l := &fakeLink{by: f, remote: remote}
	return l, r.Accepts(l)
}

// fakeLink is a link of a fake transport.
type fakeLink struct {
	transport.Link
	by      *fake
	remote  netip.Addr
	mu      sync.Mutex
	aborted bool
}

func (l *fakeLink) RemoteAddr() netip.AddrPort { return netip.AddrPortFrom(l.remote, 1) }

func (l *fakeLink) LocalAddr() netip.AddrPort { return netip.AddrPortFrom(us, 1) }

func (l *fakeLink) Stats() transport.LinkStats { return transport.LinkStats{Transport: l.by.name} }

func (l *fakeLink) Close(mode transport.CloseMode) {
	l.mu.Lock()
	l.aborted = mode == transport.Abort
	l.mu.Unlock()
}

func (l *fakeLink) wasAborted() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.aborted
}

var (
	below = netip.MustParseAddr("10.0.0.1") // dials us
	us    = netip.MustParseAddr("10.0.0.2")
	them  = netip.MustParseAddr("10.0.0.3") // is dialed by us
)

// rig is a choice between two fakes.
type rig struct {
	testing.TB
	*Policy
	preferred, other *fake
	told             atomic.Value // what was chosen when the last change was told of
	moves            atomic.Int32 // calls of Options.Leave
	log              *observer.ObservedLogs
}

func newRig(t testing.TB, patience time.Duration) *rig {
	r := &rig{TB: t, preferred: newFake("new"), other: newFake("old")}
	core, log := observer.New(zap.InfoLevel)
	r.log = log
	r.told.Store("")
	r.Policy = New(Options{
		Preferred: r.preferred.wire(), Other: r.other.wire(), Ask: r.preferred.Ask, Times: Times{Patience: patience}, Logger: zap.New(core),
		Absent:  func(err error) bool { return errors.Is(err, errRejected) },
		Hung:    func(err error) bool { return errors.Is(err, errHung) },
		Changed: func(remote netip.Addr) { r.told.Store(r.Chosen(us, remote)) },
		Leave:   func(netip.Addr, netip.Addr) { r.moves.Add(1) },
	})
	t.Cleanup(r.Close) // questions end
	return r
}

// bubble runs f in virtual time, with a rig of this patience; 0 is the default.
func bubble(t *testing.T, patience time.Duration, f func(t *testing.T, r *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { f(t, newRig(t, patience)) })
}

// dial dials and returns the name of the transport that answered, "" with the error.
func (r *rig) dial(ctx context.Context) (string, error) {
	l, err := r.Dial(ctx, us, them, 0)
	if err != nil {
		if l != nil {
			r.Error("a link with an error")
		}
		return "", err
	}
	return l.(*fakeLink).by.name, nil
}

// wantDial dials within a time and says who is to answer, "" for nobody.
func (r *rig) wantDial(what string, within time.Duration, want string) error {
	r.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	got, err := r.dial(ctx)
	if got != want {
		r.Errorf("%s: %q answered (%v), want %q", what, got, err, want)
	}
	return err
}

func (r *rig) wantChosen(what, want string) {
	r.Helper()
	if got := r.Chosen(us, them); got != want {
		r.Errorf("%s: chosen is %q, want %q", what, got, want)
	}
	if got := r.told.Load(); got != want {
		r.Errorf("%s: told that %q is chosen, want %q", what, got, want)
	}
}

// wantDials checks who was asked since the last check.
func (r *rig) wantDials(what string, preferred, other int) {
	r.Helper()
	if p, o := r.preferred.dialed(), r.other.dialed(); p != preferred || o != other {
		r.Errorf("%s: %d and %d dials, want %d and %d", what, p, o, preferred, other)
	}
}

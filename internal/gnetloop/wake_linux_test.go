//go:build live

package gnetloop

import (
	"errors"
	"io"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/rds-go/rds/transport"
)

// Wakes that come while one is due are that one, and a burst ends behind it.
func TestWakesAreOneUntilServed(t *testing.T) {
	t.Parallel()
	peer, c := rawPeer(t, newEngine(t, Options{EventLoops: 1}))
	r := newRecorder(t)
	inside, gate := make(chan struct{}), make(chan struct{})
	r.onFeed = func([]byte) error { inside <- struct{}{}; <-gate; return nil }
	start(t, c, r)
	write(t, peer, []byte{1})
	receive(t, inside)
	for range 10 {
		c.Wake() // the event loop is busy
	}
	gate <- struct{}{}
	r.waitCall(t, "Flush", 2)
	c.Wake()
	r.waitCall(t, "Flush", 3)
	if got, want := r.logged(), []string{"Feed 1", "Flush", "Wake", "Flush", "Wake", "Flush"}; !slices.Equal(got, want) {
		t.Errorf("calls %q, expected %q", got, want)
	}
}

// What a connection was asked for before it has an event loop is not lost.
func TestWakeBeforeStart(t *testing.T) {
	t.Parallel()
	_, c := rawPeer(t, newEngine(t, Options{}))
	c.Wake()
	c.Wake()
	r := newRecorder(t)
	start(t, c, r)
	r.waitCall(t, "Flush", 1)
	if got, want := r.logged(), []string{"Wake", "Flush"}; !slices.Equal(got, want) {
		t.Errorf("calls %q, expected %q", got, want)
	}
}

// The order of Wake and the other calls is the event loop's, whoever asks,
// from wherever; the recorder complains when two of them meet.
func TestWakeFromEverywhere(t *testing.T) {
	t.Parallel()
	peer, c := rawPeer(t, newEngine(t, Options{}))
	r := newRecorder(t)
	r.onFeed = func([]byte) error { c.Wake(); return nil }
	start(t, c, r)
	done := make(chan struct{})
	for range 2 {
		go func() {
			defer func() { done <- struct{}{} }()
			for range 1000 {
				c.Wake()
			}
		}()
	}
	var sent []byte
	for i := range byte(100) {
		write(t, peer, []byte{i})
		sent = append(sent, i)
		r.waitStream(t, sent)
	}
	receive(t, done)
	receive(t, done)
	// The last one is served after it was asked for.
	before := count(r.logged(), "Wake")
	c.Wake()
	r.waitCall(t, "Wake", before+1)
}

// A connection that wakes itself again and again leaves the event loop to the
// others in between.
func TestWakeWithinWake(t *testing.T) {
	t.Parallel()
	e := newEngine(t, Options{EventLoops: 1})
	_, busy := rawPeer(t, e)
	var enough atomic.Bool
	r := newRecorder(t)
	r.onWake = func() error {
		if !enough.Load() {
			busy.Wake()
		}
		return nil
	}
	start(t, busy, r)
	busy.Wake()
	r.waitCall(t, "Wake", 100)
	peer, other := rawPeer(t, e)
	r2 := newRecorder(t)
	start(t, other, r2)
	for i := range byte(10) {
		write(t, peer, []byte{i})
		r2.wait(t, "a byte", func(s []byte, _ []string) bool { return len(s) == int(i)+1 })
	}
	enough.Store(true)
}

// Two connections that are woken together are both.
func TestWakeOfMany(t *testing.T) {
	t.Parallel()
	e := newEngine(t, Options{EventLoops: 2})
	var conns []*Conn
	var rs []*recorder
	for range 10 {
		_, c, r := startedPeer(t, e)
		conns, rs = append(conns, c), append(rs, r)
	}
	for n := range 20 {
		for _, c := range conns {
			c.Wake()
		}
		for _, r := range rs {
			r.waitCall(t, "Wake", n+1)
		}
	}
}

// An error of Wake is like one of Feed: nothing is fed any more.
func TestWakeErrorResets(t *testing.T) {
	t.Parallel()
	peer, c := rawPeer(t, newEngine(t, Options{}))
	r := newRecorder(t)
	r.onWake = func() error { return errBad }
	write(t, peer, []byte{1})
	start(t, c, r)
	r.waitCall(t, "Flush", 1)
	c.Wake()
	if cause := receive(t, r.closed); cause != errBad {
		t.Errorf("Closed(%v)", cause)
	}
	if _, err := peer.Read(make([]byte, 1)); err == nil || errors.Is(err, io.EOF) {
		t.Errorf("the peer read %v, expected a reset", err)
	}
	if got, want := r.logged(), []string{"Feed 1", "Flush", "Wake", "Flush"}; !slices.Equal(got, want) {
		t.Errorf("calls %q, expected %q", got, want)
	}
}

// A connection that ends takes what it was asked for with it; the recorder
// complains about a Wake after Closed.
func TestWakeWhileEnding(t *testing.T) {
	t.Parallel()
	e := newEngine(t, Options{EventLoops: 1})
	for range 50 {
		_, c, r := startedPeer(t, e)
		done := make(chan struct{})
		go func() {
			defer close(done)
			for range 50 {
				c.Wake()
			}
		}()
		c.Close(transport.Abort)
		receive(t, r.closed)
		receive(t, done)
		c.Wake()
	}
	_, c := rawPeer(t, e)
	c.Close(transport.Abort)
	c.Wake() // never started
}

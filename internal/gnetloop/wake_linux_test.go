package gnetloop

import (
	"errors"
	"io"
	"slices"
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
		_, c := rawPeer(t, e)
		r := newRecorder(t)
		start(t, c, r)
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

//go:build live

package gnetloop

import (
	"sync/atomic"
	"testing"

	"github.com/rds-go/rds/internal/streamtest"
	"github.com/rds-go/rds/transport"
)

// The order of Wake and the other calls is the event loop's, whoever asks,
// from wherever; the recorder complains when two of them meet.
func TestWakeFromEverywhere(t *testing.T) {
	t.Parallel()
	peer, c := rawPeer(t, newEngine(t, Options{}))
	r := streamtest.NewRecorder(t)
	r.OnFeed = func([]byte) error { c.Wake(); return nil }
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
		r.WaitStream(t, sent)
	}
	streamtest.Receive(t, done)
	streamtest.Receive(t, done)
	// The last one is served after it was asked for.
	before := streamtest.Count(r.Logged(), "Wake")
	c.Wake()
	r.WaitCall(t, "Wake", before+1)
}

// A connection that wakes itself again and again leaves the event loop to the
// others in between.
func TestWakeWithinWake(t *testing.T) {
	t.Parallel()
	e := newEngine(t, Options{EventLoops: 1})
	_, busy := rawPeer(t, e)
	var enough atomic.Bool
	r := streamtest.NewRecorder(t)
	r.OnWake = func() error {
		if !enough.Load() {
			busy.Wake()
		}
		return nil
	}
	start(t, busy, r)
	busy.Wake()
	r.WaitCall(t, "Wake", 100)
	peer, other := rawPeer(t, e)
	r2 := streamtest.NewRecorder(t)
	start(t, other, r2)
	for i := range byte(10) {
		write(t, peer, []byte{i})
		r2.Wait(t, "a byte", func(s []byte, _ []string) bool { return len(s) == int(i)+1 })
	}
	enough.Store(true)
}

// Two connections that are woken together are both.
func TestWakeOfMany(t *testing.T) {
	t.Parallel()
	e := newEngine(t, Options{EventLoops: 2})
	var conns []*Conn
	var rs []*streamtest.Recorder
	for range 10 {
		_, c, r := startedPeer(t, e)
		conns, rs = append(conns, c), append(rs, r)
	}
	for n := range 20 {
		for _, c := range conns {
			c.Wake()
		}
		for _, r := range rs {
			r.WaitCall(t, "Wake", n+1)
		}
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
		streamtest.Receive(t, r.Ended)
		streamtest.Receive(t, done)
		c.Wake()
	}
	_, c := rawPeer(t, e)
	c.Close(transport.Abort)
	c.Wake() // never started
}

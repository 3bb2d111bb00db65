package conn

import (
	"slices"
	"testing"
	"time"

	"github.com/rds-go/rds/internal/wire"
)

// acceptor is a core whose path 0 is up with link 1, which the peer dialed.
func acceptor(t *testing.T) *Conn {
	t.Helper()
	c := newConn(t, Config{Role: Acceptor})
	c.Accepted(epochTime, 1, 40000)
	c.Proved(epochTime, 0)
	h := wire.Header{Sport: wire.PortProbe}
	wire.Handshake{HasPaths: true, Paths: 1, Generation: 7}.Put(&h.Extensions)
	c.HandleControl(epochTime, 0, &h, nil)
	c.TakeActions(nil)
	checkConn(t, c)
	return c
}

// wants expects the actions about links, starts and ends.
func wants(t *testing.T, c *Conn, want ...Action) {
	t.Helper()
	got := slices.DeleteFunc(c.TakeActions(nil), func(a Action) bool { return a.Kind != Start && a.Kind != CloseLink })
	if !slices.Equal(got, want) {
		t.Fatalf("actions %v, not %v", got, want)
	}
	checkConn(t, c)
}

// Links that wait for a path that is paused are neither refused after HoldTimeout nor
// replaced by newer ones: what came on them may be acknowledged. They follow in the
// order in which they came, and each is read to its end.
func TestLinksWaitForAPausedPath(t *testing.T) {
	t.Parallel()
	c := acceptor(t)
	c.Paused(0, 1, true)
	c.Accepted(epochTime, 2, 40008)
	wants(t, c)
	now := epochTime
	for range 25 {
		if now = c.Deadline(); now.Sub(epochTime) > 200*time.Second || now.IsZero() {
			t.Fatalf("the next deadline is %v", now.Sub(epochTime))
		}
		c.Tick(now)
		wants(t, c)
	}
	if now.Sub(epochTime) <= c.cfg.HoldTimeout {
		t.Fatalf("only %v have passed", now.Sub(epochTime))
	}
	c.Accepted(now, 3, 40016)
	c.Accepted(now, 4, 40024)
	wants(t, c)
	c.LinkClosed(now, 3, 0) // its end is noticed: it was never read
	c.Paused(0, 1, false)
	c.LinkClosed(now, 1, 0)
	wants(t, c, Action{Kind: Start, Link: 2})
	c.LinkClosed(now, 2, 0)
	wants(t, c, Action{Kind: Start, Link: 4})
	if c.State(0) != Up || c.Link(0) != 4 || c.Counters().LinksRefused != 0 {
		t.Errorf("path 0 is %v with link %d, %d refused", c.State(0), c.Link(0), c.Counters().LinksRefused)
	}
}

// When the path is read again, and still does not end, links wait as long as ever.
func TestLinksWaitNoLongerAfterAPause(t *testing.T) {
	t.Parallel()
	c := acceptor(t)
	c.Paused(0, 2, true) // said of another link: nothing
	c.Accepted(epochTime, 2, 40008)
	wants(t, c)
	c.Tick(epochTime.Add(c.cfg.AskTimeout))
	wants(t, c, Action{Kind: CloseLink, Link: 1})
	c.Tick(epochTime.Add(c.cfg.AskTimeout + c.cfg.HoldTimeout))
	wants(t, c, Action{Kind: CloseLink, Link: 2})

	c = acceptor(t)
	c.Paused(0, 1, true)
	c.Accepted(epochTime, 2, 40008)
	c.Tick(epochTime.Add(c.cfg.HoldTimeout))
	c.Paused(0, 1, false)
	wants(t, c)
	c.Tick(epochTime.Add(c.cfg.HoldTimeout + c.cfg.AskTimeout))
	wants(t, c, Action{Kind: CloseLink, Link: 1})
	c.Tick(epochTime.Add(c.cfg.AskTimeout + 2*c.cfg.HoldTimeout))
	wants(t, c, Action{Kind: CloseLink, Link: 2})
}

// Other paths wait for the answer of a peer that has answered on this link before,
// however long it takes: it may have paused path 0. It is asked again.
func TestBarrierWaitsForAPeerThatAnswers(t *testing.T) {
	t.Parallel()
	for _, answers := range []bool{false, true} {
		c := newConn(t, Config{Paths: MaxPaths})
		up(t, c, 1)
		pong := wire.Header{Dport: wire.PortProbe}
		wire.Handshake{HasPaths: true, Paths: 1, Generation: 7}.Put(&pong.Extensions)
		if answers {
			c.HandleControl(epochTime, 0, &pong, nil)
		}
		mustEnqueue(t, c, 0, &Message{Sport: 4000, Dport: 5000, Account: new(Account)})
		ping := wire.Header{Sport: wire.PortProbe}
		wire.Handshake{HasPaths: true, Paths: MaxPaths, Generation: 7}.Put(&ping.Extensions)
		c.HandleControl(epochTime, 0, &ping, nil)
		if c.barrier == 0 {
			t.Fatal("there is no barrier")
		}
		var b Batch
		for c.Fill(0, &b) {
			c.Wrote(0, all(&b))
		}
		c.Acked(0, c.paths[0].written)
		now := epochTime.Add(c.cfg.ProofTimeout)
		c.Tick(now)
		if lifted := c.barrier == 0; lifted == answers {
			t.Fatalf("the peer answers: %v, the barrier is lifted: %v", answers, lifted)
		}
		if !answers {
			continue
		}
		if !c.Fill(0, &b) {
			t.Fatal("the peer is not asked again")
		}
		c.Wrote(0, all(&b))
		for range c.paths[0].probes - 1 {
			c.HandleControl(now, 0, &pong, nil)
		}
		if c.barrier != 0 {
			t.Error("the barrier stands after the answer")
		}
		checkConn(t, c)
	}
}

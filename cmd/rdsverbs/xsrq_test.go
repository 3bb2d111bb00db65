package main

import (
	"bytes"
	"context"
	"encoding/json"
	"net/netip"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rds-go/rds/internal/cli"
	"github.com/rds-go/rds/internal/cli/clitest"
	"github.com/rds-go/rds/mr"
	"github.com/rds-go/rds/transport/iwarp"
	"github.com/rds-go/rds/transport/xrc"
	objects "github.com/rds-go/rds/xrc"
)

// xsrqNet gives each test a network of its own, 127.p.n.x, and the program a port.
var xsrqNet atomic.Uint32

func xsrqAddresses(t *testing.T) (server, client netip.Addr) {
	t.Helper()
	clitest.NeedLoopback(t)
	p, n := byte(1+os.Getpid()%250), byte(100+xsrqNet.Add(1))
	return netip.AddrFrom4([4]byte{127, p, n, 2}), netip.AddrFrom4([4]byte{127, p, n, 1})
}

func testXsrq(queues int) xsrqOptions {
	return xsrqOptions{port: uint16(20000 + os.Getpid()%10000), queues: queues, service: 1, size: 256, crc: true, timeout: cli.Interval(20 * time.Second)}
}

// serveXsrq starts a server, and stops it with the test, or by the function.
func serveXsrq(t *testing.T, at netip.Addr, o *xsrqServeOptions) (*xsrqServer, *transcript, func()) {
	t.Helper()
	out := new(transcript)
	s, err := newXsrqServer(at, o, out.printer())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(within(t))
	done := make(chan error, 1)
	go func() { done <- s.run(ctx) }()
	stop := func() {
		cancel()
		if err, ok := <-done; ok && err != nil {
			t.Error(err)
		}
		s.h.close()
	}
	return s, out, stop
}

// What is no message, or cannot be answered, costs the queue nothing.
func TestXsrqWrongMessagesAreDropped(t *testing.T) {
	t.Parallel()
	at, from := xsrqAddresses(t)
	o := &xsrqServeOptions{xsrqOptions: testXsrq(1), receives: 4}
	_, out, stop := serveXsrq(t, at, o)
	h, err := newXsrqHost(from, &o.xsrqOptions)
	if err != nil {
		t.Fatal(err)
	}
	defer h.close()
	p, err := h.newProcess(processAttr{name: "liar", domain: -1, receives: 64, size: 1024, sends: 64})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Advertise(objects.ServiceAttr{ID: 9, Domain: p.dom, SRQ: p.srq}); err != nil {
		t.Fatal(err)
	}
	ch, err := h.Connect(within(t), p.Session, xrc.ChannelAttr{PD: p.pd, CQ: p.cq, Remote: at, Service: 1})
	if err != nil {
		t.Fatal(err)
	}
	mem, err := p.pd.RegMR(make([]byte, 1024), mr.LocalWrite, 0)
	if err != nil {
		t.Fatal(err)
	}
	next := func() iwarp.Completion {
		var c [1]iwarp.Completion
		for p.cq.Poll(c[:]) == 0 {
			if err := p.cq.Wait(within(t)); err != nil {
				t.Fatal(err)
			}
		}
		return c[0]
	}
	send := func(n int, h xsrqHeader) {
		h.put(mem.Bytes())
		if _, err := ch.PostSend(iwarp.WorkRequest{Flags: iwarp.Signaled, Queue: ch.Queue().SRQN, SGE: []iwarp.SGE{mem.SGE(0, n)}}); err != nil {
			t.Fatal(err)
		}
	}
	sent := func(want iwarp.Status) {
		if c := next(); c.Initiator != ch.Ref().Number || c.Status != want {
			t.Errorf("%+v, want %v", c, want)
		}
	}
	good := xsrqHeader{kind: xsrqPing, service: 9, answer: p.number}
	const rounds = 3 // more than the queue has receives
	for range rounds {
		send(0, good)
		sent(iwarp.Success)
		send(xsrqHeaderLen-1, good)
		sent(iwarp.Success)
		send(xsrqHeaderLen, xsrqHeader{kind: xsrqAnswer, service: 9, answer: p.number})
		sent(iwarp.Success)
		send(xsrqHeaderLen, xsrqHeader{kind: xsrqPing, service: 9}) // no queue
		sent(iwarp.Success)
		send(xsrqHeaderLen, xsrqHeader{kind: xsrqPing, service: 10, answer: p.number}) // no service
		sent(iwarp.Success)
		send(257, good) // longer than its receives: it takes none
		if c := next(); c.Initiator != ch.Ref().Number || c.Status == iwarp.Success {
			t.Errorf("%+v", c)
		}
	}
	send(xsrqHeaderLen, good)
	for range 2 { // the ping and its answer, in either order
		if c := next(); c.Status != iwarp.Success || c.Initiator == 0 && !answers(p.received(&c), mem.Bytes()[:xsrqHeaderLen]) {
			t.Errorf("%+v", c)
		}
	}
	stop()
	r := out.last(t, "served")
	if r.Messages != 5*rounds+1 || r.Dropped != 5*rounds {
		t.Errorf("%+v", r)
	}
}

// A client gets an error, and soon, when the server ends, and a new server serves
// the next one.
func TestXsrqServerEnds(t *testing.T) {
	t.Parallel()
	at, from := xsrqAddresses(t)
	o := &xsrqServeOptions{xsrqOptions: testXsrq(2), receives: 16}
	_, _, stop := serveXsrq(t, at, o)
	po := &xsrqPingOptions{xsrqOptions: o.xsrqOptions, connect: at.String(), source: from.String(), senders: 2, count: 1 << 40}
	out := new(transcript)
	done := make(chan error, 1)
	go func() { done <- runXsrqPing(within(t), po, out.printer()) }()
	out.await(t, "connected", 1)
	stop()
	if err := <-done; err == nil {
		t.Error("no error")
	}
	if end := out.last(t, "end"); end.Error == "" {
		t.Errorf("%+v", end)
	}
	_, _, stop = serveXsrq(t, at, o)
	defer stop()
	po.count = 10
	if err := runXsrqPing(within(t), po, out.printer()); err != nil {
		t.Error(err)
	}
	if end := out.last(t, "end"); end.Error != "" || end.Pings != 40 {
		t.Errorf("%+v", end)
	}
}

// Queues that nobody posts to any more cost the others nothing, and go on when the
// one who stopped them has left.
func TestXsrqStoppedQueuesStopNobodyElse(t *testing.T) {
	t.Parallel()
	at, from := xsrqAddresses(t)
	const queues, senders, count, stopped, receives = 12, 3, 40, 10, 4
	o := &xsrqServeOptions{xsrqOptions: testXsrq(queues), receives: receives}
	s, served, stop := serveXsrq(t, at, o)
	po := &xsrqPingOptions{xsrqOptions: o.xsrqOptions, connect: at.String(), source: from.String(), senders: senders, count: count, stop: stopped}
	out := new(transcript)
	if err := runXsrqPing(within(t), po, out.printer()); err != nil {
		t.Fatal(err)
	}
	type line struct {
		playedLine
		TCP int `json:"tcp_connections"`
	}
	for i, text := range bytes.Split(bytes.TrimSpace([]byte(out.String())), []byte("\n")) {
		var l line
		if err := json.Unmarshal(text, &l); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		switch {
		case l.Type == "end":
			if l.TCP != 1 {
				t.Errorf("%d connections", l.TCP)
			}
		case l.Type != "played":
		case l.Pings != senders*count/2 || l.After == nil:
			t.Errorf("line %d: %s", i, text)
		case l.Index >= stopped && (l.Stopped || l.After.Pings != senders*count/2):
			t.Errorf("line %d: %s", i, text)
		case l.Index < stopped && (!l.Stopped || l.After.Pings >= receives):
			t.Errorf("line %d: %s", i, text) // the message that stopped it took one
		}
	}
	po.stop = 0
	if err := runXsrqPing(within(t), po, out.printer()); err != nil {
		t.Fatal(err)
	}
	if end := out.last(t, "end"); end.Pings != queues*senders*count {
		t.Errorf("%+v", end)
	}
	if stats := s.h.ChannelStats(); stats.Peers != 1 {
		t.Errorf("%+v for all that was played", stats)
	}
	stop()
	if lines := served.of(t, "served"); len(lines) != queues {
		t.Errorf("%d lines for %d queues", len(lines), queues)
	}
}

//go:build !live

package xrc

import (
	"context"
	"errors"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rds-go/rds/transport/iwarp"
	"github.com/rds-go/rds/xrc/objects"
)

// Both sides connect at once, again and again: there is one connection in the end,
// and every request has its answer.
func TestBothSidesConnectAtOnce(t *testing.T) {
	bubbleOn(t, lan, func(t *testing.T) {
		n, a, b := twoHosts(t, hostOptions{})
		a.app("").serve(7, 64, 100)
		b.app("").serve(7, 64, 100)
		ca, cb := a.app(""), b.app("")
		for range 30 {
			var wg sync.WaitGroup
			for _, x := range []struct {
				app *app
				to  byte
			}{{ca, 2}, {cb, 1}} {
				wg.Go(func() {
					ch, err := x.app.h.Connect(within(t), x.app.Session, ChannelAttr{PD: x.app.pd, CQ: x.app.cq, Remote: n.addr(x.to), Service: 7})
					if err != nil {
						t.Error(err)
						return
					}
					if _, err := ch.PostSend(aMessage(ch, 1)); err != nil {
						t.Error(err)
					}
					x.app.want(1, iwarp.Success, iwarp.OpSend)
					if err := ch.Close(within(t)); err != nil {
						t.Error(err)
					}
				})
			}
			wg.Wait()
			if s, r := a.ChannelStats(), b.ChannelStats(); s.Links != 1 || r.Links != 1 {
				// An attempt that was refused may not be cleared away yet.
				n.until("one connection", func() bool { return a.connections() == 1 && b.connections() == 1 })
			}
			n.until("the connection is lost", func() bool {
				a.cut() // and another one, if somebody was about to connect
				b.cut()
				return a.connections()+b.connections() == 0
			})
		}
	})
}

// clock is a time that tests advance.
type clock struct{ past atomic.Int64 }

func (c *clock) now() time.Time { return time.Unix(1, c.past.Load()) }

// Asking whether queue pairs are alive takes one frame for each pair of hosts and
// interval, however many there are, and changes nothing. The clock stands still while
// the peer has not answered: that it is quick enough is not what is tested.
func TestXRCREQ36OneFrameForEachPairOfHostsOnTheWire(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const interval = time.Hour
		c := new(clock)
		n, a, b := twoHosts(t, hostOptions{fabric: Options{Interval: interval}, xrc: objects.Config{Now: c.now}})
		server := b.app("")
		srq, _ := server.serve(7, 4, 100)
		client := a.app("")
		for range 300 { // more than one frame lists
			client.connect(2, 7)
		}
		l := a.allPeers()[0].talking()
		answered := func() bool {
			l.control.mu.Lock()
			defer l.control.mu.Unlock()
			return l.control.asked.IsZero()
		}
		for want := uint64(1); want <= 6; want++ {
			n.until("the peer has answered", answered)
			c.past.Add(int64(interval))
			for range 3 { // once is enough, and no more than once is asked
				a.wake()
				n.until("all are asked for", func() bool { return a.ChannelStats().Asks >= want })
			}
		}
		n.until("the peer has answered", answered)
		if got := a.ChannelStats(); got.Asks != 6 || a.dials.Load() != 1 {
			t.Errorf("%d frames in 6 intervals, %d connections", got.Asks, a.dials.Load())
		}
		if s := b.objects.Stats(); b.channelTargets() != 300 || srq.Query().Posted != 4 {
			t.Errorf("%+v, %+v", s, srq.Query())
		}
		client.quiet()
		server.quiet()
	})
}

// What an announcement did not bring is found out by asking.
func TestXRCREQ36WhatIsMissingIsFoundOutOnTheWire(t *testing.T) {
	bubble(t, func(t *testing.T) {
		clk := new(clock) // stands still until the target has ended
		_, a, b := twoHosts(t, hostOptions{xrc: objects.Config{Now: clk.now}})
		server := b.app("")
		server.serve(7, 4, 100)
		client, ch := a.client(2, 7)
		// The target ends, and its transport does not notice.
		p := b.allPeers()[0]
		p.mu.Lock()
		c := p.carriers[ch.Target()]
		p.carriers[ch.Target()] = nil
		delete(p.carriers, ch.Target())
		p.mu.Unlock()
		must(t, c.target.Suspend(clk.now()))
		must(t, server.ModifyTarget(server.dom, ch.Target().Number, objects.Attr{State: objects.StateError}, objects.MaskState))
		clk.past.Add(int64(time.Hour))
		a.wake()
		client.hears(objects.EventQPFatal, ch.Ref())
	})
}

// A peer that does not answer any more has lost its connection, whatever its TCP does.
func TestSilentPeersLoseTheirConnection(t *testing.T) {
	bubble(t, func(t *testing.T) {
		_, a, b := twoHosts(t, hostOptions{fabric: Options{Interval: 20 * time.Millisecond}, xrc: objects.Config{Grace: 300 * time.Millisecond}})
		b.app("").serve(7, 4, 100)
		_, ch := a.client(2, 7)
		defer b.mute()()
		<-ch.Done()
		endedBy(t, ch, objects.ErrGrace)
	})
}

// rawPeer connects a peer that knows iWARP and says what a test wants.
func rawPeer(t *testing.T, n *hostNet, i byte, to *host, private []byte) (*iwarp.QP, *iwarp.Established, error) {
	t.Helper()
	qp, _, est, err := rawLink(t, n, i, to, private, &iwarp.SharedParams{Send: true, Queues: noQueues{}, Incarnation: 5})
	return qp, est, err
}

// rawLink connects as address i, and says what shared says.
func rawLink(t *testing.T, n *hostNet, i byte, to *host, private []byte, shared *iwarp.SharedParams) (*iwarp.QP, *iwarp.CQ, *iwarp.Established, error) {
	t.Helper()
	cfg := iwarp.Config{EventLoops: 1}
	if m := networkOf(n); m != nil {
		cfg.Network = m
	}
	dev, err := iwarp.Open(cfg)
	must(t, err)
	t.Cleanup(func() { _ = dev.Close() })
	pd, err := dev.AllocPD()
	must(t, err)
	cq, err := dev.CreateCQ(64)
	must(t, err)
	qp, err := pd.CreateQP(iwarp.QPConfig{SendCQ: cq, RecvCQ: cq, MaxInline: 4096})
	must(t, err)
	est, err := dev.ConnectFrom(within(t), qp, netip.AddrPortFrom(n.addr(i), 0), netip.AddrPortFrom(to.addr, channelPort),
		iwarp.ConnParams{Rev: 2, Guard: -1, PeerToPeer: true, Seal: true, Private: private, Shared: shared})
	return qp, cq, est, err
}

type noQueues struct{}

func (noQueues) Find(uint32) *iwarp.SRQ { return nil }

// Peers that lie, or talk nonsense, lose their connection and hurt nobody else.
func TestLyingPeers(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := newNet(t, hostOptions{})
		b := n.host(2)
		server := b.app("")
		srq, _ := server.serve(7, 4, 100)
		good := n.host(1).app("")
		ch := good.connect(2, 7)

		greet := hello{generation: 1, link: 1, queue: 0x200000, initiator: anInitiator(0x400009, 1), target: anInitiator(0x800009, 1)}.bytes()
		say := func(host netip.Addr, incarnation uint64) []byte {
			return appendMessage(nil, 0, &connect{mode: modeNew, host: host, incarnation: incarnation, initiator: anInitiator(0x400009, 1), mtu: 4096, service: 7})
		}
		for name, private := range map[string][]byte{
			"nothing":     nil,
			"no hello":    say(n.addr(3), 5),
			"half":        greet[:20],
			"old version": []byte("RDSx\x02\x00\x00\x00\x00\x00\x00\x07"),
			"path 8":      hello{path: 8}.bytes(),
		} {
			if _, _, err := rawPeer(t, n, 3, b, private); !errors.Is(err, iwarp.ErrRejected) {
				t.Errorf("%s: %v", name, err)
			}
		}
		number := srq.Num()
		for name, c := range map[string]struct {
			say  []byte
			ends bool
		}{
			"nonsense":            {[]byte("nonsense that is no record"), true},
			"cut":                 {(&record{kind: recordGone, refs: []objects.Ref{ch.Target()}}).appendTo(nil)[:40], true},
			"another's name":      {say(n.addr(1), 5), false},
			"another incarnation": {say(n.addr(0), 6), false},
			// A host without targets reaches no queue, and what it says of others is not believed.
			"others are gone": {(&record{kind: recordGone, refs: []objects.Ref{ch.Ref(), ch.Target()}}).appendTo(nil), false},
		} {
			qp, _, err := rawPeer(t, n, 0, b, greet) // the side with the smaller address connects
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if _, err := qp.PostSend(iwarp.WorkRequest{Queue: number, Inline: []byte("x")}, iwarp.WorkRequest{Queue: controlQueue, Inline: c.say}); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if c.ends {
				if err := qp.Wait(within(t)); errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("%s: the connection is still there", name)
				}
				continue
			}
			if err := qp.Ping(within(t)); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			_ = qp.Close()
		}
		good.says(ch, 1)
		server.want(0, iwarp.Success, iwarp.OpReceive)
		if s := b.objects.Stats(); b.channelTargets() != 1 || srq.Query().Posted != 3 {
			t.Errorf("%+v", s)
		}
	})
}

// A host that nobody answers at costs no more than the caller's time, and the
// request succeeds when somebody comes.
func TestConnectWaitsForThePeer(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := newNet(t, hostOptions{})
		a := n.host(1)
		client := a.app("")
		ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
		defer cancel()
		_, err := a.Connect(ctx, client.Session, ChannelAttr{PD: client.pd, CQ: client.cq, Remote: n.addr(2), Service: 7})
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
		if s := client.Used(); s.Initiators != 0 || a.ChannelStats().Channels != 0 {
			t.Errorf("%+v", s)
		}
		done := make(chan *Channel, 1)
		go func() { done <- client.connect(2, 7) }()
		// Somebody listens who does not speak XRC.
		ln, err := networkOf(n).Listen(netip.AddrPortFrom(n.addr(2), channelPort))
		must(t, err)
		c, err := ln.Accept()
		must(t, err)
		_ = c.Close()
		_ = ln.Close()
		server := n.host(2).app("")
		server.serve(7, 4, 100)
		ch := <-done
		client.says(ch, 1)
	})
}

// The end of the session ends a Connect that waits.
func TestSessionsEndWhileTheyConnect(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := newNet(t, hostOptions{})
		a := n.host(1)
		client := a.app("")
		done := make(chan error, 1)
		go func() {
			_, err := a.Connect(context.Background(), client.Session, ChannelAttr{PD: client.pd, CQ: client.cq, Remote: n.addr(2), Service: 7})
			done <- err
		}()
		n.until("it dials", func() bool { return a.dials.Load() > 0 })
		client.die()
		if err := <-done; err == nil {
			t.Error("connected to nobody")
		}
	})
}

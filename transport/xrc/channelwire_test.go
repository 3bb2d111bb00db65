//go:build !live

package xrc

import (
	"cmp"
	"errors"
	"slices"
	"sync"
	"testing"

	"github.com/rds-go/rds/mr"
	"github.com/rds-go/rds/transport/iwarp"
	"github.com/rds-go/rds/xrc/objects"
)

func aMessage(ch *Channel, id uint64) iwarp.WorkRequest {
	return iwarp.WorkRequest{ID: id, Flags: iwarp.Signaled, Queue: ch.Queue().SRQN, Inline: []byte("hello")}
}

// says sends a message that is delivered.
func (a *app) says(ch *Channel, id uint64) {
	a.h.n.Helper()
	a.send(ch, aMessage(ch, id))
	a.want(id, iwarp.Success, iwarp.OpSend)
}

// endedBy checks what a channel has ended by.
func endedBy(t testing.TB, ch *Channel, want error) {
	t.Helper()
	if err := ch.Err(); !errors.Is(err, want) {
		t.Errorf("ended by %v, want %v", err, want)
	}
}

// A target whose depth of reads is 0 refuses reads and atomics, and takes sends and
// writes; the depth is that of all queues together.
func TestXRCREQ13DepthOfReadsOnTheWire(t *testing.T) {
	bubbleOn(t, lan, func(t *testing.T) {
		_, a, b := twoHosts(t, hostOptions{})
		server := b.app("")
		server.serve(7, 4, 100)
		open := server.region(4096, mr.RemoteRead|mr.RemoteWrite|mr.RemoteAtomic|mr.LocalWrite)
		client := a.app("")
		local := client.region(4096, mr.LocalWrite)
		read := iwarp.WorkRequest{ID: 1, Op: iwarp.OpRead, Flags: iwarp.Signaled, SGE: []iwarp.SGE{local.SGE(0, 64)}, RemoteKey: open.Key()}
		add := iwarp.WorkRequest{ID: 2, Op: iwarp.OpFetchAdd, SGE: []iwarp.SGE{local.SGE(0, 8)}, RemoteKey: open.Key(), Add: 1}
		for _, forbidden := range []iwarp.WorkRequest{read, add} {
			none := client.connectAs(2, ChannelAttr{Service: 7})
			forbidden.Queue = none.Queue().SRQN
			client.send(none, iwarp.WorkRequest{ID: 3, Op: iwarp.OpWrite, Flags: iwarp.Signaled, Inline: []byte("written"), Queue: forbidden.Queue, RemoteKey: open.Key()}, aMessage(none, 4),
				forbidden, aMessage(none, 5))
			passed := []iwarp.Completion{client.next(), client.next()} // a message may complete before a Write posted before it
			slices.SortFunc(passed, func(x, y iwarp.Completion) int { return cmp.Compare(x.ID, y.ID) })
			for i, op := range []iwarp.Op{iwarp.OpWrite, iwarp.OpSend} {
				if c := passed[i]; c.ID != uint64(3+i) || c.Op != op || c.Status != iwarp.Success {
					t.Fatalf("completed %+v, want %d: %v", c, 3+i, op)
				}
			}
			client.want(forbidden.ID, iwarp.RemoteInvalid, forbidden.Op)
			client.want(5, iwarp.Flushed, iwarp.OpSend)
			server.ends(none, objects.EventQPRequest)
		}

		some := client.connect(2, 7)
		if some.Reads() != 4 {
			t.Fatal(some.Reads())
		}
		client.says(some, 100) // the peer says that the channel reaches the queue
		for i := range 100 {
			read.ID, read.Queue = uint64(i), some.Queue().SRQN
			client.send(some, read)
			some.mu.Lock()
			if some.reads > 4 {
				t.Errorf("%d reads under way", some.reads)
			}
			some.mu.Unlock()
		}
		for i := range 100 {
			client.want(uint64(i), iwarp.Success, iwarp.OpRead)
		}
	})
}

// A service query has one answer of several, and leaves no connection.
func TestXRCREQ17QueriesMakeNoConnectionOnTheWire(t *testing.T) {
	bubble(t, func(t *testing.T) {
		_, a, b := twoHosts(t, hostOptions{})
		server := b.app("")
		srq, _ := server.serve(7, 1, 100)
		for range 20 {
			got, err := a.Resolve(within(t), a.addr, b.addr, 7)
			if num := srq.Num(); err != nil || got.SRQN != num || got.Tag != server.dom.Tag() {
				t.Fatalf("%+v, %v", got, err)
			}
		}
		var refused *StatusError
		if _, err := a.Resolve(within(t), a.addr, b.addr, 8); !errors.As(err, &refused) || refused.Status != objects.StatusNotFound {
			t.Fatal(err)
		}
		if _, err := a.Connect(within(t), a.app("").Session, ChannelAttr{}); !errors.Is(err, objects.ErrAttribute) {
			t.Error(err)
		}
		if s := b.objects.Stats(); a.connections()+b.connections()+s.TotalTargets()+s.Initiators != 0 || a.paths() != 0 {
			t.Errorf("queries leave something: %+v", s)
		}
		client := a.app("")
		if _, err := a.Connect(within(t), client.Session, ChannelAttr{PD: client.pd, CQ: client.cq, Remote: b.addr, Service: 8}); !errors.As(err, &refused) || refused.Status != objects.StatusNotFound {
			t.Fatal(err)
		}
		if a.ChannelStats().Channels+b.allTargets()+b.channelInitiators() != 0 {
			t.Errorf("a refused connect leaves something: %+v", b.objects.Stats())
		}
		// By a connection there is, too.
		ch := client.connect(2, 7)
		if got, err := a.Resolve(within(t), a.addr, b.addr, 7); err != nil || got != ch.Queue() {
			t.Errorf("%+v, %v", got, err)
		}
		if _, err := a.Resolve(within(t), a.addr, b.addr, 8); !errors.As(err, &refused) || refused.Status != objects.StatusNotFound {
			t.Error(err)
		}
	})
}

// Two jobs on one pair of hosts: each has targets of its own, on the one connection,
// and a queue of one is not reached by targets of the other.
func TestXRCREQ18TwoDomainsOnOneConnectionOnTheWire(t *testing.T) {
	bubble(t, func(t *testing.T) {
		_, a, b := twoHosts(t, hostOptions{})
		red, blue := b.app("red18"), b.app("blue18")
		red.serve(1, 4, 100)
		second, _ := red.serve(3, 4, 100)
		blue.serve(2, 4, 100)
		client, toRed := a.client(2, 1)

		stray, err := a.Resolve(within(t), a.addr, b.addr, 2)
		must(t, err)
		w := aMessage(toRed, 1)
		w.Queue = stray.SRQN
		client.send(toRed, w)
		client.want(1, iwarp.RemoteInvalidRD, iwarp.OpSend)

		toBlue := client.connect(2, 2)
		if toRed.Target() == toBlue.Target() || toRed.Queue().Tag == toBlue.Queue().Tag {
			t.Fatalf("%v, %v", toRed.Target(), toBlue.Target())
		}
		if a.connections() != 1 || b.connections() != 1 {
			t.Error("more than one connection")
		}
		client.send(toRed, aMessage(toRed, 2))
		red.want(0, iwarp.Success, iwarp.OpReceive)
		client.want(2, iwarp.Success, iwarp.OpSend)
		client.send(toBlue, aMessage(toBlue, 3))
		blue.want(0, iwarp.Success, iwarp.OpReceive)
		client.want(3, iwarp.Success, iwarp.OpSend)

		// One more service of the domain is behind the same target, another's is not.
		joined, err := toRed.Join(within(t), 3)
		if num := second.Num(); err != nil || joined.SRQN != num {
			t.Fatalf("%+v, %v", joined, err)
		}
		if _, err := toRed.Join(within(t), 2); !errors.Is(err, errNotReady) {
			t.Error(err)
		}
	})
}

// Many processes connect at once, from both sides: each initiator has one target,
// and a request that is repeated gets the same.
func TestXRCREQ20OneTargetForEachInitiatorOnTheWire(t *testing.T) {
	bubbleOn(t, lan, func(t *testing.T) {
		_, a, b := twoHosts(t, hostOptions{})
		a.app("").serve(7, 4, 100)
		b.app("").serve(7, 4, 100)
		const each = 16
		var mu sync.Mutex
		targets := map[*host]map[objects.Ref]bool{a: {}, b: {}}
		var wg sync.WaitGroup
		for i := range 2 * each {
			h, to := a, b
			if i%2 == 1 {
				h, to = b, a
			}
			app := h.app("")
			wg.Go(func() {
				ch, err := h.Connect(within(t), app.Session, ChannelAttr{PD: app.pd, CQ: app.cq, Remote: to.addr, Service: 7})
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				targets[to][ch.Target()] = true
				mu.Unlock()
				// The same once more, as after an answer that was lost.
				m, _, err := ch.p.call(within(t), &connect{mode: modeNew, host: h.addr, incarnation: h.objects.Incarnation(), initiator: ch.ref,
					mtu: uint16(ch.attr.MTU), echo: 5, service: 7})
				if c, ok := m.(*connected); err != nil || !ok || !c.reused || c.target != ch.target || c.echo != 5 {
					t.Errorf("%+v, %v", m, err)
				}
			})
		}
		wg.Wait()
		for h, list := range targets {
			if len(list) != each || h.channelTargets() != each {
				t.Errorf("%d targets named, %d there are", len(list), h.channelTargets())
			}
			if s := h.ChannelStats(); s.Links != 1 {
				t.Errorf("%d connections", s.Links)
			}
		}
	})
}

// The first message after the answer finds everything there.
func TestXRCREQ21ConnectedMeansReadyOnTheWire(t *testing.T) {
	bubble(t, func(t *testing.T) {
		_, a, b := twoHosts(t, hostOptions{})
		server := b.app("")
		server.serve(7, 40, 100)
		client := a.app("")
		for i := range 20 {
			ch := client.connect(2, 7)
			client.says(ch, 1)
			server.want(uint64(i), iwarp.Success, iwarp.OpReceive)
			must(t, ch.Close(within(t)))
		}
	})
}

// Setting up and resuming use nothing that a session sees.
func TestXRCREQ22SetUpUsesNothingOfTheApplicationOnTheWire(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n, a, b := twoHosts(t, hostOptions{})
		server := b.app("")
		srq, _ := server.serve(7, 4, 100)
		client, ch := a.client(2, 7)
		a.cut()
		n.until("resumed", func() bool { return a.ChannelStats().Resumed == 1 })
		var c [1]iwarp.Completion
		if srq.Query().Posted != 4 || server.cq.Poll(c[:]) != 0 || client.cq.Poll(c[:]) != 0 {
			t.Errorf("%+v, %+v", srq.Query(), c)
		}
		ch.mu.Lock()
		if len(ch.free) != len(ch.works) {
			t.Error("places in the send queue are taken")
		}
		ch.mu.Unlock()
		server.quiet()
		client.quiet()
	})
}

// What helped to set up can go: the service, and the listeners.
func TestXRCREQ23ConnectionsOutliveWhatSetThemUpOnTheWire(t *testing.T) {
	bubble(t, func(t *testing.T) {
		_, a, b := twoHosts(t, hostOptions{})
		server, other := b.app("job23"), b.app("job23")
		server.serve(7, 4, 100)
		client, ch := a.client(2, 7)
		other.register(ch)
		b.Transport.Unlisten()
		client.says(ch, 1)
		server.want(0, iwarp.Success, iwarp.OpReceive)
		// The one that advertised it dies; the target is the other's, too.
		queue, _ := other.serve(8, 4, 100)
		server.die()
		w := aMessage(ch, 2)
		w.Queue = queue.Num()
		client.send(ch, w)
		client.want(2, iwarp.Success, iwarp.OpSend)
		other.want(0, iwarp.Success, iwarp.OpReceive)
	})
}

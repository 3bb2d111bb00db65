//go:build !live

package xrc

import (
	"encoding/binary"
	"testing"
	"time"

	"github.com/rds-go/rds/mr"
	"github.com/rds-go/rds/transport/iwarp"
	"github.com/rds-go/rds/xrc/objects"
)

func TestXRCREQ37EveryMessageOnceAcrossLostConnectionsOnTheWire(t *testing.T) {
	bubbleOn(t, lan, func(t *testing.T) {
		_, a, b := twoHosts(t, hostOptions{})
		server := b.app("")
		srq, m := server.serve(7, 64, 128)
		client, ch := a.client(2, 7)
		const messages, cuts = 6000, 12
		done := make(chan error, 1)
		go func() { done <- server.drain(srq, m, 128, messages) }()
		client.stream(ch, 1, messages, func(i int) {
			if i%(messages/cuts) == 50 {
				if i/(messages/cuts)%2 == 0 {
					a.cut()
				} else {
					b.cut()
				}
			}
		})
		must(t, <-done)
		s := a.ChannelStats()
		if s.Resumed == 0 {
			t.Errorf("nothing was resumed: %+v", s)
		}
		if b.allTargets() != 1 || b.objects.Stats().Targets[objects.StateError] != 0 {
			t.Errorf("%+v", b.objects.Stats())
		}
	})
}

// A connection that is lost for four fifths of the grace, with traffic pending,
// is no end: the same queue pairs go on, each message comes once and in
// order, and no session hears of it.
func TestXRCREQ37FourFifthsOfTheGraceOnTheWire(t *testing.T) {
	bubbleOn(t, lan, func(t *testing.T) {
		const grace = 30 * time.Second
		clk := new(clock)
		n, a, b := twoHosts(t, hostOptions{xrc: objects.Config{Now: clk.now, Grace: grace}})
		server := b.app("")
		srq, m := server.serve(7, 64, 128)
		client, ch := a.client(2, 7)
		ref, target := ch.Ref(), ch.Target()
		const messages, cuts = 4000, 4
		done := make(chan error, 1)
		go func() { done <- server.drain(srq, m, 128, messages) }()
		client.stream(ch, 1, messages, func(i int) {
			if i%(messages/cuts) != messages/cuts/2 {
				return
			}
			<-time.After(lan.Latency) // what is under way has come, and its acknowledgements have not
			again := apart(a, b)
			n.until("both sides are suspended", func() bool { return ch.suspendedNow() && b.objects.Stats().Suspended > 0 })
			clk.past.Add(int64(grace) * 4 / 5)
			a.wake()
			b.wake()
			again()
		})
		must(t, <-done)
		if ch.Err() != nil || ch.Ref() != ref || ch.Target() != target {
			t.Errorf("%v, %v, %v", ch.Err(), ch.Ref(), ch.Target())
		}
		if s := a.ChannelStats(); s.Resumed != cuts {
			t.Errorf("%+v", s)
		}
		if info, err := server.QueryTarget(server.dom, target.Number); err != nil || info.Ref != target || info.Attr.State != objects.StateRTR || !info.Connected {
			t.Errorf("%+v, %v", info, err)
		}
		client.quiet()
		server.quiet()
	})
}

// What is no message is not repeated: it completes as lost with the connection.
func TestWritesAreNeverRepeated(t *testing.T) {
	bubbleOn(t, lan, func(t *testing.T) {
		_, a, b := twoHosts(t, hostOptions{})
		server := b.app("")
		server.serve(7, 4, 64)
		word := server.region(8, mr.RemoteAtomic|mr.LocalWrite)
		client, ch := a.client(2, 7)
		result := client.region(8, mr.LocalWrite)
		add := iwarp.WorkRequest{Op: iwarp.OpFetchAdd, Flags: iwarp.Signaled, SGE: []iwarp.SGE{result.SGE(0, 8)}, Queue: ch.Queue().SRQN, RemoteKey: word.Key(), Add: 1}
		succeeded, lost := 0, 0
		for i := range 200 {
			client.send(ch, add)
			if i%20 == 3 {
				[]*host{a, b}[i/20%2].cut()
			}
			switch c := client.next(); c.Status {
			case iwarp.Success:
				succeeded++
			case iwarp.Flushed:
				lost++
			default:
				t.Fatalf("%+v", c)
			}
		}
		must(t, word.Dereg(within(t)))
		got := int(binary.NativeEndian.Uint64(word.Bytes()))
		if got < succeeded || got > succeeded+lost || lost == 0 {
			t.Errorf("%d happened; %d succeeded, %d were lost", got, succeeded, lost)
		}
	})
}

func TestXRCREQ37WhatEndsASuspendedQueuePairOnTheWire(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n, a, b := twoHosts(t, hostOptions{xrc: objects.Config{Grace: 300 * time.Millisecond}})
		server := b.app("")
		server.serve(7, 4, 64)
		client, ch := a.client(2, 7)
		b.kill() // as a host that has lost its power
		client.send(ch, iwarp.WorkRequest{ID: 5, Queue: ch.Queue().SRQN, Inline: []byte("into the dark")})
		client.want(5, iwarp.RetryExceeded, 0)
		client.hears(objects.EventQPFatal, ch.Ref())
		endedBy(t, ch, objects.ErrGrace)
		n.until("the host is forgotten", func() bool { return ch.Initiator().State() == objects.StateError })
	})
}

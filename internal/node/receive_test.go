//go:build !live

package node

import (
	"bytes"
	"context"
	"errors"
	"net/netip"
	"testing"

	"github.com/rds-go/rds/internal/rdstest"
	"github.com/rds-go/rds/rds/config"
	"github.com/rds-go/rds/rds/datagram"
)

// recvmsg(2) of Linux RDS (net/rds/recv.c, rds_recvmsg).
func TestReadMessageCutsAndTells(t *testing.T) {
	rdstest.Bubble(t, func(t *testing.T) {
		a, b := newLoopLab(t).pair(config.Node{})
		const text = "0123456789"
		for _, c := range []struct {
			name  string
			room  int
			flags datagram.Flags
			n     int
			cut   bool
			left  bool
		}{
			{"room for more", 20, 0, 10, false, false},
			{"exact", 10, 0, 10, false, false},
			{"cut", 4, 0, 4, true, false},
			{"cut, whole length asked for", 4, datagram.Trunc, 10, true, false},
			{"no room", 0, 0, 0, true, false},
			{"no room, whole length asked for", 0, datagram.Trunc, 10, true, false},
			{"peeked", 20, datagram.Peek, 10, false, true},
			{"peeked and cut", 4, datagram.Peek, 4, true, true},
			{"length peeked", 0, datagram.Peek | datagram.Trunc | datagram.DontWait, 10, true, true},
		} {
			rdstest.MustSend(t, a, b.LocalAddrPort(), []byte(text))
			rdstest.Eventually(t, "arrival", func() bool { return b.Poll()&datagram.PollIn != 0 })
			buf := make([]byte, c.room)
			n, m, err := b.ReadMessage(buf, c.flags)
			if err != nil || n != c.n || m.Truncated != c.cut || m.From != a.LocalAddrPort() || m.Data != nil {
				t.Errorf("%s: n %d, cut %v, from %v, %v", c.name, n, m.Truncated, m.From, err)
			}
			if k := min(c.room, 10); string(buf[:k]) != text[:k] {
				t.Errorf("%s: %q", c.name, buf)
			}
			if c.left {
				rdstest.Expect(t, b, text)
			}
			rdstest.WantNothing(t, b)
		}
	})
}

func TestPeekLeavesAccounting(t *testing.T) {
	rdstest.Bubble(t, func(t *testing.T) {
		a, b := newLoopLab(t).pair(config.Node{})
		rdstest.MustSend(t, a, b.LocalAddrPort(), make([]byte, 3000))
		for range 3 {
			if n, _, err := b.ReadMessage(make([]byte, 10), datagram.Peek); n != 10 || err != nil {
				t.Fatal(n, err)
			}
		}
		info, _ := nodeOf(b).Info()
		if s := info.Sockets[0]; s.RecvQueued != 3000 || s.RecvMessages != 1 || len(info.Receive) != 1 {
			t.Errorf("%+v", s)
		}
		rdstest.WantCounter(t, nodeOf(b), "recv_delivered", 0)
	})
}

// A waiter that only looks must not swallow the wake-up of one that takes.
func TestPeekPassesTheWakeUpOn(t *testing.T) {
	rdstest.Bubble(t, func(t *testing.T) {
		a, b := newLoopLab(t).pair(config.Node{})
		peeked, taken := make(chan error, 1), make(chan error, 1)
		go func() {
			_, _, err := b.ReadMessage(make([]byte, 10), datagram.Peek)
			peeked <- err
		}()
		rdstest.Eventually(t, "one waits", func() bool { return halfOf(b).Readers.N.Load() == 1 })
		ctx := rdstest.Background(t)
		go func() {
			m, err := b.Recv(ctx)
			m.Release()
			taken <- err
		}()
		rdstest.Eventually(t, "two wait", func() bool { return halfOf(b).Readers.N.Load() == 2 })
		rdstest.MustSend(t, a, b.LocalAddrPort(), []byte("x"))
		rdstest.NoError(t, errors.Join(<-peeked, <-taken))
	})
}

// What a receiver holds stays as it was, however long and in whatever order it
// is released.
func TestHeldMessagesStay(t *testing.T) {
	rdstest.Bubble(t, func(t *testing.T) {
		a, b := newLoopLab(t).pair(config.Node{})
		ctx := rdstest.Background(t)
		sizes := []int{8, 100, 3000, 9000, 40_000, 200_000}
		go func() {
			for i := range 600 {
				if a.Send(ctx, b.LocalAddrPort(), rdstest.Payload(uint64(i), sizes[i%len(sizes)])) != nil {
					return
				}
			}
		}()
		held := make([]datagram.Message, 600)
		for i := range held {
			held[i] = rdstest.MustRecv(t, b)
			if i%3 == 1 {
				held[i].Release()
			}
		}
		for i := len(held) - 1; i >= 0; i-- {
			if i%3 == 1 {
				continue
			}
			rdstest.Must(t, rdstest.Verify(held[i].Data, uint64(i)))
			held[i].Release()
		}
	})
}

func TestQueuedMessagesDieWithTheirSocket(t *testing.T) {
	rdstest.Bubble(t, func(t *testing.T) {
		a, b := newLoopLab(t).pair(config.Node{})
		for range 3 {
			rdstest.MustSend(t, a, b.LocalAddrPort(), make([]byte, 20_000))
		}
		rdstest.Eventually(t, "arrival", func() bool { return rdstest.Counter(t, nodeOf(b), "recv_queued") == 3 })
		rdstest.Must(t, b.Close())
		rdstest.WantCounter(t, nodeOf(b), "recv_drop_dead_sock", 3)
	})
}

func TestReceiversShareOneSocket(t *testing.T) {
	rdstest.Bubble(t, func(t *testing.T) {
		a, b := newLoopLab(t).pair(config.Node{})
		const count, readers = 3000, 8
		ctx, cancel := context.WithCancel(rdstest.Background(t))
		got := make(chan uint64, count)
		done := make(chan struct{})
		for i := range readers {
			go func() {
				defer func() { done <- struct{}{} }()
				ms := make([]datagram.Message, 1+i*3)
				for {
					n, err := b.RecvBatch(ctx, ms)
					if err != nil {
						return
					}
					for j := range ms[:n] {
						got <- rdstest.Be64(ms[j].Data)
						ms[j].Release()
					}
				}
			}()
		}
		for i := range count {
			rdstest.MustSend(t, a, b.LocalAddrPort(), rdstest.Payload(uint64(i), 8))
		}
		seen := make([]bool, count)
		for range count {
			n := <-got
			if seen[n] {
				t.Fatalf("message %d twice", n)
			}
			seen[n] = true
		}
		cancel()
		for range readers {
			<-done
		}
	})
}

func TestMessageText(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	for _, m := range []datagram.Message{
		{Data: make([]byte, 5), From: netip.MustParseAddrPort("127.0.0.1:7")},
		{Kind: datagram.KindStatus, Token: 0x2a, Status: datagram.StatusDropped},
		{Kind: datagram.KindCongestion, Congestion: 1 << 5},
	} {
		b.WriteString(m.String() + "\n")
	}
	if got, want := b.String(), "5 bytes from 127.0.0.1:7\nstatus dropped of 0x2a\ncongestion 0x20\n"; got != want {
		t.Errorf("%q", got)
	}
}

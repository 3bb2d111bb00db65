package rds

import (
	"context"
	"errors"
	"net/netip"
	"sync"
	"testing"
	"time"
)

func TestRecvBatchTakesWhatIsThere(t *testing.T) {
	t.Parallel()
	a, b := newLoopLab(t).pair(Config{})
	for _, s := range []string{"1", "2", "3", "4", "5"} {
		mustSend(t, a, b.LocalAddrPort(), []byte(s))
	}
	eventually(t, "arrival", func() bool { return counter(t, nodeOf(b), "recv_queued") == 5 })
	ms := make([]Message, 3)
	ms[0].Token = 77 // leftovers must not show
	n, err := b.RecvBatch(background(t), ms)
	if n != 3 || err != nil || string(ms[0].Data) != "1" || string(ms[2].Data) != "3" || ms[0].Token != 0 {
		t.Fatal(n, err, ms)
	}
	if n, err = b.RecvBatch(background(t), ms); n != 2 || err != nil || string(ms[1].Data) != "5" {
		t.Fatal(n, err, ms)
	}
	if n, err = b.RecvBatch(background(t), nil); n != 0 || err != nil {
		t.Error(n, err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	n, err = b.RecvBatch(ctx, ms)
	wantErr(t, "empty", err, context.DeadlineExceeded)
	if n != 0 {
		t.Error(n)
	}
}

// SendBatch accepts leading messages; fewer than all come with the error of
// the first one refused.
func TestSendBatchIsPartial(t *testing.T) {
	t.Parallel()
	a, b := newLoopLab(t).pair(Config{})
	to := b.LocalAddrPort()
	good := func(s string) Outgoing { return Outgoing{To: to, Data: []byte(s)} }
	multicast := Outgoing{To: netip.MustParseAddrPort("224.0.0.1:1")}
	for _, c := range []struct {
		name string
		out  []Outgoing
		n    int
		want error
	}{
		{"nothing", nil, 0, nil},
		{"all", []Outgoing{good("a"), good("b")}, 2, nil},
		{"the second is bad", []Outgoing{good("a"), multicast, good("b")}, 1, ErrInvalid},
		{"the first is bad", []Outgoing{multicast, good("a")}, 0, ErrInvalid},
		{"the last is too long", []Outgoing{good("a"), good("b"), {To: to, Data: make([]byte, MaxMessage+1)}}, 2, ErrMessageTooLong},
		{"the second has no destination", []Outgoing{good("a"), {}}, 1, ErrNotConnected},
	} {
		for _, block := range []bool{true, false} {
			var n int
			var err error
			if block {
				n, err = a.SendBatch(background(t), c.out)
			} else {
				n, err = a.TrySendBatch(c.out)
			}
			if n != c.n || !errors.Is(err, c.want) {
				t.Errorf("%s: %d, %v", c.name, n, err)
			}
			var oe *OpError
			if errors.As(err, &oe) && oe.Peer != c.out[n].To {
				t.Errorf("%s: the error is about %v", c.name, oe.Peer)
			}
			for i := range n {
				expect(t, b, string(c.out[i].Data))
			}
		}
	}
	if _, err := b.TryRecv(); !errors.Is(err, ErrWouldBlock) {
		t.Error("something is left")
	}
}

func TestTrySendBatchStopsAtTheSendBuffer(t *testing.T) {
	t.Parallel()
	s := newLoopLab(t).bindOne(Config{SendBuffer: 2000})
	to := nowhere()
	out := make([]Outgoing, 20)
	for i := range out {
		out[i] = Outgoing{To: to, Data: make([]byte, 300)}
	}
	n, err := s.TrySendBatch(out)
	wantErr(t, "batch", err, ErrWouldBlock)
	if n != 4 {
		t.Errorf("%d messages of 300 bytes in half of 2000", n)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		k, err := s.SendBatch(ctx, out)
		wantErr(t, "blocked batch", err, context.Canceled)
		if k != 4 {
			t.Errorf("%d messages after the cancel", k)
		}
	}()
	eventually(t, "it waits", func() bool { return halfOf(s).writers.n.Load() == 1 })
	if err := s.CancelSentTo(to); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it waits again", func() bool { return halfOf(s).writers.n.Load() == 1 && halfOf(s).account.Bytes() == 1200 })
	cancel()
	<-done
}

// One batch may go to several hosts, and its messages may be of any size; each
// destination sees its own in order.
func TestBatchesKeepOrder(t *testing.T) {
	t.Parallel()
	for _, paths := range []int{1, 8} {
		l := newLab(t)
		cfg := Config{Paths: paths}
		src := l.bindOne(cfg)
		dst := []*Socket{l.bindOne(cfg), l.bindOne(cfg), src}
		const rounds, each = 30, 41
		sizes := []int{8, 64, 8, 2000, 30_000, 9, 100_000, 16 << 10, 16<<10 + 1}
		ctx := background(t)
		go func() {
			n := make([]uint64, len(dst))
			for round := range rounds {
				out := make([]Outgoing, each)
				for i := range out {
					d := (i/5 + round) % len(dst)
					out[i] = Outgoing{To: dst[d].LocalAddrPort(), Data: payload(n[d], sizes[(i+round)%len(sizes)])}
					n[d]++
				}
				if k, err := src.SendBatch(ctx, out); k != each || err != nil {
					t.Error(k, err)
					return
				}
			}
		}()
		var wg sync.WaitGroup
		for d, s := range dst {
			wg.Go(func() {
				for i := range expectedFor(d, rounds, each, len(dst)) {
					m, err := s.Recv(ctx)
					if err == nil {
						err = verify(m.Data, i)
						m.Release()
					}
					if err != nil {
						t.Errorf("destination %d: %v", d, err)
						return
					}
				}
			})
		}
		wg.Wait()
	}
}

func expectedFor(d, rounds, each, dsts int) (n uint64) {
	for round := range rounds {
		for i := range each {
			if (i/5+round)%dsts == d {
				n++
			}
		}
	}
	return n
}

//go:build live

package daemon

import (
	"context"
	"encoding/binary"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/rds-go/rds/internal/node"
	"github.com/rds-go/rds/internal/rdstest"
	"github.com/rds-go/rds/internal/socket"
	"github.com/rds-go/rds/rds/config"
	"github.com/rds-go/rds/rds/datagram"
)

// A message that the daemon keeps because the application's memory is used up is
// acknowledged, so that nobody waits for it, and does not end with Success, even if links
// are cut all the time. It is delivered when there is room.
func TestNoRoomIsNeverSuccess(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	from := l.bind(l.node(config.Node{Wire: config.WireXRC, SendBuffer: 64 << 20, ReconnectMin: time.Millisecond, ReconnectMax: 5 * time.Millisecond}))
	n, svc, path := served(t, l, config.Node{Wire: config.WireXRC, ReceiveBuffer: 64 << 20}, config.Service{ReceiveBacklog: 1 << 30})
	to := bound(t, dialed(t, path), rdstest.AddrOf(rdstest.NewAddr(), 100))
	other := bound(t, dialed(t, path), rdstest.AddrOf(to.LocalAddrPort().Addr(), 101))
	x := svc.all()[0]
	for _, y := range svc.all() {
		if y.id < x.id {
			x = y
		}
	}
	shrink(x, 4<<20)
	ctx, cancel := context.WithCancel(rdstest.Background(t))
	var wg sync.WaitGroup
	progress := make(chan struct{}, 1)
	wg.Go(func() {
		rng := rand.New(rand.NewPCG(1, 4))
		for {
			select {
			case <-progress:
			case <-ctx.Done():
				return
			}
			rdstest.CutLinks([]*node.Node{nodeOf(from), n}[rng.IntN(2)])
		}
	})
	const messages = 600
	wg.Go(func() {
		for i := range uint64(messages) {
			data := binary.BigEndian.AppendUint64(nil, i)
			if i%2 == 0 {
				data = append(data, make([]byte, 30_000)...)
			}
			if err := from.SendMessage(ctx, &datagram.Outgoing{To: to.LocalAddrPort(), Data: data, Notify: true, Token: i}); err != nil {
				t.Error(err)
				return
			}
		}
	})
	ends, fates := map[datagram.Status]int{}, make([]datagram.Status, messages)
	for i := range messages {
		if i%50 == 25 {
			progress <- struct{}{}
		}
		m := rdstest.MustRecv(t, from)
		fates[m.Token] = m.Status
		ends[m.Status]++
	}
	cancel()
	wg.Wait()
	if err := rdstest.Converse(rdstest.Background(t), from, other, 20); err != nil {
		t.Errorf("another application: %v", err)
	}
	x.mu.Lock()
	had := x.sockets[0].gaveCount.Load() // are in the application's memory
	x.mu.Unlock()
	for i := range uint64(messages) {
		m := rdstest.MustRecv(t, to)
		if got := binary.BigEndian.Uint64(m.Data); got != i {
			t.Fatalf("PROMISE: message %d instead of %d", got, i)
		}
		if fates[i] == datagram.StatusSuccess && i >= uint64(had) {
			t.Errorf("message %d has ended with Success in the daemon's memory", i)
		}
		m.Release()
	}
	t.Logf("%d messages, %d in the application's memory: %v", messages, had, ends)
	if ends[datagram.StatusDropped] == 0 || ends[datagram.StatusSuccess] == 0 || ends[datagram.StatusDropped]+ends[datagram.StatusSuccess] != messages {
		t.Error("PROMISE: wrong fates")
	}
}

// What an application has been sent beyond its receive arena lies in its memory, too,
// and the pages go back to the system when it has been taken.
func TestReceiveArenaShrinks(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	from := l.bind(l.node(config.Node{Wire: config.WireXRC, SendBuffer: 64 << 20}))
	_, svc, path := served(t, l, config.Node{Wire: config.WireXRC, ReceiveBuffer: 64 << 20}, config.Service{ReceiveArena: 1 << 20})
	c := dialed(t, path)
	to := bound(t, c, rdstest.AddrOf(rdstest.NewAddr(), 100))
	const messages, size = 200, 30_000
	for i := range messages {
		rdstest.MustSend(t, from, to.LocalAddrPort(), rdstest.Payload(uint64(i), size))
	}
	var small [300]*socket.Socket // their slabs, of a page each, would be more than the arena by themselves
	for i := range small {
		small[i] = bound(t, c, rdstest.AddrOf(to.LocalAddrPort().Addr(), uint16(200+i)))
		rdstest.MustSend(t, from, small[i].LocalAddrPort(), []byte("small"))
	}
	x := lastSession(svc)
	all := func() bool {
		x.mu.Lock()
		defer x.mu.Unlock()
		return x.sockets[0].gaveCount.Load() == messages
	}
	rdstest.Eventually(t, "the application to have all", all)
	last := func() (sum int) {
		for _, b := range x.mem.area[5<<20 : 6<<20] {
			sum += int(b)
		}
		return sum
	}
	if info := sessionOf(t, svc); last() == 0 || info.Backlog < 4<<20 || info.Waiting != 0 || info.ReceiveArena != 1<<20 {
		t.Errorf("%+v", info)
	}
	rdstest.ExpectNumbers(t, to, messages)
	for _, s := range small {
		rdstest.Expect(t, s, "small")
	}
	rdstest.Eventually(t, "the backlog to end", func() bool { return sessionOf(t, svc).Backlog == 0 })
	if n := last(); n != 0 {
		t.Error("pages are left")
	}
}

//go:build live

package daemon

import (
	"context"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/rds-go/rds/internal/rdstest"
	"github.com/rds-go/rds/internal/socket"
	"github.com/rds-go/rds/internal/wire"
	"github.com/rds-go/rds/rds/config"
	"github.com/rds-go/rds/transport"
	"github.com/rds-go/rds/transport/tcp"
	"github.com/rds-go/rds/transport/xrc"
)

// dialMute makes a link whose handler is a mute.
func dialMute(ctx context.Context, t *testing.T, tr transport.Transport, from, to netip.Addr) (transport.Link, *rdstest.Mute) {
	t.Helper()
	link, err := tr.Dial(ctx, from, to, 0)
	rdstest.Must(t, err)
	m := &rdstest.Mute{Room: make(chan struct{}, 1), Ended: make(chan struct{})}
	rdstest.Must(t, link.Start(m))
	return link, m
}

// A hundred strangers begin a message of 1 MiB to an application and do not go on, on either
// wire, after each has shown by whole messages that it speaks RDS. They have a small part of
// the application's memory at most, others send large messages to it meanwhile, and the
// strangers lose their links by the limit.
func TestStrangersThatBeginMessages(t *testing.T) {
	t.Parallel()
	const strangers = 100
	for _, w := range []config.Wire{config.WireTCP, config.WireXRC} {
		t.Run(string(w), func(t *testing.T) {
			t.Parallel()
			beginMessages(t, w, strangers)
		})
	}
}

func beginMessages(t *testing.T, w config.Wire, strangers int) {
	l := newLab(t)
	var froms []netip.Addr
	for range strangers {
		froms = append(froms, rdstest.NewAddr())
	}
	friend := l.bind(l.node(config.Node{Wire: w}))
	cfg := config.Node{Wire: w, TCP: config.TCP{Silence: 2 * time.Second}}
	_, svc, path := served(t, l, cfg, config.Service{})
	app, err := dialed(t, path).Bind(netip.AddrPortFrom(rdstest.NewAddr(), 4000))
	rdstest.Must(t, err)
	to := app.LocalAddrPort()
	rdstest.Must(t, rdstest.Stream(rdstest.Background(t), friend, app, 10, rdstest.Fixed(1<<20)))
	rdstest.MustSend(t, app, friend.LocalAddrPort(), []byte("we talk"))
	rdstest.Expect(t, friend, "we talk")

	attack := attacker(t, l, w)
	stop := make(chan struct{})
	ctx, cancel := context.WithTimeout(t.Context(), rdstest.Patience)
	defer cancel()
	message := func(seq uint64, length, have int) []byte {
		h := wire.Header{Sequence: seq, Length: uint32(length), Sport: 4000, Dport: 4000}
		return append(h.AppendTo(nil), rdstest.Payload(seq, have)...)
	}
	var all sync.WaitGroup
	var mutes []*rdstest.Mute
	for _, from := range froms {
		link, m := dialMute(ctx, t, attack, from, to.Addr())
		mutes = append(mutes, m)
		all.Go(func() {
			for seq := range uint64(3) {
				if !m.Write(link, stop, wire.HeaderSize+30_000, message(seq+1, 30_000, 30_000)) {
					return
				}
			}
			m.Write(link, stop, wire.HeaderSize+1<<20, message(4, 1<<20, 100_000))
		})
	}
	x := svc.all()[0]
	begun := func() int {
		x.mem.mu.Lock()
		defer x.mem.mu.Unlock()
		return x.mem.begun
	}
	came, most := make(chan uint64), 0
	all.Go(func() { receiveAmong(ctx, t, app, friend.LocalAddrPort(), came) })
	for sent := uint64(0); !over(mutes); sent++ {
		rdstest.MustSend(t, friend, to, rdstest.Payload(sent, 1<<20))
		if got, ok := <-came; !ok || got != sent {
			t.Fatalf("message %d has not come", sent)
		}
		most = max(most, begun())
	}
	if most == 0 || most > x.mem.soft/8 {
		t.Errorf("strangers had %d bytes of memory of %d", most, x.mem.soft)
	}
	rdstest.Eventually(t, "the memory is back", func() bool { return begun() == 0 })
	close(stop)
	cancel()
	all.Wait()
	rdstest.NoError(t, attack.Close())
	t.Logf("strangers had %d KiB of memory", most>>10)
}

// attacker is a transport of strangers.
func attacker(t *testing.T, l *lab, w config.Wire) (attack transport.Transport) {
	t.Helper()
	var err error
	if w == config.WireTCP {
		attack, err = tcp.New(tcp.Options{Port: l.Port})
	} else {
		attack, err = xrc.New(xrc.Options{Port: l.Port ^ 1, Overrun: 1 << 20})
	}
	rdstest.Must(t, err)
	return attack
}

// receiveAmong receives the numbered messages of a friend, and says which came, among whole ones of
// strangers.
func receiveAmong(ctx context.Context, t *testing.T, app *socket.Socket, friend netip.AddrPort, came chan<- uint64) {
	for next := uint64(0); ; {
		m, err := app.Recv(ctx)
		switch {
		case err != nil:
			close(came)
			return
		case m.From != friend:
			if len(m.Data) != 30_000 || rdstest.Verify(m.Data, uint64(m.Data[7])) != nil {
				t.Errorf("%d bytes of a stranger", len(m.Data))
			}
		case rdstest.Verify(m.Data, next) != nil:
			t.Errorf("not message %d", next)
		default:
			came <- next
			next++
		}
		m.Release()
	}
}

func over(mutes []*rdstest.Mute) bool {
	for _, m := range mutes {
		select {
		case <-m.Ended:
		default:
			return false
		}
	}
	return true
}

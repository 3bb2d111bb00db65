package rds

import (
	"context"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/rds-go/rds/internal/buf"
	"github.com/rds-go/rds/internal/wire"
	"github.com/rds-go/rds/transport"
	"github.com/rds-go/rds/transport/tcp"
	"github.com/rds-go/rds/transport/xrc"
)

// mute is the handler of a stranger's link, which takes everything and says nothing.
type mute struct {
	transport.Simple
	room   chan struct{} // cap 1: the link may have room
	closed chan struct{}
}

// dialMute makes a link whose handler is a mute.
func dialMute(ctx context.Context, t *testing.T, tr transport.Transport, from, to netip.Addr) (transport.Link, *mute) {
	t.Helper()
	link, err := tr.Dial(ctx, from, to, 0)
	if err != nil {
		t.Fatal(err)
	}
	m := &mute{room: make(chan struct{}, 1), closed: make(chan struct{})}
	if err := link.Start(m); err != nil {
		t.Fatal(err)
	}
	return link, m
}

func (*mute) Message(_ *wire.Header, _ []byte, b *buf.Buf) {
	if b != nil {
		b.Release()
	}
}
func (m *mute) Writable() {
	select {
	case m.room <- struct{}{}:
	default:
	}
}
func (m *mute) Closed(error, uint64) { close(m.closed) }

// write writes b, a message or its beginning, and on XRC within the octets that it asks for. It gives up when the
// link ends, or stop.
func (m *mute) write(l transport.Link, stop <-chan struct{}, octets int, b []byte) bool {
	wait := func() bool {
		select {
		case <-m.room:
			return true
		case <-m.closed:
		case <-stop:
		}
		return false
	}
	if r := l; r.Caps().Reserves {
		for claimed := 0; claimed < octets; claimed += r.Claim() {
			for !r.Want(octets - claimed) {
				if !wait() {
					return false
				}
			}
		}
	}
	for {
		n, err := l.Send([]transport.Frame{{Head: b}})
		if err != nil || n.Frames == 0 && !wait() {
			return false
		}
		if n.Frames == 1 {
			return true
		}
	}
}

// A hundred strangers begin a message of 1 MiB to an application and do not go on, on either
// wire, after each has shown by whole messages that it speaks RDS. They have a small part of
// the application's memory at most, others send large messages to it meanwhile, and the
// strangers lose their links by the limit.
func TestStrangersThatBeginMessages(t *testing.T) {
	t.Parallel()
	const strangers = 100
	for _, w := range []Wire{WireTCP, WireXRC} {
		t.Run(string(w), func(t *testing.T) {
			t.Parallel()
			l := newLab(t)
			var froms []netip.Addr
			for range strangers {
				froms = append(froms, newAddr())
			}
			friend := l.bind(l.node(Config{Wire: w}))
			cfg := Config{Wire: w, TCP: TCPConfig{Silence: 2 * time.Second}}
			_, svc, path := served(t, l, cfg, ServiceConfig{})
			app, err := dialed(t, path).Bind(netip.AddrPortFrom(newAddr(), 4000))
			if err != nil {
				t.Fatal(err)
			}
			to := app.LocalAddrPort()
			if err := stream(background(t), friend, app, 10, fixed(1<<20)); err != nil {
				t.Fatal(err)
			}
			mustSend(t, app, friend.LocalAddrPort(), []byte("we talk"))
			expect(t, friend, "we talk")

			var attack transport.Transport
			if w == WireTCP {
				attack, err = tcp.New(tcp.Options{Port: l.port})
			} else {
				attack, err = xrc.New(xrc.Options{Port: l.port ^ 1, Overrun: 1 << 20})
			}
			if err != nil {
				t.Fatal(err)
			}
			stop := make(chan struct{})
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			message := func(seq uint64, length, have int) []byte {
				h := wire.Header{Sequence: seq, Length: uint32(length), Sport: 4000, Dport: 4000}
				return append(h.AppendTo(nil), payload(seq, have)...)
			}
			var all sync.WaitGroup
			var mutes []*mute
			for _, from := range froms {
				link, m := dialMute(ctx, t, attack, from, to.Addr())
				mutes = append(mutes, m)
				all.Go(func() {
					for seq := range uint64(3) {
						if !m.write(link, stop, wire.HeaderSize+30_000, message(seq+1, 30_000, 30_000)) {
							return
						}
					}
					m.write(link, stop, wire.HeaderSize+1<<20, message(4, 1<<20, 100_000))
				})
			}
			x := svc.all()[0]
			begun := func() int {
				x.mem.mu.Lock()
				defer x.mem.mu.Unlock()
				return x.mem.begun
			}
			came, most := make(chan uint64), 0
			all.Go(func() {
				for next := uint64(0); ; {
					m, err := app.Recv(ctx)
					switch {
					case err != nil:
						close(came)
						return
					case m.From != friend.LocalAddrPort():
						if len(m.Data) != 30_000 || verify(m.Data, uint64(m.Data[7])) != nil {
							t.Errorf("%d bytes of a stranger", len(m.Data))
						}
					case verify(m.Data, next) != nil:
						t.Errorf("not message %d", next)
					default:
						came <- next
						next++
					}
					m.Release()
				}
			})
			for sent := uint64(0); !over(mutes); sent++ {
				mustSend(t, friend, to, payload(sent, 1<<20))
				if got, ok := <-came; !ok || got != sent {
					t.Fatalf("message %d has not come", sent)
				}
				most = max(most, begun())
			}
			if most == 0 || most > x.mem.soft/8 {
				t.Errorf("strangers had %d bytes of memory of %d", most, x.mem.soft)
			}
			eventually(t, "the memory is back", func() bool { return begun() == 0 })
			close(stop)
			cancel()
			all.Wait()
			if err := attack.Close(); err != nil {
				t.Error(err)
			}
			t.Logf("strangers had %d KiB of memory", most>>10)
		})
	}
}

func over(mutes []*mute) bool {
	for _, m := range mutes {
		select {
		case <-m.closed:
		default:
			return false
		}
	}
	return true
}

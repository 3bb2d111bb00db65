//go:build live

package daemon

import (
	"bytes"
	"context"
	"encoding/binary"
	"math/rand/v2"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/rds-go/rds/internal/keyguess"
	"github.com/rds-go/rds/internal/node"
	"github.com/rds-go/rds/internal/rdstest"
	"github.com/rds-go/rds/internal/socket"
	"github.com/rds-go/rds/mr"
	"github.com/rds-go/rds/rds/config"
	"github.com/rds-go/rds/rds/datagram"
	"github.com/rds-go/rds/transport/xrc"
)

// The page in which a region begins is drawn, and a key is worth nothing without it.
func TestCookiesBeginInADrawnPage(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	n := l.node(config.Node{Wire: config.WireXRC})
	b := l.bind(n)
	mem := lent(t, b, 4096)
	const regions = 500
	var ones [32]int
	seen := make(map[uint32]bool)
	var c datagram.Cookie
	for range regions {
		c = rdstest.MustGetMR(t, b, mem, 0)
		for bit := range ones {
			ones[bit] += int(c.Offset()>>bit) & 1
		}
		seen[c.Offset()] = true
	}
	for bit, n := range ones {
		if bit >= 12 && (n < regions/3 || n > regions*2/3) || bit < 12 && n != 0 { // the memory begins with a page
			t.Errorf("bit %d of the offset is set in %d of %d cookies", bit, n, regions)
		}
	}
	if len(seen) < regions-5 {
		t.Errorf("%d different pages of %d", len(seen), regions)
	}
	a := l.bind(l.node(config.Node{Wire: config.WireXRC}))
	for i, page := range []uint32{0, c.Offset() ^ 1<<31, c.Offset() ^ 1<<12, c.Offset() - 4096, c.Offset() + 4096} {
		bad := datagram.MakeCookie(c.Key(), page)
		rdstest.Operate(t, a, b, uint64(i), datagram.Outgoing{RDMA: &datagram.RDMA{Cookie: bad, Local: [][]byte{{1}}, Write: true, Silent: true}})
		rdstest.WantStatus(t, a, uint64(i), datagram.StatusRemoteError)
	}
	rdstest.Operate(t, a, b, 9, datagram.Outgoing{RDMA: &datagram.RDMA{Cookie: c, Local: [][]byte{{2}}, Write: true, Silent: true}})
	rdstest.WantStatus(t, a, 9, datagram.StatusSuccess)
	if mem[0] != 2 || !bytes.Equal(mem[1:], make([]byte, 4095)) {
		t.Error("a wrong page was written to")
	}
}

// guesses are a stranger's ways to look for keys of 1,000 regions, of one of which it knows
// the cookie.
func guesses(known datagram.Cookie) map[string]func() keyguess.Guess {
	rnd, n := rand.New(rand.NewPCG(1, 2)), uint32(0)
	return map[string]func() keyguess.Guess{
		"at random":           func() keyguess.Guess { return keyguess.Guess{Key: rnd.Uint32(), Addr: uint64(rnd.Uint32())} },
		"neighbours of a key": func() keyguess.Guess { n++; return keyguess.Guess{Key: known.Key() + n, Addr: uint64(known.Offset())} },
		"next versions": func() keyguess.Guess {
			if n++; n&0xff == known.Key()&0xff { // that version is the known cookie's own
				n++
			}
			return keyguess.Guess{Key: known.Key()&^0xff | n&0xff, Addr: uint64(known.Offset()) + uint64(n>>8<<12)}
		},
	}
}

// A stranger tries keys of a host with 1,000 regions at full speed: it is answered at full
// speed, in order, 64 guesses a second are looked up, none hits, and traffic with keys that were
// given goes on. The log and the counters say in sum what was tried.
func TestGuessesOverTheWire(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	strangers := []netip.Addr{rdstest.NewAddr(), rdstest.NewAddr(), rdstest.NewAddr()} // below the host's address, as that of who makes links
	core, logs := observer.New(zap.WarnLevel)
	n := l.node(config.Node{Wire: config.WireXRC, Logger: zap.New(core)})
	b := l.bind(n)
	a := l.bind(l.node(config.Node{Wire: config.WireXRC}))
	cookies := make([]datagram.Cookie, 1000)
	for i := range cookies {
		cookies[i] = rdstest.MustGetMR(t, b, make([]byte, mr.SmallSize), 0)
		rdstest.Must(t, b.SendMessage(rdstest.Background(t), &datagram.Outgoing{To: a.LocalAddrPort(), HasDest: true, Dest: cookies[i]}))
		m := rdstest.MustRecv(t, a)
		if !m.HasDest || m.Dest != cookies[i] {
			t.Fatalf("%v", &m)
		}
	}
	stop := make(chan struct{})
	var honest atomic.Uint64
	var wg sync.WaitGroup
	wg.Go(func() { // the honest peer has the guesser's address: its host is the one that guesses
		local := make([]byte, 8)
		until(stop, func(i uint64) {
			rdstest.Operate(t, a, b, i, datagram.Outgoing{RDMA: &datagram.RDMA{Cookie: cookies[i%1000], Local: [][]byte{local}, Write: true, Silent: true}})
			rdstest.WantStatus(t, a, i, datagram.StatusSuccess)
			honest.Add(1)
		})
	})
	to, port := b.LocalAddrPort(), n.Config.XrcPort()
	guessers, tried := len(strangers), uint64(0)
	for name, next := range guesses(cookies[0]) {
		before := memoryCounts(n)
		good := honest.Load()
		ctx, cancel := context.WithTimeout(rdstest.Background(t), 700*time.Millisecond)
		r, err := keyguess.Run(ctx, port, strangers[0], to, next)
		cancel()
		strangers = strangers[1:]
		tried += r.Tried
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		after := memoryCounts(n)
		looked, unseen := after[mr.Denied]-before[mr.Denied], after[mr.Unseen]-before[mr.Unseen]
		t.Logf("%s: %.0f answers a second, %d look-ups, %d unseen, %d hits; %d honest operations beside", name, float64(r.Tried)/r.Took.Seconds(), looked, unseen, r.Hits, honest.Load()-good)
		if r.Hits != 0 {
			t.Errorf("%s: %d of %d guesses hit", name, r.Hits, r.Tried)
		}
		if most := xrc.PeerLookUps * (r.Took.Seconds() + 2); float64(looked) > most || looked == 0 || unseen == 0 {
			t.Errorf("%s: %d look-ups in %v, %d refused unseen", name, looked, r.Took, unseen)
		}
		if looked+unseen < r.Tried {
			t.Errorf("%s: %d answers, %d counted", name, r.Tried, looked+unseen)
		}
	}
	close(stop)
	wg.Wait()
	if honest.Load() == 0 {
		t.Error("no honest operation beside the guesses")
	}
	denied, unseen := rdstest.Counter(t, n, "xrc_keys_denied"), rdstest.Counter(t, n, "xrc_keys_unseen")
	if denied == 0 || unseen == 0 || denied+unseen < tried {
		t.Errorf("%d look-ups denied and %d refused unseen are counted of %d guesses", denied, unseen, tried)
	}
	rdstest.Must(t, n.Close())
	told, lines := uint64(0), logs.FilterMessage("bad keys").All()
	for _, line := range lines {
		told += line.ContextMap()["refused"].(uint64)
	}
	if len(lines) == 0 || len(lines) > 2*guessers || told < tried {
		t.Errorf("%d lines of the log sum up %d of %d guesses", len(lines), told, tried)
	}
}

func memoryCounts(n *node.Node) map[mr.Fault]uint64 {
	m := make(map[mr.Fault]uint64)
	for _, f := range mr.Faults() {
		m[f] = n.Regions().Stats().BadKeys[f]
	}
	return m
}

// Sixty-four hosts that guess have 1,024 look-ups a second together.
func TestManyGuessersShareTheHostsLookUps(t *testing.T) {
	t.Parallel()
	const guessers = 64
	var from [guessers]netip.Addr // below the host's address, as those of who makes links
	for i := range from {
		from[i] = rdstest.NewAddr()
	}
	l := newLab(t)
	n := l.node(config.Node{Wire: config.WireXRC})
	b := l.bind(n)
	c := rdstest.MustGetMR(t, b, make([]byte, 1<<20), 0)
	ctx, cancel := context.WithTimeout(rdstest.Background(t), time.Second)
	defer cancel()
	var wg sync.WaitGroup
	var hits, tried atomic.Uint64
	began := time.Now()
	for _, from := range from {
		rnd := rand.New(rand.NewPCG(uint64(c), uint64(binary.BigEndian.Uint32(from.AsSlice()))))
		wg.Go(func() {
			r, err := keyguess.Run(ctx, n.Config.XrcPort(), from, b.LocalAddrPort(), func() keyguess.Guess {
				return keyguess.Guess{Key: c.Key() + rnd.Uint32N(64) - 32, Addr: uint64(rnd.Uint32())}
			})
			if err != nil && ctx.Err() == nil {
				t.Error(err)
			}
			hits.Add(r.Hits)
			tried.Add(r.Tried)
		})
	}
	wg.Wait()
	counts := memoryCounts(n)
	looked := counts[mr.Denied]
	t.Logf("%d guesses in %v, %d look-ups, %d unseen", tried.Load(), time.Since(began), looked, counts[mr.Unseen])
	if most := xrc.LookUps * (time.Since(began).Seconds() + 1); float64(looked) > most {
		t.Errorf("%d look-ups, %.0f are allowed", looked, most)
	}
	if hits.Load() > 1 { // the known key is among those that are tried, with a page at random
		t.Errorf("%d hits", hits.Load())
	}
}

// While a neighbour on its host guesses, over one socket and over ever new ones, a socket uses
// cookies that were sent to it as payload: each use succeeds or is to be tried again, and none
// that is good is called bad.
func TestNewCookiesBesideAGuesser(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	for _, attached := range []bool{false, true} {
		near, far := l.node(config.Node{Wire: config.WireXRC}), l.node(config.Node{Wire: config.WireXRC})
		b := l.bind(far)
		here := rdstest.NewAddr()
		bind := func() *socket.Socket { return l.bind(near, netip.AddrPortFrom(here, 0)) }
		if attached {
			_, path := serving(t, near, config.Service{})
			guesser, honest := dialed(t, path), dialed(t, path)
			first := true
			bind = func() *socket.Socket {
				p := guesser
				if first {
					p, first = honest, false
				}
				return bound(t, p, netip.AddrPortFrom(here, 0))
			}
		}
		honest := bind()
		stop := make(chan struct{})
		var wg sync.WaitGroup
		var again, refused atomic.Uint64
		guess := func(s *socket.Socket, local []byte, n uint64) {
			rdstest.Operate(t, s, b, n, datagram.Outgoing{RDMA: &datagram.RDMA{Cookie: datagram.Cookie(rand.Uint64()), Local: [][]byte{local}, Silent: true}})
			switch m := rdstest.MustRecv(t, s); m.Status {
			case datagram.StatusAgain:
				again.Add(1)
			case datagram.StatusRemoteError:
				refused.Add(1)
			default:
				t.Errorf("a guess ended with %v", &m)
			}
		}
		one := bind()
		memory := lent(t, one, 8)
		wg.Go(func() { until(stop, func(n uint64) { guess(one, memory, n) }) })
		if !attached {
			wg.Go(func() {
				until(stop, func(uint64) {
					s, err := near.Bind(netip.AddrPortFrom(here, 0))
					if err != nil {
						t.Error(err)
						return
					}
					guess(s, make([]byte, 8), 0)
					_ = s.Close()
				})
			})
		}
		rdstest.Eventually(t, "refusals", func() bool { return refused.Load() >= 8 })
		local := lent(t, honest, 8)
		tries := 0
		for i := range uint64(20) {
			c := rdstest.MustGetMR(t, b, make([]byte, 64), 0) // sent as payload: the daemons do not see it
			for status := datagram.StatusAgain; status == datagram.StatusAgain; tries++ {
				rdstest.Operate(t, honest, b, i, datagram.Outgoing{RDMA: &datagram.RDMA{Cookie: c, Local: [][]byte{local}, Write: true, Silent: true}})
				m := rdstest.MustRecv(t, honest)
				if status = m.Status; status != datagram.StatusSuccess && status != datagram.StatusAgain {
					t.Fatalf("cookie %d ended with %v", i, &m)
				}
			}
		}
		close(stop)
		wg.Wait()
		t.Logf("attached %v: 20 new cookies in %d tries beside %d guesses that were refused and %d that did not begin", attached, tries, refused.Load(), again.Load())
		if again.Load() == 0 {
			t.Error("the guesser was not held back")
		}
		if unseen := rdstest.Counter(t, far, "xrc_keys_unseen"); unseen > 0 {
			t.Errorf("the host has asked for %d more keys than the peer looks up", unseen)
		}
	}
}

// until calls f with 0, 1, 2 and so on until stop is closed.
func until(stop <-chan struct{}, f func(n uint64)) {
	for n := uint64(0); ; n++ {
		select {
		case <-stop:
			return
		default:
			f(n)
		}
	}
}

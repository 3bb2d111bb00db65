package node

import (
	"context"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rds-go/rds/internal/choice"
	"github.com/rds-go/rds/internal/rdstest"
	"github.com/rds-go/rds/internal/socket"
	"github.com/rds-go/rds/rds/config"
	"github.com/rds-go/rds/rds/datagram"
)

// mover has verified streams run both ways between two nodes.
type mover struct {
	*lab
	a, b        *Node      // a dials
	near, there netip.Addr // address of a, and the address that a has for b
	here, far   netip.Addr // address that b has for a, and the address of b
	pair        *choice.Policy
	got         atomic.Int64 // messages received
	cuts        atomic.Int64 // connections cut
	added       atomic.Int64 // additions that ended with success
	stop        atomic.Bool
	work        sync.WaitGroup
}

func newMover(l *lab, cfg config.Node) *mover {
	m := &mover{lab: l, near: rdstest.NewAddr(), there: rdstest.NewAddr()}
	m.here, m.far = m.near, m.there
	m.a, m.b = l.node(cfg), l.node(cfg)
	m.pair = m.a.choice
	return m
}

func (m *mover) serving() string { return m.pair.Chosen(m.near, m.there) }

// cut ends one of the connections between the two nodes, as SHUT_RDWR does on either
// side: what has arrived is still read. It returns how many it has ended, 0 or 1.
func (m *mover) cut(rng *rand.Rand) int {
	for _, fd := range rdstest.ConnectionsBetween(m, rng, m.near, m.there) {
		if rdstest.Shut(rng, fd) {
			return 1
		}
	}
	return 0
}

// links is how many paths are up, and how many links have ended.
func (m *mover) links() (up, ended int) {
	for _, c := range rdstest.Report(m, m.a).Connections {
		for _, p := range c.Path {
			ended += int(p.Resets)
			if p.State == "up" {
				up++
			}
		}
	}
	return up, ended
}

// cutting cuts connections at random moments until the returned function is called. While many paths are down each cut waits until three
// links have come up since the last one: paths are dialed one after the other, each once
// the peer has answered on path 0, whose connection is then most of what there is to cut.
// On a slow machine it would always be cut before the answer, and other paths never dialed.
func (m *mover) cutting() (stop func()) {
	done, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		rng := rand.New(rand.NewPCG(1, 2))
		at := 0
		for {
			select {
			case <-time.After(time.Duration(rng.IntN(100)) * time.Millisecond):
				up, ended := m.links()
				if ever := up + ended; up >= m.a.Config.Paths*3/4 || ever >= at+3 {
					m.cuts.Add(int64(m.cut(rng)))
					at = ever
				}
			case <-done:
				return
			}
		}
	}()
	return sync.OnceFunc(func() {
		close(done)
		<-stopped
	})
}

// streams has n sockets on each side send to the n sockets of the other side.
func (m *mover) streams(n int) {
	for k := range n {
		port := uint16(4000 + k)
		x, y := m.bind(m.a, rdstest.AddrOf(m.near, port)), m.bind(m.b, rdstest.AddrOf(m.far, port))
		m.stream(x, y, rdstest.AddrOf(m.there, port))
		m.stream(y, x, rdstest.AddrOf(m.here, port))
	}
}

func (m *mover) stream(from, to *socket.Socket, at netip.AddrPort) {
	sent := make(chan int, 1)
	m.work.Go(func() {
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		i := 0
		for ; !m.stop.Load(); i++ {
			ctx, cancel := context.WithTimeout(context.Background(), rdstest.Patience)
			err := from.Send(ctx, at, rdstest.Payload(uint64(i), 8+i%11*700))
			cancel()
			if err != nil {
				m.Errorf("message %d from %v: %v", i, from.LocalAddrPort(), err)
				break
			}
			if i%8 == 7 {
				<-tick.C
			}
		}
		sent <- i
	})
	m.work.Go(func() {
		total := -1
		for i := 0; i != total; {
			ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
			msg, err := to.Recv(ctx)
			cancel()
			if errors.Is(err, context.DeadlineExceeded) {
				select {
				case total = <-sent:
					sent <- total
				default:
				}
				continue
			}
			if err == nil {
				err = rdstest.Verify(msg.Data, uint64(i))
				msg.Release()
			}
			if err != nil {
				m.Errorf("at %v: %v", to.LocalAddrPort(), err)
				m.stop.Store(true)
				return
			}
			m.got.Add(1)
			i++
		}
		if msg, err := to.TryRecv(); err == nil {
			m.Errorf("PROMISE: at %v: %v is one too many", to.LocalAddrPort(), &msg)
		}
	})
}

// additions has a socket of a add 1 to a word of b's again and again, several at a time. Over
// TCP they are refused, or end as not done. One with success was done once, one that was
// dropped at most once, another not at all; the message behind it has the same fate.
func (m *mover) additions() {
	from, to := m.bind(m.a, rdstest.AddrOf(m.near, 5000)), m.bind(m.b, rdstest.AddrOf(m.far, 5000))
	mem, err := to.AllocMemory(8)
	rdstest.Must(m, err)
	cookie := rdstest.MustGetMR(m, to, mem.B, 0)
	const most = 16 // at a time
	var (
		mu    sync.Mutex
		fates = make(map[uint64]datagram.Status)
		sent  = make(chan uint64, 1)
		room  = make(chan struct{}, most)
		came  = make(map[uint64]int)
		done  = make(chan struct{})
	)
	m.work.Go(func() { sent <- m.add(from, cookie, room) })
	m.work.Go(func() { // receives fates until each addition has one
		defer close(done)
		m.receive(from, func() bool {
			mu.Lock()
			defer mu.Unlock()
			select {
			case n := <-sent:
				sent <- n
				return uint64(len(fates)) == n
			default:
				return false
			}
		}, func(msg *datagram.Message) {
			mu.Lock()
			defer mu.Unlock()
			if _, ok := fates[msg.Token]; ok {
				m.Errorf("PROMISE: addition %d has two fates", msg.Token)
			}
			fates[msg.Token] = msg.Status
			if msg.Status == datagram.StatusSuccess {
				m.added.Add(1)
			}
			<-room
		})
	})
	m.work.Go(func() { // receives messages until all with success are there, which over TCP may be later than their fates
		var late time.Time
		m.receive(to, func() bool {
			select {
			case <-done:
			default:
				return false
			}
			if late.IsZero() {
				late = time.Now().Add(rdstest.Patience)
			}
			for n, status := range fates {
				if status == datagram.StatusSuccess && came[n] == 0 {
					return time.Now().After(late)
				}
			}
			return true
		}, func(msg *datagram.Message) { came[binary.BigEndian.Uint64(msg.Data)]++ })
		for msg, err := to.TryRecv(); err == nil; msg, err = to.TryRecv() {
			came[binary.BigEndian.Uint64(msg.Data)]++
			msg.Release()
		}
		// One that a has lost with its link may still be done by b: not once the region is gone.
		rdstest.NoError(m, to.FreeMR(cookie, datagram.MRInvalidate))
		m.judge(binary.NativeEndian.Uint64(mem.B), fates, came)
	})
}

// add sends additions until the test says stop, one for each place in room, and returns how many.
func (m *mover) add(from *socket.Socket, cookie datagram.Cookie, room chan struct{}) uint64 {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	n := uint64(0)
	for !m.stop.Load() {
		select {
		case room <- struct{}{}:
		case <-tick.C:
			continue
		}
		ctx, cancel := context.WithTimeout(context.Background(), rdstest.Patience)
		err := from.SendMessage(ctx, &datagram.Outgoing{
			To: rdstest.AddrOf(m.there, 5000), Data: binary.BigEndian.AppendUint64(nil, n), Notify: true, Token: n,
			Atomic: &datagram.Atomic{Cookie: cookie, Add: 1},
		})
		cancel()
		switch {
		case err == nil:
			n++
			continue
		case !errors.Is(err, datagram.ErrNotSupported):
			m.Errorf("addition %d: %v", n, err)
			m.stop.Store(true)
		}
		<-room
		<-tick.C
	}
	return n
}

// receive receives what comes for a socket until over is true.
func (m *mover) receive(s *socket.Socket, over func() bool, f func(*datagram.Message)) {
	for !over() {
		ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
		msg, err := s.Recv(ctx)
		cancel()
		if err == nil {
			f(&msg)
			msg.Release()
		} else if !errors.Is(err, context.DeadlineExceeded) {
			m.Errorf("at %v: %v", s.LocalAddrPort(), err)
			return
		}
	}
}

// judge checks a word and how often the messages of additions came against the fates of the additions.
func (m *mover) judge(word uint64, fates map[uint64]datagram.Status, came map[uint64]int) {
	var did, dropped uint64
	for n, status := range fates {
		switch status {
		case datagram.StatusSuccess:
			did++
		case datagram.StatusDropped:
			dropped++
		case datagram.StatusOtherError:
		default:
			m.Errorf("addition %d: %v", n, status)
		}
		if k := came[n]; k > 1 || k == 0 && status == datagram.StatusSuccess || k > 0 && status == datagram.StatusOtherError {
			m.Errorf("PROMISE: addition %d: %v, and its message came %d times", n, status, k)
		}
	}
	m.Logf("%d additions: %d done, %d dropped; the word is %d", len(fates), did, dropped, word)
	if word < did || word > did+dropped || did == 0 {
		m.Error("PROMISE: additions are lost or done twice")
	}
}

// finish waits until all that was sent is received.
func (m *mover) finish() {
	m.stop.Store(true)
	done := make(chan struct{})
	go func() {
		m.work.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(rdstest.Patience):
		m.Errorf("what was sent is not received: %+v %+v", rdstest.Report(m, m.a).Connections, rdstest.Report(m, m.b).Connections)
		_ = m.a.Close()
		_ = m.b.Close()
		<-done
	}
}

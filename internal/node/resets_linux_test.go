//go:build live

package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rds-go/rds/internal/rdstest"
	"github.com/rds-go/rds/rds/config"
)

// resetter resets the connections that pass through a relay, in each direction behind a
// random number of bytes, which is within a header, a set-up, or a message.
type resetter struct {
	within int          // bound of the number of bytes
	left   atomic.Int64 // resets to be made
	made   atomic.Int64 // resets made
}

// shortened is one direction of a connection.
type shortened struct {
	r    *resetter
	from io.Reader
	left int // bytes that pass
}

var errShortened = errors.New("the connection has had its bytes")

func (r *resetter) through(from io.Reader) io.Reader {
	return &shortened{r: r, from: from, left: 1 + rand.IntN(r.within)}
}

func (s *shortened) Read(b []byte) (int, error) {
	if s.left == 0 {
		if s.r.left.Add(-1) >= 0 {
			s.r.made.Add(1)
			return 0, errShortened
		}
		s.left = math.MaxInt
	}
	n, err := s.from.Read(b[:min(len(b), s.left)])
	s.left -= n
	return n, err
}

// One-way traffic to a receiver that never sends, through a network that resets every
// connection at a random byte: each message comes once and in order over XRC, alone and
// while strangers connect all the time. On RDS/TCP the relay has acknowledged what a reset
// loses, which nobody can know of, but no message comes twice or late
// (TestOneWayTrafficIsTakenOnce has resets without a relay, and loses nothing). RDS_LONG=1 has
// 1,000 resets.
func TestResetsAtRandomBytes(t *testing.T) {
	t.Parallel()
	resets := int64(100)
	if os.Getenv("RDS_LONG") != "" {
		resets = 1000
	}
	for i := range 4 {
		attacked, w := i%2 == 1, []config.Wire{config.WireTCP, config.WireXRC}[i/2]
		t.Run(fmt.Sprintf("%s/attacked=%v", w, attacked), func(t *testing.T) {
			t.Parallel()
			l := newLab(t)
			x := &resetter{within: 200_000}
			x.left.Store(resets)
			r := newFilter(l, x.through)
			cfg := config.Node{Wire: w, ReconnectMin: time.Millisecond, ReconnectMax: 5 * time.Millisecond,
				TCP: config.TCP{Silence: time.Second, DrainTimeout: time.Second}}
			near := l.bind(l.node(cfg), netip.AddrPortFrom(r.Near, 4000))
			far := l.bind(l.node(cfg), netip.AddrPortFrom(r.Far, 4000))
			there := netip.AddrPortFrom(r.There, 4000)
			ctx, cancel := context.WithTimeout(t.Context(), rdstest.Patience+time.Duration(resets)*100*time.Millisecond)
			var work sync.WaitGroup
			defer work.Wait()
			defer cancel()
			if attacked {
				a := &rdstest.Attacker{To: netip.AddrPortFrom(r.Far, l.Port)}
				work.Go(func() {
					for ctx.Err() == nil && x.left.Load() > 0 {
						rdstest.StrangersFrom(50, a.Once)
					}
				})
			}
			work.Go(func() {
				rng := rand.New(rand.NewPCG(1, 2))
				for i := uint64(0); x.left.Load() > 0; i++ {
					if err := near.Send(ctx, there, rdstest.Payload(i, 8+rng.IntN(3000))); err != nil {
						t.Error(err)
						return
					}
				}
				for ctx.Err() == nil { // a message may be lost on RDS/TCP
					if near.Send(ctx, there, nil) != nil {
						return
					}
					if w == config.WireXRC {
						return
					}
					<-time.After(10 * time.Millisecond)
				}
			})
			next, lost := uint64(0), uint64(0)
			for {
				m, err := far.Recv(ctx)
				if err != nil {
					t.Fatalf("message %d: %v", next, err)
				}
				if len(m.Data) == 0 {
					m.Release()
					break
				}
				number := rdstest.Be64(m.Data)
				if err := rdstest.Verify(m.Data, number); err != nil || number < next || w == config.WireXRC && number != next {
					t.Fatalf("PROMISE: message %d instead of %d: %v", number, next, err)
				}
				m.Release()
				lost += number - next
				next = number + 1
			}
			again := rdstest.Counter(t, nodeOf(far), "recv_drop_old_seq")
			t.Logf("%d messages, %d resets, %d came again, %d lost behind the relay's acknowledgement", next, x.made.Load(), again, lost)
			if x.made.Load() != resets {
				t.Errorf("%d resets", x.made.Load())
			}
		})
	}
}

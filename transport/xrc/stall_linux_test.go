//go:build !live

package xrc

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/rds-go/rds/internal/wire"
	"github.com/rds-go/rds/mr"
	"github.com/rds-go/rds/transport"
	"github.com/rds-go/rds/transport/iwarp"
	"github.com/rds-go/rds/transport/transporttest"
)

// counting is a Recorder that counts calls of Writable.
type counting struct {
	*transporttest.Recorder
	writables atomic.Int64
}

func (c *counting) Writable() {
	c.writables.Add(1)
	c.Recorder.Writable()
}

// expose registers memory that peers reach.
func expose(t testing.TB, tr *Transport, mem []byte) uint32 {
	t.Helper()
	owner := tr.Regions().NewOwner(mr.OwnerConfig{Name: "test"})
	key, err := owner.Register(mem, mr.Options{Domain: tr.Domain(), Rights: mr.LocalWrite | mr.RemoteRead | mr.RemoteWrite | mr.RemoteAtomic})
	must(t, err)
	t.Cleanup(func() { _ = owner.Close(context.Background()) })
	return uint32(key)
}

// Small messages both ways through the smallest send buffers there are, while each side
// also reads the other's memory: a wake-up that is lost stops one of them for good,
// and one that nobody asked for is counted.
func TestNoWakeUpIsLost(t *testing.T) {
	bubbleOn(t, lan, func(t *testing.T) {
		const messages = 10_000
		// Receive buffers are not small: below a segment of the loopback TCP goes on only
		// every 200 ms, by its persist timer.
		small := Options{Operations: 4, Config: iwarp.Config{SendBuffer: 4 << 10, ReceiveBuffer: 256 << 10, EventLoops: 1}}
		e := newEnv(t, small, small)
		a, b := e.Dial(t, e.Accepted(t))
		ends := [2]*Transport{e.A.(*Transport), e.B.(*Transport)}
		links := [2]transport.Link{a, b}
		recs := [2]*counting{{Recorder: transporttest.NewRecorder(t)}, {Recorder: transporttest.NewRecorder(t)}}
		for i, l := range links {
			must(t, l.Start(recs[i]))
		}
		var wg sync.WaitGroup
		for i := range links {
			key := expose(t, ends[1-i], make([]byte, 4096))
			wg.Go(func() {
				r := rand.New(rand.NewPCG(uint64(i), 3))
				s := &transporttest.Sender{Link: links[i], Rec: recs[i].Recorder}
				var short, ops, done atomic.Int64
				for n := 0; n < messages; {
					var frames []transport.Frame
					for range 1 + r.IntN(20) {
						frames = append(frames, s.Next(r.IntN(400)))
						n++
					}
					if r.IntN(50) == 0 {
						op := &transport.Operation{Kind: transport.OpRead, Local: [][]byte{make([]byte, r.IntN(4096))}, Key: key,
							Done: func(_ *transport.Operation, s transport.OpStatus) {
								if s != transport.OpSuccess {
									t.Errorf("a read ended with %d", s)
								}
								done.Add(1)
							}}
						frames[r.IntN(len(frames))].Ops = []*transport.Operation{op}
						ops.Add(1)
					}
					for {
						var err error
						if frames, err = s.Try(frames); err != nil {
							t.Errorf("Send: %v", err)
							return
						}
						if len(frames) == 0 {
							break
						}
						short.Add(1)
						recs[i].WaitWritable(t)
					}
				}
				recs[1-i].WaitMessages(t, uint64(messages))
				if got := recs[i].writables.Load(); got > short.Load() {
					t.Errorf("Writable %d times for %d calls that were short", got, short.Load())
				}
				eventually(t, "operations", func() bool { return done.Load() == ops.Load() })
			})
		}
		wg.Wait()
	})
}

// A peer that stops reading stops no call of Send: it takes what there is room
// for, down to nothing, and the rest follows when the peer goes on.
func TestSendReturnsWhateverThePeerDoes(t *testing.T) {
	bubble(t, func(t *testing.T) {
		for _, size := range []int{0, 16, 64, 1000, 5000, 70000} {
			small := Options{Config: iwarp.Config{SendBuffer: 4 << 10, ReceiveBuffer: 256 << 10, EventLoops: 1}}
			e := newEnv(t, small, small)
			a, b := e.Dial(t, e.Accepted(t))
			recA, recB := transporttest.NewRecorder(t), transporttest.NewRecorder(t)
			hold := make(chan struct{})
			var once sync.Once
			recB.OnMessage = func(*wire.Header, []byte) { once.Do(func() { <-hold }) }
			must(t, a.Start(recA))
			must(t, b.Start(recB))
			s := &transporttest.Sender{Link: a, Rec: recA}
			full := make(chan []transport.Frame, 1)
			sent := uint64(0)
			go func() {
				for {
					rest, err := s.Try([]transport.Frame{s.Next(size)})
					sent++
					if err != nil {
						t.Errorf("Send: %v", err)
					}
					if len(rest) > 0 || err != nil {
						full <- rest
						return
					}
				}
			}()
			rest := <-full
			close(hold)
			recA.WaitWritable(t)
			s.Write(t, rest...)
			recB.WaitMessages(t, sent)
			eventually(t, "acknowledgements", func() bool { return a.Acked() == a.Stats().Written })
		}
	})
}

//go:build !live

package xrc

import (
	"sync"
	"testing"
	"testing/synctest"

	"github.com/rds-go/rds/internal/buf"
	"github.com/rds-go/rds/internal/streamtest"
	"github.com/rds-go/rds/internal/wire"
	"github.com/rds-go/rds/transport"
	"github.com/rds-go/rds/transport/transporttest"
)

// lengths is a handler that refuses what is too long, and notes what comes and what the peer refuses.
type lengths struct {
	transporttest.Simple
	link    transport.Link
	mu      sync.Mutex
	got     map[uint64]int // lengths of payloads, by numbers
	refused map[uint64]transport.Refusal
}

func newLengths(t *testing.T, l transport.Link) *lengths {
	h := &lengths{link: l, got: make(map[uint64]int), refused: make(map[uint64]transport.Refusal)}
	must(t, l.Start(h))
	return h
}

func (x *lengths) Message(h *wire.Header, payload []byte, owned *buf.Buf) {
	x.mu.Lock()
	x.got[h.Sequence] = len(payload)
	x.mu.Unlock()
	if owned != nil {
		owned.Release()
	}
	if len(payload) < int(h.Length) {
		x.link.Refuse(h.Sequence, transport.RefusedLength)
	}
}

func (x *lengths) Refused(first uint64, count uint32, why transport.Refusal) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for n := range uint64(count) {
		x.refused[first+n] = why
	}
}

// Two transports that differ in what they take, in CRC and in what may be under way: each knows how long
// messages to the other may be. What is longer ends alone; a peer that does not know limits hears that it is not
// known what became of it.
func TestMessagesThatAreTooLong(t *testing.T) {
	bubble(t, func(t *testing.T) {
		e := newEnv(t, Options{CRC: CRCOn}, Options{MaxMessage: 64 << 10, CRC: CRCOff})
		a, b := e.Dial(t, e.Accepted(t))
		if x, y := a.Caps(), b.Caps(); x.Limit.Octets() != 64<<10 || y.Limit != wire.LimitAll || x.TellsLater {
			t.Errorf("limits %d and %d", x.Limit, y.Limit)
		}
		x, y := newLengths(t, a), newLengths(t, b)
		number := uint64(0)
		send := func(l transport.Link, n int) {
			t.Helper()
			h := wire.Header{Sequence: number, Length: uint32(n), Sport: 4000, Dport: 5000}
			number++
			f := []transport.Frame{{Head: h.AppendTo(nil), Body: make([]byte, n), Port: 5000}}
			for {
				taken, err := l.Send(f)
				must(t, err)
				if taken.Frames == 1 {
					break
				}
				synctest.Wait() // the link is full
			}
			synctest.Wait()
		}
		for _, n := range []int{100, 64<<10 + 1, 64 << 10, wire.MaxPayload} {
			send(a, n)
		}
		b.(*link).hello.limit = 0
		send(a, 64<<10+1)
		send(a, 3)
		send(b, wire.MaxPayload)
		streamtest.Eventually(t, "everything", func() bool {
			y.mu.Lock()
			defer y.mu.Unlock()
			x.mu.Lock()
			defer x.mu.Unlock()
			return len(y.got) == 6 && len(x.got) == 1 && len(x.refused) == 3
		})
		for n, want := range []int{100, 0, 64 << 10, 0, 0, 3} {
			if y.got[uint64(n)] != want {
				t.Errorf("message %d: %d bytes, want %d", n, y.got[uint64(n)], want)
			}
		}
		for n, want := range map[uint64]transport.Refusal{1: transport.RefusedLength, 3: transport.RefusedLength, 4: transport.RefusedUnknown} {
			if x.refused[n] != want {
				t.Errorf("message %d: refusal %d, want %d", n, x.refused[n], want)
			}
		}
		if x.got[6] != wire.MaxPayload {
			t.Errorf("the other way: %d bytes", x.got[6])
		}
		a.Close(transport.Abort)
		b.Close(transport.Abort)
	})
}

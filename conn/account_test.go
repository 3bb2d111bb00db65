package conn

import (
	"math/rand/v2"
	"sync"
	"testing"
)

// The last message may pass the limit, a further one may not, an empty one
// only costs the look (net/rds/send.c, rds_send_queue_rm and rds_sndbuf).
func TestAccountLimit(t *testing.T) {
	t.Parallel()
	var a Account
	a.SetLimit(100)
	for _, c := range []struct {
		n    int
		ok   bool
		sum  int
		room bool
	}{{99, true, 99, true}, {0, true, 99, true}, {5000, true, 5099, false}, {1, false, 5099, false}, {0, false, 5099, false}} {
		if a.Charge(c.n) != c.ok || a.Bytes() != c.sum || a.HasRoom() != c.room {
			t.Errorf("Charge(%d): %d bytes, room %v", c.n, a.Bytes(), a.HasRoom())
		}
	}
	if a.Messages() != 3 || a.Limit() != 100 {
		t.Errorf("%d messages, limit %d", a.Messages(), a.Limit())
	}
	a.Refund(5099, 3)
	if a.Bytes() != 0 || a.Messages() != 0 || !a.HasRoom() {
		t.Errorf("after Refund: %d bytes, %d messages", a.Bytes(), a.Messages())
	}
	a.SetLimit(0)
	if a.Charge(0) {
		t.Error("a limit of 0 has room")
	}
}

// At most one message passes the limit, whoever charges at the same time.
func TestAccountIsShared(t *testing.T) {
	t.Parallel()
	var a Account
	a.SetLimit(1000)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 1000 {
				if a.Charge(7) {
					if b := a.Bytes(); b > 1006 {
						t.Errorf("%d bytes", b)
						return
					}
					a.Refund(7, 1)
				}
			}
		})
	}
	wg.Wait()
	if a.Bytes() != 0 || a.Messages() != 0 {
		t.Errorf("%d bytes, %d messages left", a.Bytes(), a.Messages())
	}
}

// The sums of what is held are those of a full count over the parts, whoever charges and
// refunds while connections go down and come up, and hold messages back.
func TestHeldIsTheSumOfTheParts(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	var whole Account
	whole.SetLimit(1 << 30)
	parts := make([]Account, 4)
	down := make([]bool, len(parts))
	for i := range parts {
		parts[i].Whole = &whole
	}
	rounds := func(round uint64) {
		var wg sync.WaitGroup
		for i := range parts {
			a := &parts[i]
			wg.Go(func() { // the connection
				r := rand.New(rand.NewPCG(seed, round<<8|uint64(i)))
				for range 100 {
					switch n := r.IntN(100); r.IntN(3) {
					case 0:
						down[i] = !down[i]
						a.SetDown(down[i])
						a.SetDown(down[i])
					case 1:
						a.Admit(n)
						a.shelve(n)
					case 2:
						n = min(n, a.Bytes(), int(a.shelved.Load()))
						a.shelve(-n)
						a.Refund(n, 0)
					}
				}
			})
			wg.Go(func() { // a sender
				for n := range 100 {
					a.Charge(n)
					a.ChargeFor(1, true, nil, 0)
					a.Refund(n, 1)
				}
			})
		}
		wg.Wait()
	}
	for round := range uint64(100) {
		rounds(round)
		var bytes, messages int
		for i := range parts {
			if a := &parts[i]; down[i] {
				bytes, messages = bytes+a.Bytes(), messages+a.Messages()
			} else {
				bytes += int(a.shelved.Load())
			}
		}
		if b, m := whole.Held(); b != bytes || m != messages {
			t.Fatalf("seed %d, round %d: %d bytes and %d messages, want %d and %d", seed, round, b, m, bytes, messages)
		}
	}
}

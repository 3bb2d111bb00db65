package conn

import (
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

//go:build !live

package driver

import (
	"runtime"
	"slices"
	"sync"
	"testing"

	"github.com/rds-go/rds/conn"
)

// heldOwner is held up while it is told the fate of message 0.
type heldOwner struct {
	*nobody
	held func()

	mu   sync.Mutex
	told []uint64 // tokens; guarded by mu
}

func (o *heldOwner) Fate(f conn.Fate, _ bool) {
	if f.Token == 0 {
		o.held()
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.told = append(o.told, f.Token)
}

// Fates are told in their order, also where the goroutine that tells of the first ones is held up
// and another one has later ones.
func TestFatesAreToldInOrder(t *testing.T) {
	t.Parallel()
	d, o, _ := newDriver(t, 1)
	h := &heldOwner{nobody: o}
	d.owner = h
	a := new(conn.Account)
	a.SetLimit(1 << 20)
	for token := range uint64(2) {
		a.Charge(1)
		d.Lock()
		err := d.Enqueue(&conn.Message{Sport: 1, Dport: 2 + uint16(token), Payload: []byte{1}, Account: a, Token: token, Notify: true})
		d.Commit()
		if err != nil {
			t.Fatal(err)
		}
	}
	cancel := func(port uint16) {
		d.Lock()
		d.Core.Cancel(a, port, false)
		d.Commit()
	}
	var other sync.WaitGroup
	h.held = func() {
		other.Go(func() { cancel(3) })
		for range 100_000 { // enough for the other one to tell of message 1, if it does
			runtime.Gosched()
		}
	}
	cancel(2)
	other.Wait()
	if !slices.Equal(h.told, []uint64{0, 1}) {
		t.Errorf("told of %d", h.told)
	}
}

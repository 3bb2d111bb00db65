package conn

import (
	"testing"

	"github.com/rds-go/rds/internal/invariants"
)

// One message through a path that is up: queued, shown, written, acknowledged.
func cycle(t testing.TB, c *Conn, b *Batch, m *Message) {
	m.Account.Charge(m.Size())
	mustEnqueue(t, c, 0, m)
	if !c.Fill(0, b) {
		t.Fatal("nothing to write")
	}
	c.Wrote(0, all(b))
	c.Acked(0, c.paths[0].written)
}

func TestSteadyStateAllocatesNothing(t *testing.T) {
	if invariants.Enabled {
		t.Skip("the race detector and -tags invariants allocate: run without them")
	}
	for _, size := range []int{0, 64, 4 << 10, InlineMax} {
		c := newConn(t, Config{})
		up(t, c, 1)
		var b Batch
		a := &Account{}
		a.SetLimit(1 << 20)
		m := &Message{Sport: 4000, Dport: 5000, Payload: make([]byte, size), Account: a, Notify: true}
		var fates []Fate
		run := func() {
			for range 100 {
				cycle(t, c, &b, m)
			}
			fates = c.TakeFates(fates[:0])
		}
		run()
		if n := testing.AllocsPerRun(50, run); n > 0 {
			t.Errorf("%d bytes: %v allocations per 100 messages", size, n)
		}
	}
}

// A lost link and all that is repeated costs no allocation per message.
func TestRetransmissionAllocatesNothing(t *testing.T) {
	if invariants.Enabled {
		t.Skip("the race detector and -tags invariants allocate: run without them")
	}
	c := newConn(t, Config{})
	link := LinkID(1)
	up(t, c, link)
	var b Batch
	a := &Account{}
	a.SetLimit(1 << 20)
	m := &Message{Sport: 4000, Dport: 5000, Payload: make([]byte, 64), Account: a}
	for range 1000 {
		a.Charge(64)
		mustEnqueue(t, c, 0, m)
	}
	acts := make([]Action, 0, 16)
	run := func() {
		for c.Fill(0, &b) {
			c.Wrote(0, all(&b))
		}
		c.LinkClosed(epochTime, link, 0)
		c.Tick(epochTime.Add(2 * c.cfg.ReconnectMax))
		link++
		c.Dialed(epochTime, 0, link)
		c.Proved(epochTime, 0)
		acts = c.TakeActions(acts[:0])
	}
	run()
	if n := testing.AllocsPerRun(50, run); n > 2 { // the probe
		t.Errorf("%v allocations for 1,000 repeated messages", n)
	}
}

func BenchmarkMessage64(b *testing.B) {
	c := newConn(b, Config{})
	up(b, c, 1)
	var batch Batch
	a := &Account{}
	a.SetLimit(1 << 20)
	m := &Message{Sport: 4000, Dport: 5000, Payload: make([]byte, 64), Account: a}
	b.SetBytes(64)
	b.ReportAllocs()
	for b.Loop() {
		cycle(b, c, &batch, m)
	}
}

// BenchmarkStream64 has 1,000 messages in each write, as a busy link does.
func BenchmarkStream64(b *testing.B) {
	c := newConn(b, Config{})
	up(b, c, 1)
	var batch Batch
	a := &Account{}
	a.SetLimit(1 << 30)
	m := &Message{Sport: 4000, Dport: 5000, Payload: make([]byte, 64), Account: a}
	const burst = 1000
	step := func(name string, f func()) {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(64 * burst)
			b.ReportAllocs()
			for b.Loop() {
				f()
			}
		})
	}
	enqueue := func() {
		for range burst {
			a.Charge(64)
			mustEnqueue(b, c, 0, m)
		}
	}
	write := func(n int) {
		if !c.Fill(0, &batch) {
			b.Fatal("nothing to write")
		}
		c.Wrote(0, take(&batch, n, 0))
	}
	step("all", func() {
		enqueue()
		write(burst * (48 + 64))
		c.Acked(0, c.paths[0].written)
	})
	enqueue()
	step("fill", func() { write(0) })
	b.Run("cancel", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			c.Cancel(a, 5000, false)
			enqueue()
		}
	})
}

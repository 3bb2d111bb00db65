//go:build live

package ipc

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// sleeper is one side of a ring as sessions and clients write it: it works,
// sleeps when it cannot, and wakes the other.
type sleeper struct {
	mine, theirs Flag
	ear          *Ear
	bell         *Bell
	sleeps       int
}

// published follows the store of an index.
func (s *sleeper) published() {
	if s.theirs.Take() {
		s.bell.Ring()
	}
}

// wait sleeps until again finds something to do.
func (s *sleeper) wait(again func() (int, error)) error {
	for {
		s.mine.Set()
		n, err := again()
		if err != nil {
			return err
		}
		if n > 0 {
			s.mine.Clear()
			return nil
		}
		s.sleeps++
		if err := s.ear.Wait(); err != nil {
			return err
		}
	}
}

// produce puts numbers into a ring, some at a time, and counts them.
func (s *sleeper) produce(p Producer, n uint64, produced *atomic.Uint64) error {
	rng := rand.New(rand.NewPCG(1, 1))
	for seq := uint64(0); seq < n; {
		free, err := p.Free(1)
		if err == nil && free == 0 {
			err = s.wait(func() (int, error) { return p.Free(1) })
			free, _ = p.Free(1)
		}
		if err != nil {
			return fmt.Errorf("producer: %w", err)
		}
		for range min(uint64(rng.IntN(free)+1), n-seq) {
			p.Put(Entry{3: mix(seq)})
			seq++
		}
		p.Publish()
		produced.Store(seq)
		s.published()
		if rng.IntN(64) == 0 {
			runtime.Gosched()
		}
	}
	return nil
}

// consume takes the numbers that produce puts, some at a time, and counts them.
func (s *sleeper) consume(c Consumer, n uint64, consumed *atomic.Uint64) error {
	rng := rand.New(rand.NewPCG(2, 2))
	for seq := uint64(0); seq < n; {
		ready, err := c.Ready()
		if err == nil && ready == 0 {
			err = s.wait(c.Refresh)
			ready, _ = c.Ready()
		}
		if err != nil {
			return fmt.Errorf("consumer: %w", err)
		}
		ready = rng.IntN(ready) + 1
		for i := range ready {
			if e := c.Peek(i); e.Token() != mix(seq) {
				return fmt.Errorf("entry %d is %#x", seq, e)
			}
			seq++
		}
		c.Next(ready)
		c.Publish()
		consumed.Store(seq)
		s.published()
	}
	return nil
}

// TestTwoSidesSleepAndWake runs a real ring with real bells. The ring is so
// small, and the sides so uneven, that both sleep all the time; when a wake-up
// is lost, they stand still until the watchdog closes their ears.
func TestTwoSidesSleepAndWake(t *testing.T) {
	t.Parallel()
	n := uint64(2_000_000)
	if testing.Short() {
		n = 200_000
	}
	r := newHeapRing(64)
	toConsumer, consumerEar := newBell(t)
	toProducer, producerEar := newBell(t)
	flags := [2]Flag{{new(atomic.Uint32)}, {new(atomic.Uint32)}}
	prod := sleeper{mine: flags[0], theirs: flags[1], ear: producerEar, bell: toConsumer}
	cons := sleeper{mine: flags[1], theirs: flags[0], ear: consumerEar, bell: toProducer}
	var produced, consumed atomic.Uint64
	end := func() { // of both sides
		_ = consumerEar.Close()
		_ = producerEar.Close()
	}
	watchdog := time.AfterFunc(time.Minute, func() {
		t.Errorf("stood still after %d entries put and %d taken", produced.Load(), consumed.Load())
		end()
	})
	defer watchdog.Stop()
	var wg sync.WaitGroup
	for _, side := range []func() error{
		func() error { return prod.produce(r.producer(), n, &produced) },
		func() error { return cons.consume(r.consumer(), n, &consumed) },
	} {
		wg.Go(func() {
			if err := side(); err != nil {
				t.Error(err)
				end()
			}
		})
	}
	wg.Wait()
	t.Logf("%d entries, the producer slept %d times, the consumer %d times", n, prod.sleeps, cons.sleeps)
	if prod.sleeps+cons.sleeps < int(n/10_000) {
		t.Errorf("they slept %d and %d times only: nothing was tested", prod.sleeps, cons.sleeps)
	}
}

// The other side owns the file behind its ear: it may set what it likes on it,
// and not listen. Ringing must go on without waiting.
func TestRingNeverWaits(t *testing.T) {
	t.Parallel()
	bell, ear := newBell(t)
	file := ear.File()
	if err := unix.SetNonblock(int(file.Fd()), false); err != nil {
		t.Fatal(err)
	}
	if err := unix.SetsockoptInt(int(file.Fd()), unix.SOL_SOCKET, unix.SO_RCVBUF, 1); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range 100_000 {
			bell.Ring()
		}
	}()
	select {
	case <-done:
	case <-time.After(time.Minute):
		_ = ear.Close()
		<-done
		t.Fatal("ringing waited")
	}
	if n, err := unix.IoctlGetInt(int(file.Fd()), unix.TIOCINQ); err != nil || n < 1 || n > 64 {
		t.Errorf("%d rings are kept (%v), want a handful", n, err)
	}
	if err := unix.Send(int(file.Fd()), []byte("x"), unix.MSG_NOSIGNAL|unix.MSG_DONTWAIT); err != unix.EPIPE {
		t.Errorf("something can be sent to the bell: %v", err)
	}
}

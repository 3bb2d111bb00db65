package buf

import (
	"testing"
	"testing/synctest"
	"time"
)

// untrimmed gives a pool whose free buffers stay, however long the test takes.
func untrimmed(keep int) *Pool {
	p := &Pool{Keep: keep}
	p.trim.on.Store(true)
	return p
}

func (p *Pool) free(n int) int { return p.kept(class(n)) }

// kept is how many free buffers of a class the pool has.
func (p *Pool) kept(class int) int {
	l := &p.list[class]
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.n
}

// A pool keeps what is in use again and again, and gives the rest up within two
// intervals; then it does not look any more until something is put back.
func TestUnneededBuffersAreGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p Pool
		const size, burst, steady = 4 << 10, 100, 3
		var held []*Buf
		put := func(n int) {
			for range n {
				held = append(held, p.Get(size))
			}
			for _, b := range held {
				b.Release()
			}
			held = held[:0]
		}
		put(burst)
		if n := p.free(size); n != burst {
			t.Fatalf("%d buffers are kept", n)
		}
		for range 8 {
			<-time.After(trimAfter / 4)
			put(steady)
		}
		synctest.Wait()
		if n := p.free(size); n != steady {
			t.Errorf("%d buffers are kept, %d are in use now and then", n, steady)
		}
		first := p.Get(size)
		first.Release()
		<-time.After(2*trimAfter + trimAfter/2)
		synctest.Wait()
		if n := p.free(size); n != 0 {
			t.Errorf("%d buffers are kept that nobody needs", n)
		}
		if p.trim.on.Load() {
			t.Error("an empty pool is looked at")
		}
		put(1)
		<-time.After(3 * trimAfter)
		synctest.Wait()
		if n := p.free(size); n != 0 || p.trim.on.Load() {
			t.Errorf("%d buffers are kept after a second burst", n)
		}
	})
}

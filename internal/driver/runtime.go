package driver

import (
	"runtime"
	"sync"
	"time"
)

// Runtime is where time passes and goroutines run.
type Runtime interface {
	Now() time.Time
	// AfterFunc calls f in d, from any goroutine.
	AfterFunc(d time.Duration, f func()) Timer
	// Worker makes a worker, which calls step each time it was woken, from a goroutine of
	// its own, soon, but behind what could run at that moment. When step says again it is
	// called once more after the pause.
	Worker(step func() (pause time.Duration, again bool)) Worker
}

// Timer is a timer that AfterFunc has made.
type Timer interface {
	Stop() bool
	Reset(d time.Duration) bool
}

// Worker is what Runtime.Worker makes. Any goroutine may wake it, also after Stop, which
// ends it, is called once, and does not wait for a step under way.
type Worker interface {
	Wake()
	Stop()
}

// System is the Runtime of this process. Work counts its workers until they have ended.
type System struct{ Work *sync.WaitGroup }

// Now is the time.
func (System) Now() time.Time { return time.Now() }

// AfterFunc is time.AfterFunc.
func (System) AfterFunc(d time.Duration, f func()) Timer { return time.AfterFunc(d, f) }

// Worker starts a goroutine.
func (s System) Worker(step func() (time.Duration, bool)) Worker {
	w := worker{wake: make(chan struct{}, 1), over: make(chan struct{})}
	s.Work.Go(func() {
		for w.next() {
			runtime.Gosched() // lets goroutines that can run add to the batch
			for {
				pause, again := step()
				if !again {
					break
				}
				time.Sleep(pause)
			}
		}
	})
	return w
}

// worker wakes a goroutine of System.
type worker struct{ wake, over chan struct{} }

func (w worker) Wake() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

func (w worker) Stop() { close(w.over) }

// next waits for the next Wake, or the end.
func (w worker) next() bool {
	select {
	case <-w.over:
		return false
	default:
	}
	select {
	case <-w.wake:
		return true
	case <-w.over:
		return false
	}
}

//go:build !live

package ipc

import (
	"sync/atomic"
	"testing"
)

// BenchmarkBellPingPong is one wake-up in each direction: two goroutines that
// have nothing to do but ring and wait.
func BenchmarkBellPingPong(b *testing.B) {
	bell, ear, err := NewBell()
	if err != nil {
		b.Fatal(err)
	}
	back, echo, err := NewBell()
	if err != nil {
		b.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ear.Wait() == nil {
			back.Ring()
		}
	}()
	b.ReportAllocs()
	for b.Loop() {
		bell.Ring()
		if err := echo.Wait(); err != nil {
			b.Fatal(err)
		}
	}
	bell.Close()
	<-done
	for _, c := range []interface{ Close() error }{ear, back, echo} {
		c.Close()
	}
}

// BenchmarkBellRing rings for a listener that is awake: the cost of a wake-up
// for who publishes.
func BenchmarkBellRing(b *testing.B) {
	bell, ear, err := NewBell()
	if err != nil {
		b.Fatal(err)
	}
	defer bell.Close()
	defer ear.Close()
	b.ReportAllocs()
	for b.Loop() {
		bell.Ring()
		if err := ear.Wait(); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkFlagLowered is what a side pays per publication while the other is
// awake: one load.
func BenchmarkFlagLowered(b *testing.B) {
	f := Flag{new(atomic.Uint32)}
	b.ReportAllocs()
	for b.Loop() {
		if f.Take() {
			b.Fatal("was raised")
		}
	}
}

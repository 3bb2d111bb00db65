//go:build !live && invariants && amd64

package lockorder

import (
	"fmt"
	"strings"
	"testing"
)

type outer struct{ mu Mutex[outer] }

type inner struct {
	one RWMutex[innerOne]
	two Mutex[innerTwo]
}

type (
	innerOne *inner
	innerTwo *inner
)

type end struct{ mu Mutex[end] }

type unknown struct{ mu Mutex[unknown] }

type ambiguous struct{ a, b Mutex[ambiguous] }

func init() {
	ranks["lockorder.outer.mu"] = 1
	ranks["lockorder.inner.one"] = 2
	ranks["lockorder.inner.two"] = 2
	ranks["lockorder.end.mu"] = leaf
}

// complaint is what f panics with. Locks that f has not given back are forgotten.
func complaint(f func()) (said string) {
	defer func() {
		current().forget()
		if v := recover(); v != nil {
			said = fmt.Sprint(v)
		}
	}()
	f()
	return ""
}

func TestOrder(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		f    func()
		want []string // words of the complaint; none: there is none
	}{
		{"as on the page", func() {
			var o outer
			var i inner
			var e end
			o.mu.Lock()
			i.one.RLock()
			e.mu.Lock()
			o.mu.Unlock()
			i.one.RUnlock()
			e.mu.Unlock()
			i.one.Lock()
			i.one.Unlock()
			o.mu.Lock()
			o.mu.Unlock()
		}, nil},
		{"the other way round", func() {
			var o outer
			var i inner
			i.two.Lock()
			o.mu.Lock()
		}, []string{"take lockorder.outer.mu while", "holds lockorder.inner.two", "TestOrder"}},
		{"behind a lock for reading", func() {
			var o outer
			var i inner
			i.one.RLock()
			o.mu.Lock()
		}, []string{"take lockorder.outer.mu while", "holds lockorder.inner.one"}},
		{"for reading", func() {
			var i inner
			i.two.Lock()
			i.one.RLock()
		}, []string{"take lockorder.inner.one while", "holds lockorder.inner.two"}},
		{"two of a class", func() {
			var a, b outer
			a.mu.Lock()
			b.mu.Lock()
		}, []string{"take lockorder.outer.mu while", "holds lockorder.outer.mu"}},
		{"behind a leaf", func() {
			var e end
			var i inner
			e.mu.Lock()
			i.one.Lock()
		}, []string{"take lockorder.inner.one while", "holds lockorder.end.mu"}},
		{"without waiting", func() {
			var o outer
			var i inner
			i.two.Lock()
			if !o.mu.TryLock() {
				panic("not locked")
			}
			o.mu.Unlock()
			i.two.Unlock()
		}, nil},
		{"behind one that was taken without waiting", func() {
			var o outer
			var i inner
			i.two.TryLock()
			o.mu.Lock()
		}, []string{"holds lockorder.inner.two"}},
		{"given back by another goroutine", func() {
			var o outer
			var i inner
			i.two.Lock()
			done := make(chan struct{})
			go func() {
				defer close(done)
				i.two.Unlock()
			}()
			<-done
			o.mu.Lock()
		}, nil},
		{"of another goroutine", func() {
			var o outer
			var i inner
			i.two.Lock()
			done := make(chan struct{})
			go func() {
				defer close(done)
				o.mu.Lock()
				o.mu.Unlock()
			}()
			<-done
		}, nil},
		{"a lock that is not on the page", func() {
			var u unknown
			u.mu.Lock()
		}, []string{"lockorder.unknown.mu is not in docs/LOCKING.md"}},
		{"two fields of one type", func() {
			var a ambiguous
			a.b.Lock()
		}, []string{"2 fields of lockorder.ambiguous"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			done := make(chan string)
			go func() { done <- complaint(c.f) }()
			said := <-done
			if len(c.want) == 0 && said != "" {
				t.Error(said)
			}
			for _, w := range c.want {
				if !strings.Contains(said, w) {
					t.Errorf("%q is not in: %s", w, said)
				}
			}
		})
	}
}

func TestRecordsAreReused(t *testing.T) {
	var o outer
	if n := testing.AllocsPerRun(100, func() {
		o.mu.Lock()
		o.mu.Unlock()
	}); n != 0 {
		t.Errorf("%v allocations for a lock", n)
	}
}

//go:build invariants && amd64

package lockorder

import (
	"sync"
	"sync/atomic"
)

// Recording is true when locks are recorded, which allocates.
const Recording = true

// Mutex is a lock of struct T.
type Mutex[T any] struct {
	mu     sync.Mutex
	holder *goroutine // guarded by mu
	class  atomic.Pointer[class]
}

// Lock panics if docs/LOCKING.md does not allow the lock here.
func (m *Mutex[T]) Lock() {
	g, c := current(), classIn[T, Mutex[T]](&m.class)
	g.check(c)
	m.mu.Lock()
	m.holder = g
	g.took(m, c)
}

// TryLock waits for nobody, so it may be called in any order.
func (m *Mutex[T]) TryLock() bool {
	if !m.mu.TryLock() {
		return false
	}
	m.holder = current()
	m.holder.took(m, classIn[T, Mutex[T]](&m.class))
	return true
}

// Unlock may be called by another goroutine than Lock.
func (m *Mutex[T]) Unlock() {
	if g := m.holder; g != nil { // nil: not locked, which sync reports
		m.holder = nil
		g.gave(m)
	}
	m.mu.Unlock()
}

// RWMutex is a lock of struct T.
type RWMutex[T any] struct {
	mu     sync.RWMutex
	holder *goroutine // guarded by mu; who has it for writing
	class  atomic.Pointer[class]
}

// Lock panics if docs/LOCKING.md does not allow the lock here.
func (m *RWMutex[T]) Lock() {
	g, c := current(), classIn[T, RWMutex[T]](&m.class)
	g.check(c)
	m.mu.Lock()
	m.holder = g
	g.took(m, c)
}

// Unlock may be called by another goroutine than Lock.
func (m *RWMutex[T]) Unlock() {
	if g := m.holder; g != nil { // nil: not locked, which sync reports
		m.holder = nil
		g.gave(m)
	}
	m.mu.Unlock()
}

// RLock panics if docs/LOCKING.md does not allow the lock here.
func (m *RWMutex[T]) RLock() {
	g, c := current(), classIn[T, RWMutex[T]](&m.class)
	g.check(c)
	m.mu.RLock()
	g.took(m, c)
}

// RUnlock is called by the goroutine that called RLock.
func (m *RWMutex[T]) RUnlock() {
	current().gave(m)
	m.mu.RUnlock()
}

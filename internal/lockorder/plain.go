//go:build !invariants || !amd64

package lockorder

import "sync"

// Recording is true when locks are recorded, which allocates.
const Recording = false

// Mutex is a lock of struct T.
type Mutex[T any] = sync.Mutex

// RWMutex is a lock of struct T.
type RWMutex[T any] = sync.RWMutex

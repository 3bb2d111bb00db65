//go:build !invariants || !amd64

package lockorder

import "sync"

// Mutex is a lock of struct T.
type Mutex[T any] = sync.Mutex

// RWMutex is a lock of struct T.
type RWMutex[T any] = sync.RWMutex

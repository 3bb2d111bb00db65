//go:build !linux

package ipc

import "os"

// Bell, Ear and WatchedEar are the ends of a doorbell; see doorbell_linux.go.
type (
	Bell struct{ f *os.File }
	Ear  struct{ f *os.File }

	// WatchedEar is the waiting end for an event loop; see watchedear_linux.go.
	WatchedEar struct{}
)

// NewBell fails: there is nothing to ring for without shared memory.
func NewBell() (*Bell, *Ear, error) { return nil, nil, errSystem }

// OpenBell closes f and fails.
func OpenBell(f *os.File) (*Bell, error) { _ = f.Close(); return nil, errSystem }

// OpenEar closes f and fails.
func OpenEar(f *os.File) (*Ear, error) { _ = f.Close(); return nil, errSystem }

// Ring does nothing.
func (b *Bell) Ring() {}

// File returns the descriptor.
func (b *Bell) File() *os.File { return b.f }

// Close closes it.
func (b *Bell) Close() error { return b.f.Close() }

// Wait fails.
func (e *Ear) Wait() error { return errSystem }

// Rouse does nothing.
func (e *Ear) Rouse() {}

// File returns the descriptor.
func (e *Ear) File() *os.File { return e.f }

// Close closes it.
func (e *Ear) Close() error { return e.f.Close() }

// NewWatchedBell fails: there is nothing to ring for without shared memory.
func NewWatchedBell() (*Bell, *WatchedEar, error) { return nil, nil, errSystem }

// OpenWatchedEar closes f and fails.
func OpenWatchedEar(f *os.File) (*WatchedEar, error) { _ = f.Close(); return nil, errSystem }

// FD is no descriptor.
func (e *WatchedEar) FD() int { return -1 }

// Take fails.
func (e *WatchedEar) Take() error { return errSystem }

// Duplicate fails.
func (e *WatchedEar) Duplicate() (*os.File, error) { return nil, errSystem }

// Close does nothing.
func (e *WatchedEar) Close() error { return nil }

package ipc

import "sync/atomic"

// The doorbell. A side that is going to sleep says so in a flag, then looks
// once more for work, then waits; a side that has published work reads the flag
// and, if it is set, clears it and rings. Go's atomics are sequentially
// consistent, so of the store of the flag and the store of the index one comes
// first, and its reader sees it: either the sleeper finds the work, or the
// ringer finds the sleeper. TestNoWakeUpIsLost walks through all interleavings.

// Flag is a request of one side to the other, in shared memory: tell me.
type Flag struct{ v *atomic.Uint32 }

// Set raises the flag: look again at what is waited for afterwards.
func (f Flag) Set() { f.v.Store(1) }

// Clear takes it back.
func (f Flag) Clear() { f.v.Store(0) }

// IsSet looks.
func (f Flag) IsSet() bool { return f.v.Load() != 0 }

// Take clears the flag and tells whether it was set. Whoever clears it answers.
func (f Flag) Take() bool { return f.v.Load() != 0 && f.v.Swap(0) != 0 }

package rdstest

import "encoding/binary"

// Skipped is n bytes that the peer's node never sees, behind at of others.
type Skipped struct{ At, N uint64 }

// PutWord stores what a word was.
func PutWord(b []byte, w uint64) { binary.NativeEndian.PutUint64(b, w) }

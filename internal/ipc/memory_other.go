//go:build !linux

package ipc

import (
	"errors"
	"os"
)

// errSystem: sealed shared memory exists on Linux only.
var errSystem = errors.ErrUnsupported

func memfd(string, int) (*os.File, error)      { return nil, errSystem }
func sealWrites(*os.File) error                { return errSystem }
func sealSeals(*os.File) error                 { return errSystem }
func mmap(*os.File, int, bool) ([]byte, error) { return nil, errSystem }
func remap(*os.File, []byte) error             { return errSystem }
func munmap([]byte) error                      { return errSystem }
func discard([]byte)                           {}

// Duplicate returns errors.ErrUnsupported.
func Duplicate(*os.File) (*os.File, error) { return nil, errSystem }

// Touched is 0.
func Touched(*os.File) int64 { return 0 }

//go:build !linux

package statefile

import (
	"errors"
	"os"
)

func open(string) (*os.File, []byte, error) { return nil, nil, errors.ErrUnsupported }
func unlock(*os.File)                       {}
func bootID() string                        { return "" }
func mapFile(*os.File) ([]byte, error)      { return nil, errors.ErrUnsupported }
func allocate(*os.File, int, int) error     { return errors.ErrUnsupported }
func punch(*os.File, int, int) error        { return errors.ErrUnsupported }
func replace([]byte) error                  { return errors.ErrUnsupported }

// ProcessOf names a process by its number alone.
func ProcessOf(pid int) Process { return Process{PID: uint32(max(pid, 0))} }

// Ended is never known.
func (Process) Ended() bool { return false }

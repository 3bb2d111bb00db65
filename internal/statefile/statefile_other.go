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

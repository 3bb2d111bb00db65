//go:build !unix

package bench

import (
	"fmt"
	"syscall"
)

func openJournal(name string) (*journal, error) {
	return nil, fmt.Errorf("%s: files are not mapped here: %w", name, syscall.ENOTSUP)
}

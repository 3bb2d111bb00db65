//go:build !live

package ipc

import (
	"errors"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

func TestASocketThatIsNotThereCannotBeDialed(t *testing.T) {
	t.Parallel()
	if _, err := Dial(filepath.Join(t.TempDir(), "none")); !errors.Is(err, unix.ENOENT) {
		t.Error(err)
	}
}

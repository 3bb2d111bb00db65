package rdstest

import (
	"os"
	"testing"
)

// Dir is a directory until the test ends. Its name is short enough for that of a Unix socket
// in it, as that of testing.T.TempDir is not.
func Dir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "rds")
	Must(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

package control

import (
	"os"
	"path/filepath"
	"testing"
)

type report struct {
	Name  string `json:"name"`
	Count int    `json:"count"`
}

func constant() (any, error) { return report{"node", 7}, nil }

// socket returns a path short enough for sockaddr_un.
func socket(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "ctl")
	must(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	return filepath.Join(dir, "c.sock")
}

package ipc

import (
	"testing"
)

func newBell(t testing.TB) (*Bell, *Ear) {
	t.Helper()
	bell, ear, err := NewBell()
	must(t, err)
	t.Cleanup(func() { _ = bell.Close(); _ = ear.Close() })
	return bell, ear
}

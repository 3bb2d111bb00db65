package bpf

import (
	"os"
	"path/filepath"
	"testing"
)

func TestObjectsAreSmall(t *testing.T) {
	t.Parallel()
	objects, err := filepath.Glob("*.o")
	if err != nil || len(objects) == 0 {
		t.Fatalf("%d objects, %v", len(objects), err)
	}
	for _, o := range objects {
		if s, err := os.Stat(o); err != nil || s.Size() > 64<<10 {
			t.Errorf("%s: %d octets, at most 64 KiB; %v", o, s.Size(), err)
		}
	}
}

package main

import (
	"os"
	"path/filepath"
	"testing"
)

// sumOf notes outcomes and adds them up.
func sumOf(t *testing.T, list ...outcome) outcome {
	t.Helper()
	file := filepath.Join(t.TempDir(), "tally")
	for _, o := range list {
		if err := o.note(file); err != nil {
			t.Fatal(err)
		}
	}
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	sum, err := addUp(f)
	if err != nil {
		t.Fatal(err)
	}
	return sum
}

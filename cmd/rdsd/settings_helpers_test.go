package main

import (
	"os"
	"path/filepath"
	"testing"
)

func write(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "rdsd.toml")
	must(t, os.WriteFile(file, []byte(text), 0o600))
	return file
}

// serving is a plan with these settings.
func serving(t *testing.T, text string) plan {
	t.Helper()
	s := defaults()
	s.Control, s.Socket = "/run/c.sock", "/run/a.sock"
	must(t, s.load(write(t, "listen = ['10.0.0.1']\n"+text)))
	p, err := s.plan()
	must(t, err)
	return p
}

const unitDir = "../../dist/systemd"

const tmpfile = "../../dist/tmpfiles.d/rds.conf"

package ipc

import (
	"os"
	"testing"
)

func TestThePathComesFromTheEnvironmentFirst(t *testing.T) {
	t.Setenv("XDG_RUNTIME_DIR", "/run/user/1")
	t.Setenv(EnvPath, "/tmp/mine")
	if f, s := FindPath(), ServePath(); f != "/tmp/mine" || s != "/tmp/mine" {
		t.Errorf("%s and %s", f, s)
	}
	t.Setenv(EnvPath, "")
	serve := "/run/user/1/rds.sock"
	if os.Geteuid() == 0 {
		serve = systemPath
	}
	if s := ServePath(); s != serve {
		t.Errorf("served at %s, want %s", s, serve)
	}
	find := "/run/user/1/rds.sock"
	if _, err := os.Lstat(systemPath); err == nil {
		find = systemPath
	}
	if f := FindPath(); f != find {
		t.Errorf("looked for at %s, want %s", f, find)
	}
	t.Setenv("XDG_RUNTIME_DIR", "")
	if f := FindPath(); f != systemPath {
		t.Errorf("looked for at %s without a user's directory", f)
	}
	if os.Geteuid() != 0 && ServePath() != "" {
		t.Errorf("served at %s", ServePath())
	}
}

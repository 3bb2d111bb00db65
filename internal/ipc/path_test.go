//go:build !live

package ipc

import (
	"os"
	"path/filepath"
	"testing"
)

// paths checks what FindPath and ServePath say.
func paths(t *testing.T, find string, has bool, serve string) {
	t.Helper()
	if f, h := FindPath(); f != find || h != has {
		t.Errorf("looked for at %s, %v; want %s, %v", f, h, find, has)
	}
	if s := ServePath(); s != serve {
		t.Errorf("served at %s, want %s", s, serve)
	}
}

func TestThePathComesFromTheEnvironmentFirst(t *testing.T) {
	user, dir := t.TempDir(), t.TempDir()
	t.Setenv("XDG_RUNTIME_DIR", user)
	t.Setenv(envDir, dir)
	t.Setenv(envPath, "/tmp/mine")
	paths(t, "/tmp/mine", true, "/tmp/mine")
	t.Setenv(envPath, "none")
	paths(t, "none", false, "none")
	t.Setenv(envPath, "")
	paths(t, dir+"/rds.sock", true, dir+"/rds.sock")
	t.Setenv(envDir, dir+"/rds")
	paths(t, dir+"/rds/rds.sock", false, dir+"/rds/rds.sock")
}

// A runtime directory is what says that there is a daemon; not its socket.
func TestTheDirectorySaysThatThereIsADaemon(t *testing.T) {
	n := attachPath
	dir, user := t.TempDir(), t.TempDir()
	n.System = filepath.Join(dir, "rds", "rds.sock")
	mine := filepath.Join(user, "rds", "rds.sock")
	t.Setenv(envPath, "")
	t.Setenv(envDir, "")
	find := func(what, want string, has bool) {
		t.Helper()
		if p, h := n.Find(); p != want || h != has {
			t.Errorf("%s: %s, %v; want %s, %v", what, p, h, want, has)
		}
	}
	t.Setenv("XDG_RUNTIME_DIR", "")
	find("no directory", n.System, false)
	t.Setenv("XDG_RUNTIME_DIR", user)
	find("no directory, and none of the user's", mine, false)
	must(t, n.MakeDir(mine))
	find("the user's directory", mine, true)
	must(t, n.MakeDir(n.System))
	find("both directories", n.System, true)
	if err := n.MakeDir(n.System); err != nil {
		t.Errorf("the directory is there: %v", err)
	}
	if info, err := os.Stat(filepath.Dir(n.System)); err != nil || info.Mode().Perm() != 0o755 {
		t.Errorf("%v, %v: nobody else may look into it", info.Mode(), err)
	}
	foreign := filepath.Join(t.TempDir(), "sub", "rds.sock")
	must(t, n.MakeDir(foreign))
	if _, err := os.Stat(filepath.Dir(foreign)); err == nil {
		t.Error("a directory was made that is no runtime directory")
	}
}

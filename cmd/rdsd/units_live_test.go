//go:build live

package main

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// systemd itself makes the directory.
func TestSystemdMakesTheDirectory(t *testing.T) {
	t.Parallel()
	tool, err := exec.LookPath("systemd-tmpfiles")
	if err != nil {
		t.Skipf("needs systemd-tmpfiles (Debian: systemd), to make the directory: %v", err)
	}
	if os.Geteuid() != 0 {
		t.Skip("needs root, to make a directory that root owns")
	}
	file, err := filepath.Abs(tmpfile)
	must(t, err)
	root := t.TempDir()
	if out, err := exec.Command(tool, "--create", "--root="+root, file).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	fi, err := os.Stat(filepath.Join(root, "run/rds"))
	must(t, err)
	if st := fi.Sys().(*syscall.Stat_t); fi.Mode() != fs.ModeDir|0o755 || st.Uid != 0 || st.Gid != 0 {
		t.Errorf("%v of %d:%d", fi.Mode(), st.Uid, st.Gid)
	}
}

// systemd itself finds nothing wrong with the units.
func TestSystemdVerifiesUnits(t *testing.T) {
	t.Parallel()
	tool, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skipf("needs systemd-analyze (Debian: systemd), to verify the units: %v", err)
	}
	tmp := t.TempDir()
	var files []string
	for _, name := range []string{"rdsd.service", "rdsd.socket"} {
		text, err := os.ReadFile(filepath.Join(unitDir, name))
		must(t, err)
		// The binaries are where this test has built it.
		at := strings.NewReplacer("/usr/local/bin/rdsd", bin.Path("rdsd"), "/usr/local/bin/rdsbpf", bin.Path("rdsbpf")).Replace(string(text))
		file := filepath.Join(tmp, name)
		must(t, os.WriteFile(file, []byte(at), 0o644))
		files = append(files, file)
	}
	verify := func(files ...string) (string, error) {
		out, err := exec.Command(tool, append([]string{"verify", "--man=no"}, files...)...).CombinedOutput()
		return string(out), err
	}
	if out, err := verify(files...); err != nil || out != "" {
		t.Errorf("%v: %s", err, out)
	}
	// And would find something.
	bad := filepath.Join(tmp, "bad.service")
	must(t, os.WriteFile(bad, []byte("[Service]\nType=notfy\nExecStart="+bin.Path("rdsd")+"\n"), 0o644))
	if out, err := verify(bad); err == nil && out == "" {
		t.Error("a unit with a mistake passes")
	}
}

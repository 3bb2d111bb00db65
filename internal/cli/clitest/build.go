package clitest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
)

// Bin is a directory with commands.
type Bin string

// Path is the binary of the command name.
func (b Bin) Path(name string) string { return filepath.Join(string(b), name) }

// Main builds the packages, such as "./cmd/rdsd" from the root of the module,
// tells where, runs the tests of m and returns what os.Exit should get. Pure tests start no
// commands, so it builds none for them.
func Main(m *testing.M, at *Bin, packages ...string) int {
	if !live {
		return m.Run()
	}
	dir, err := os.MkdirTemp("", "bin")
	if err != nil {
		return fail(err)
	}
	defer os.RemoveAll(dir)
	root, err := moduleRoot()
	if err != nil {
		return fail(err)
	}
	build := exec.Command("go", append([]string{"build", "-o", dir + string(filepath.Separator)}, packages...)...)
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		return fail(fmt.Errorf("%v: %w\n%s", build.Args, err, out))
	}
	*at = Bin(dir)
	return m.Run()
}

func fail(err error) int {
	fmt.Fprintln(os.Stderr, err)
	return 1
}

// moduleRoot is where go.mod is, from the package under test upwards.
func moduleRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		up := filepath.Dir(dir)
		if up == dir {
			return "", fmt.Errorf("no go.mod above the package")
		}
		dir = up
	}
}

// NeedLoopback skips the test where only one address of 127.0.0.0/8 exists.
func NeedLoopback(t *testing.T) {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skipf("needs Linux, or a second loopback address: on %s 127.0.0.2 has to be configured", runtime.GOOS)
	}
}

//go:build interop

package interop

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
)

// siwSource is where a kernel's source has the driver.
const siwSource = "drivers/infiniband/sw/siw"

// source returns the archive with the kernel's source that Debian's package
// linux-source-VERSION installs.
func (k kernel) source() string {
	version := strings.SplitN(k.release(), ".", 3)
	version[1] = digits.FindString(version[1])
	return "/usr/src/linux-source-" + version[0] + "." + version[1] + ".tar.xz"
}

// headers returns the directory to build modules against.
func (k kernel) headers() string { return filepath.Join(k.modules, "build") }

func (k kernel) release() string { return filepath.Base(k.modules) }

// siwModule returns the soft-iWARP driver for a kernel. Debian's kernels leave
// it out, its source is theirs; it is built once, and kept under the user's
// cache directory for as long as the source package stays the same.
func siwModule(k kernel) (string, error) {
	source, err := os.Stat(k.source())
	if err != nil {
		return "", err
	}
	dir, err := os.UserCacheDir()
	if err != nil { // a user without a home keeps nothing
		dir = buildDir
	}
	module := filepath.Join(dir, "rds-interop",
		fmt.Sprintf("%s-%x-%x", k.release(), source.Size(), source.ModTime().Unix()), "siw.ko")
	if _, err := os.Stat(module); err == nil {
		return module, nil
	}
	if err := os.MkdirAll(filepath.Dir(module), 0o755); err != nil {
		return "", err
	}
	work, err := os.MkdirTemp(buildDir, "siw-")
	if err != nil {
		return "", err
	}
	if err := extract(k.source(), siwSource, work); err != nil {
		return "", fmt.Errorf("%s: %w", k.source(), err)
	}
	if err := runTool("make", "-s", "-C", k.headers(), "M="+work, "CONFIG_RDMA_SIW=m", "modules"); err != nil {
		return "", err
	}
	// A file appears under its name when it is complete.
	if err := runTool("strip", "--strip-debug", "-o", module+".new", filepath.Join(work, "siw.ko")); err != nil {
		return "", err
	}
	return module, os.Rename(module+".new", module)
}

// extract unpacks the files of one directory of a source archive. It stops
// behind them: all of the archive takes many seconds.
func extract(archive, dir, to string) error {
	xz := exec.Command("xz", "-dc", archive)
	out, err := xz.StdoutPipe()
	if err != nil {
		return err
	}
	if err := xz.Start(); err != nil {
		return err
	}
	defer func() {
		_ = xz.Process.Kill()
		_ = xz.Wait()
	}()
	found := 0
	for in := tar.NewReader(out); ; {
		h, err := in.Next()
		switch {
		case errors.Is(err, io.EOF):
			if found == 0 {
				return fmt.Errorf("no files in %s", dir)
			}
			return nil
		case err != nil:
			return err
		}
		_, name, _ := strings.Cut(h.Name, "/")
		if path.Dir(name) != dir || h.Typeflag != tar.TypeReg {
			if found > 0 { // directories are not scattered
				return nil
			}
			continue
		}
		found++
		body, err := io.ReadAll(in)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(to, path.Base(name)), body, 0o600); err != nil {
			return err
		}
	}
}

// moduleDeps lists what a module file says it depends on.
func moduleDeps(module string) ([]string, error) {
	out, err := exec.Command("modinfo", "-F", "depends", module).Output()
	if err != nil {
		return nil, fmt.Errorf("modinfo: %w", err)
	}
	return strings.FieldsFunc(string(out), func(r rune) bool { return r == ',' || r == '\n' }), nil
}

// runTool runs a program whose output matters only when it fails.
func runTool(name string, args ...string) error {
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, out)
	}
	return nil
}

//go:build interop

package interop

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// guestModules are what the guest loads, with what they depend on.
var guestModules = []string{"virtio_pci", "virtio_net", "virtio_console", "rds_tcp", "tcp_diag"}

// kernel is a kernel installed on this machine.
type kernel struct {
	image   string // /boot/vmlinuz-RELEASE
	modules string // /lib/modules/RELEASE
}

// version is the two numbers that name a series of kernels, such as 6.1.
func (k kernel) version() string {
	numbers := digits.FindAllString(k.release(), 2)
	return strings.Join(numbers, ".")
}

// findKernels returns the installed kernels that have RDS over TCP, the newest of each version,
// the oldest version first; or only the one that RDS_INTEROP_KERNEL names.
func findKernels() ([]kernel, error) {
	images, err := filepath.Glob("/boot/vmlinuz-*")
	if err != nil {
		return nil, err
	}
	if name := os.Getenv("RDS_INTEROP_KERNEL"); name != "" {
		images = []string{name}
	}
	slices.SortFunc(images, compareVersions)
	var list []kernel
	for _, image := range images {
		k := kernel{image: image, modules: "/lib/modules/" + strings.TrimPrefix(filepath.Base(image), "vmlinuz-")}
		if deps, err := readDeps(k); err != nil || deps["rds_tcp"] == nil {
			continue
		}
		if last := len(list) - 1; last >= 0 && list[last].version() == k.version() {
			list[last] = k
		} else {
			list = append(list, k)
		}
	}
	if len(list) == 0 {
		return nil, errors.New("no kernel in /boot has the module rds_tcp (Debian: linux-image-amd64)")
	}
	return list, nil
}

// findKernel returns the kernel that all tests run on: of several the one of the oldest
// version, which is Debian's own where a newer one was installed beside it.
func findKernel() (kernel, error) {
	list, err := findKernels()
	if err != nil {
		return kernel{}, err
	}
	return list[0], nil
}

var digits = regexp.MustCompile(`\d+`)

// compareVersions compares the numbers in two names, in order.
func compareVersions(a, b string) int {
	numbers := func(s string) (list []int) {
		for _, d := range digits.FindAllString(s, -1) {
			n, _ := strconv.Atoi(d)
			list = append(list, n)
		}
		return list
	}
	return cmp.Or(slices.Compare(numbers(a), numbers(b)), strings.Compare(a, b))
}

// moduleName turns a path of modules.dep into the module's name.
func moduleName(path string) string {
	name, _, _ := strings.Cut(filepath.Base(path), ".ko")
	return strings.ReplaceAll(name, "-", "_")
}

// readDeps returns for each module its path and those it depends on.
func readDeps(k kernel) (map[string][]string, error) {
	b, err := os.ReadFile(filepath.Join(k.modules, "modules.dep"))
	if err != nil {
		return nil, err
	}
	deps := make(map[string][]string)
	for line := range strings.Lines(string(b)) {
		path, rest, ok := strings.Cut(line, ":")
		if ok {
			deps[moduleName(path)] = append([]string{path}, strings.Fields(rest)...)
		}
	}
	return deps, nil
}

// moduleOrder lists the files of the modules and of those they depend on, in the
// order of loading. Modules that the kernel has built in are left out.
func moduleOrder(k kernel, names []string) ([]string, error) {
	deps, err := readDeps(k)
	if err != nil {
		return nil, err
	}
	builtin, err := os.ReadFile(filepath.Join(k.modules, "modules.builtin"))
	if err != nil {
		return nil, err
	}
	builtinNames := make(map[string]bool)
	for path := range strings.FieldsSeq(string(builtin)) {
		builtinNames[moduleName(path)] = true
	}
	var order []string
	var add func(name string) error
	add = func(name string) error {
		paths := deps[name]
		if paths == nil {
			if builtinNames[name] {
				return nil
			}
			return fmt.Errorf("kernel %s has no module %s", k.image, name)
		}
		for _, path := range paths[1:] {
			if err := add(moduleName(path)); err != nil {
				return err
			}
		}
		if file := filepath.Join(k.modules, paths[0]); !slices.Contains(order, file) {
			order = append(order, file)
		}
		return nil
	}
	for _, name := range names {
		if err := add(name); err != nil {
			return nil, err
		}
	}
	return order, nil
}

// decompressors are the programs that decompress modules, by the end of the file's name.
var decompressors = map[string]string{".xz": "xz", ".zst": "zstd", ".gz": "gzip"}

// missingTool names the program that is not there to decompress the kernel's modules, "" if
// they can be read.
func (k kernel) missingTool() string {
	deps, err := readDeps(k)
	if err != nil {
		return err.Error()
	}
	tool := decompressors[filepath.Ext(deps["rds_tcp"][0])]
	if _, err := exec.LookPath(tool); tool != "" && err != nil {
		return "the program " + tool + " for the modules of " + k.image
	}
	return ""
}

// readModule returns a module, decompressed.
func readModule(path string) ([]byte, error) {
	if tool := decompressors[filepath.Ext(path)]; tool != "" {
		return exec.Command(tool, "-dc", path).Output()
	}
	return os.ReadFile(path)
}

// buildImage writes an initial file system: modules in the order of loading, and
// the files of this machine whose places there are the keys of a map. The guest
// program is /init.
func buildImage(modules []string, files map[string]string, out string) error {
	var b bytes.Buffer
	w := &cpioWriter{out: &b, dirs: make(map[string]bool)}
	for _, dir := range []string{"/proc", "/sys", "/dev", "/tmp", "/modules"} {
		w.addDir(dir)
	}
	w.add("/dev/console", modeChar|0o600, 5, 1, nil)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		body, err := os.ReadFile(files[name])
		if err != nil {
			return err
		}
		w.addDir(filepath.Dir(name))
		w.add(name, modeFile|0o755, 0, 0, body)
	}
	var names []string
	for _, path := range modules {
		body, err := readModule(path)
		if err != nil {
			return err
		}
		name := moduleName(path) + ".ko"
		names = append(names, name)
		w.add("/modules/"+name, modeFile|0o644, 0, 0, body)
	}
	w.add("/modules/order", modeFile|0o644, 0, 0, []byte(strings.Join(names, "\n")))
	w.end()
	return os.WriteFile(out, b.Bytes(), 0o600)
}

// File types of stat(2).
const (
	modeDir  = 0o040000
	modeChar = 0o020000
	modeFile = 0o100000
)

// cpioWriter writes the "newc" archive that Linux takes as an initial file
// system (Documentation/driver-api/early-userspace/buffer-format.rst). It does
// not compress: an emulated machine takes longer to unpack than to read.
type cpioWriter struct {
	out   *bytes.Buffer
	inode int
	dirs  map[string]bool // directories that are there
}

// addDir adds a directory and those it is in, unless they are there.
func (w *cpioWriter) addDir(name string) {
	if name == "/" || w.dirs[name] {
		return
	}
	w.addDir(filepath.Dir(name))
	w.dirs[name] = true
	w.add(name, modeDir|0o755, 0, 0, nil)
}

func (w *cpioWriter) add(name string, mode, major, minor int, body []byte) {
	name = strings.TrimPrefix(name, "/")
	w.inode++
	_, _ = fmt.Fprintf(w.out, "070701%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x",
		w.inode, mode, 0, 0, 1, 0, len(body), 0, 0, major, minor, len(name)+1, 0)
	_, _ = io.WriteString(w.out, name+"\x00")
	w.pad()
	_, _ = w.out.Write(body)
	w.pad()
}

func (w *cpioWriter) end() { w.add("TRAILER!!!", 0, 0, 0, nil) }

func (w *cpioWriter) pad() {
	for w.out.Len()%4 != 0 {
		_ = w.out.WriteByte(0)
	}
}

//go:build interop

package interop

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"sync"
)

// siwModules are what a guest with verbs loads before siw, besides what that
// names itself. Of CRC32C it has only the wish, by the name of an algorithm.
var siwModules = []string{"virtio_pci", "virtio_net", "virtio_console", "tcp_diag", "crc32c_generic", "rdma_ucm", "ib_uverbs"}

// siwPrograms are Debian's programs that the guest has, and their packages.
var siwPrograms = map[string]string{
	"rdma":         "iproute2",
	"rping":        "rdmacm-utils",
	"ib_send_bw":   "perftest",
	"ib_send_lat":  "perftest",
	"ib_write_bw":  "perftest",
	"ib_write_lat": "perftest",
	"ib_read_bw":   "perftest",
	"ib_read_lat":  "perftest",
}

// verbsProgram is the guest's program for single verbs; see verbs/verbs.c.
const verbsProgram = "verbs"

// siwDriver is what libibverbs reads to know of siw, and siwProvider the
// library it then loads; the number is that of the interface between the two.
const (
	siwDriver   = "/etc/libibverbs.d/siw.driver"
	siwProvider = "/usr/lib/*/libibverbs/libsiw-rdmav*.so"
)

// unwindLibrary is loaded by the C library itself when a thread ends, and
// bufferLibrary, told by its environment, has programs pass on each line when
// they print it, into a pipe too.
const (
	unwindLibrary = "/lib/*/libgcc_s.so.1"
	bufferLibrary = "/usr/libexec/coreutils/libstdbuf.so"
)

var siwEnv = []string{"LD_PRELOAD=" + bufferLibrary, "_STDBUF_O=L"}

// missingSIW says what the tests with siw lack on this machine, "" if nothing.
func missingSIW() string {
	k, err := findKernel()
	if err != nil {
		return err.Error()
	}
	tools := maps.Clone(siwPrograms)
	maps.Copy(tools, map[string]string{
		"gcc": "gcc", "make": "make", "xz": "xz-utils", "strip": "binutils", "modinfo": "kmod",
	})
	for _, tool := range slices.Sorted(maps.Keys(tools)) {
		if _, err := exec.LookPath(tool); err != nil {
			return fmt.Sprintf("the program %s (Debian: %s)", tool, tools[tool])
		}
	}
	for _, file := range [][2]string{
		{k.source(), "linux-source of the kernel's version"},
		{k.headers(), "linux-headers-" + k.release()},
		{siwDriver, "ibverbs-providers"},
		{siwProvider, "ibverbs-providers"},
		{unwindLibrary, "libgcc-s1"},
		{bufferLibrary, "coreutils"},
		{"/usr/include/stdio.h", "libc6-dev"},
		{"/usr/include/infiniband/verbs.h", "libibverbs-dev"},
		{"/usr/include/rdma/rdma_cma.h", "librdmacm-dev"},
	} {
		if match, err := filepath.Glob(file[0]); err != nil || len(match) == 0 {
			return fmt.Sprintf("the file %s (Debian: %s)", file[0], file[1])
		}
	}
	return ""
}

var siwOnce = sync.OnceValues(buildSIW)

// buildSIW makes the image of a guest with siw and Debian's programs on it.
func buildSIW() (built, error) {
	k, err := findKernel()
	if err != nil {
		return built{}, err
	}
	siw, err := siwModule(k)
	if err != nil {
		return built{}, err
	}
	deps, err := moduleDeps(siw)
	if err != nil {
		return built{}, err
	}
	modules, err := moduleOrder(k, append(siwModules, deps...))
	if err != nil {
		return built{}, err
	}
	files, err := siwFiles()
	if err != nil {
		return built{}, err
	}
	// Warnings show, and a fault ends the machine, so that no test waits for
	// it. That a processor got no time is the emulation's fault.
	b := built{
		kernel: k, image: filepath.Join(buildDir, "siw.cpio"), stack: "none", watch: true,
		options: "loglevel=5 oops=panic nosoftlockup rcupdate.rcu_cpu_stall_suppress=1",
	}
	return b, buildImage(append(modules, siw), files, b.image)
}

// siwFiles collects what the guest's file system has, by its place there.
func siwFiles() (map[string]string, error) {
	guest, err := initOnce()
	if err != nil {
		return nil, err
	}
	verbs := filepath.Join(buildDir, verbsProgram)
	if err := runTool("gcc", "-O2", "-Wall", "-Wextra", "-Werror", "-o", verbs, "verbs/verbs.c", "verbs/conn.c", "-lrdmacm", "-libverbs"); err != nil {
		return nil, err
	}
	files := map[string]string{"/init": guest, "/bin/" + verbsProgram: verbs, siwDriver: siwDriver}
	for name := range siwPrograms {
		if files["/bin/"+name], err = exec.LookPath(name); err != nil {
			return nil, err
		}
	}
	for _, pattern := range []string{siwProvider, unwindLibrary, bufferLibrary} {
		match, err := filepath.Glob(pattern)
		if err != nil || len(match) == 0 {
			return nil, errors.Join(err, fmt.Errorf("no %s", pattern))
		}
		files[match[0]] = match[0]
	}
	return files, addLibraries(files)
}

// libraryPath finds the paths in what ldd prints.
var libraryPath = regexp.MustCompile(`(?m)(/\S+) \(0x`)

// addLibraries adds the shared libraries that the programs load, where these
// look for them.
func addLibraries(files map[string]string) error {
	for _, file := range slices.Collect(maps.Values(files)) {
		if filepath.Base(file) == filepath.Base(siwDriver) {
			continue
		}
		// It fails for a static program.
		out, err := exec.Command("ldd", file).Output()
		var exit *exec.ExitError
		if err != nil && !errors.As(err, &exit) {
			return err
		}
		for _, match := range libraryPath.FindAllSubmatch(out, -1) {
			library := string(match[1])
			if _, err := os.Stat(library); err != nil {
				return err
			}
			files[library] = library
		}
	}
	return nil
}

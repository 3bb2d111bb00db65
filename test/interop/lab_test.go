//go:build interop

package interop

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/rds-go/rds/test/interop/peer"
)

// Everything lives in one network. Our nodes take addresses below or above the
// guest's: the smaller address connects (net/rds/tcp_connect.c).
var (
	network    = netip.MustParsePrefix("10.77.0.0/16")
	guestAddr  = netip.MustParseAddr("10.77.100.1")
	otherGuest = netip.MustParseAddr("10.77.100.2")
	nobodyAddr = netip.MustParseAddr("10.77.250.1") // nobody's, nor is the next one
)

const namespacePrefix = "rds-interop-"

// labs numbers the labs of this process.
var labs atomic.Int64

// buildDir holds what the tests build, once each. TestMain removes it.
var buildDir string

var (
	filesOnce = sync.OnceValues(guestFiles)
	guestOnce = sync.OnceValues(func() (built, error) {
		k, err := findKernel()
		if err != nil {
			return built{}, err
		}
		return buildGuest(k)
	})
	initOnce = sync.OnceValues(func() (string, error) { return goTool("guest", "build", "-ldflags=-s -w", "./guest") })
	nodeOnce = sync.OnceValues(func() (string, error) { return goTool("node", "build", "./node") })

	daemonOnce = sync.OnceValues(func() (string, error) { return goTool("rdsd", "build", "../../cmd/rdsd") })
)

// built is what a guest boots.
type built struct {
	kernel  kernel
	image   string // initial file system of the guest
	options string // on its command line
	stack   string // what its program runs on, if a test does not say; see its newStack
	watch   bool   // a complaint of the kernel on the console fails the test
}

// buildGuest makes what a guest with RDS boots on a kernel.
func buildGuest(k kernel) (built, error) {
	files, err := filesOnce()
	if err != nil {
		return built{}, err
	}
	b := built{kernel: k, image: filepath.Join(buildDir, "guest-"+k.release()+".cpio"), options: "quiet"}
	modules, err := moduleOrder(k, guestModules)
	if err != nil {
		return built{}, err
	}
	return b, buildImage(modules, files, b.image)
}

// guestFiles makes the programs of a guest with RDS, by their places there.
func guestFiles() (map[string]string, error) {
	guest, err := initOnce()
	if err != nil {
		return nil, err
	}
	files := map[string]string{"/init": guest}
	for name, pkg := range map[string]string{peer.TestAFRDS: "../../internal/afrds", peer.TestConformance: "../../internal/conformance"} {
		if files[name], err = goTool(filepath.Base(name), "test", "-c", "-tags=live", "-ldflags=-s -w", pkg); err != nil {
			return nil, err
		}
	}
	files[ebpfProbe], err = goTool("ebpfprobe", "build", "-ldflags=-s -w", "./ebpfprobe")
	return files, err
}

// goTool has the go command build a static program and returns its path.
func goTool(name string, args ...string) (string, error) {
	out := filepath.Join(buildDir, name)
	args = slices.Insert(args, len(args)-1, "-o", out)
	cmd := exec.Command("go", args...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if text, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go %s: %w\n%s", strings.Join(args, " "), err, text)
	}
	return out, nil
}

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "rds-interop-")
	if err != nil {
		panic(err)
	}
	buildDir = dir
	code := m.Run()
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// missing says what the tests lack on this machine, "" if nothing.
func missing() string {
	if os.Getuid() != 0 {
		return "root"
	}
	for _, tool := range []string{"qemu-system-x86_64", "ip"} {
		if _, err := exec.LookPath(tool); err != nil {
			return "the program " + tool
		}
	}
	if _, err := os.Stat("/dev/net/tun"); err != nil {
		return "/dev/net/tun"
	}
	k, err := findKernel()
	if err != nil {
		return err.Error()
	}
	return k.missingTool()
}

// lab is a network namespace with a bridge and a tap device for each guest.
type lab struct {
	built
	owner *testing.T // when it ends, everything does
	netns string
	logs  string // directory
	ports uint16 // how many servers have had one of their own; see newServer
}

// newLab makes the network for guests with RDS and has it removed when the test
// ends. It skips the test where the machine cannot run it.
func newLab(t *testing.T, taps int) *lab {
	t.Helper()
	return newLabWith(t, taps, missing, guestOnce)
}

// newLabWith is newLab for the guests that build makes.
func newLabWith(t *testing.T, taps int, missing func() string, build func() (built, error)) *lab {
	t.Helper()
	if what := missing(); what != "" {
		t.Skip("interop: needs " + what)
	}
	b, err := build()
	must(t, err)
	sweep()
	l := &lab{built: b, owner: t, netns: fmt.Sprintf("%s%d-%d", namespacePrefix, os.Getpid(), labs.Add(1)), logs: os.Getenv("RDS_INTEROP_LOGS")}
	if l.logs == "" {
		l.logs = t.TempDir()
	}
	l.ip(t, "netns", "add", l.netns)
	t.Cleanup(func() { l.ip(t, "netns", "del", l.netns) })
	l.inside(t, "link", "set", "lo", "up")
	l.inside(t, "link", "add", "br0", "type", "bridge")
	l.inside(t, "link", "set", "br0", "up")
	for i := range taps {
		tap := "tap" + strconv.Itoa(i)
		l.inside(t, "tuntap", "add", tap, "mode", "tap")
		l.inside(t, "link", "set", tap, "master", "br0", "up")
	}
	return l
}

// addAddr gives our side of the bridge an address, if it has not got it.
func (l *lab) addAddr(t *testing.T, a netip.Addr) {
	t.Helper()
	l.inside(t, "addr", "replace", netip.PrefixFrom(a, network.Bits()).String(), "dev", "br0")
}

func (l *lab) ip(t *testing.T, args ...string) {
	t.Helper()
	if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
		t.Fatalf("ip %s: %v: %s", strings.Join(args, " "), err, out)
	}
}

func (l *lab) inside(t *testing.T, args ...string) {
	t.Helper()
	l.ip(t, append([]string{"-n", l.netns}, args...)...)
}

// logFile makes a file for the output of a process.
func (l *lab) logFile(t *testing.T, prefix string) string {
	t.Helper()
	f, err := os.CreateTemp(l.logs, prefix)
	must(t, err)
	_ = f.Close()
	return f.Name()
}

// command is a program that will run in the namespace and die with the test
// process.
func (l *lab) command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command("ip", append([]string{"netns", "exec", l.netns, name}, args...)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return cmd
}

// sweep removes namespaces that test processes killed half-way left behind.
func sweep() {
	names, err := filepath.Glob("/run/netns/" + namespacePrefix + "*")
	if err != nil {
		return
	}
	for _, name := range names {
		name = filepath.Base(name)
		id, _, _ := strings.Cut(strings.TrimPrefix(name, namespacePrefix), "-")
		pid, err := strconv.Atoi(id)
		if err == nil && errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
			_ = exec.Command("ip", "netns", "del", name).Run()
		}
	}
}

// must ends a test with an error, unless that is nil.
func must(t testing.TB, err error) {
	if err != nil {
		t.Helper()
		t.Fatal(err)
	}
}

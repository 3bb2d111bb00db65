//go:build live

package ebpf

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"github.com/rds-go/rds/internal/netlab"
)

// The test binary runs itself as another process, which does one job and tells how it went.
const (
	jobVariable = "RDS_TEST_ADMISSION"
	nobody      = 65534
)

// job is what the other process does.
type job struct {
	Do      string // load, own, unprivileged
	Options AdmissionOptions
	Set     []netip.Prefix
}

// expect prints a line with "BAD" in it unless an error is the one that is expected.
func expect(what string, err error, want ...error) {
	ok := false
	for _, w := range want {
		ok = ok || w == nil && err == nil || w != nil && errors.Is(err, w)
	}
	verdict := "ok"
	if !ok || err != nil && (strings.Contains(err.Error(), "\n") || strings.Contains(err.Error(), "MEMLOCK")) {
		verdict = "BAD"
	}
	fmt.Printf("%s: %s: %v\n", verdict, what, err)
}

// own changes the list of a pinned filter and tries to get rid of the filter.
func (j job) own() {
	dir := j.Options.Dir
	a, err := OpenAdmission(dir)
	expect("open", err, nil)
	if err != nil {
		return
	}
	expect("set", a.Set(j.Set), nil)
	got, err := a.Allow()
	expect("allow", err, nil)
	if fmt.Sprint(got) != fmt.Sprint(j.Set) {
		fmt.Println("BAD: list", got)
	}
	st, err := a.Status()
	expect("status", err, nil)
	if st.Prefixes != len(j.Set) || len(st.Hooks) == 0 {
		fmt.Println("BAD: status", st)
	}
	_, err = a.Counters()
	expect("counters", err, nil)
	_, err = os.ReadDir(filepath.Join(dir, linksDir))
	expect("read the directory of links", err, os.ErrPermission)
	for _, name := range strings.Fields(os.Getenv("RDS_TEST_LINKS")) {
		_, err := link.LoadPinnedLink(filepath.Join(dir, linksDir, name), nil)
		expect("open the link "+name, err, os.ErrPermission)
		_, err = link.LoadPinnedLink(filepath.Join(dir, linksDir, name), &ebpfLoadReadOnly)
		expect("open the link for reading "+name, err, os.ErrPermission)
		expect("unlink the link "+name, os.Remove(filepath.Join(dir, linksDir, name)), os.ErrPermission, unix.EROFS)
	}
	expect("chmod the directory of links", os.Chmod(filepath.Join(dir, linksDir), 0o777), os.ErrPermission, unix.EROFS)
	expect("chown the directory of links", os.Chown(filepath.Join(dir, linksDir), os.Geteuid(), 0), os.ErrPermission, unix.EROFS)
	if handover := os.Getenv("RDS_TEST_HANDOVER"); handover != "" {
		_, err = ebpf.LoadPinnedMap(filepath.Join(handover, mapFilter), nil)
		expect("open what a handover asks", err, os.ErrPermission)
		_, err = ebpf.LoadPinnedMap(filepath.Join(handover, mapFilter), &ebpf.LoadPinOptions{ReadOnly: true})
		expect("open what a handover asks for reading", err, os.ErrPermission)
	} else {
		expect("move the directory of links", os.Rename(filepath.Join(dir, linksDir), filepath.Join(dir, "x")), os.ErrPermission, unix.EROFS)
		expect("unlink the list", os.Remove(filepath.Join(dir, mapList)), os.ErrPermission, unix.EROFS)
	}
	expect("remove the mount", unix.Unmount(filepath.Dir(dir), 0), os.ErrPermission)
	expect("mount again", unix.Mount("", filepath.Dir(dir), "", unix.MS_REMOUNT|unix.MS_BIND, ""), os.ErrPermission)
	_, err = link.NewFromID(1)
	expect("a link by its number", err, os.ErrPermission)
	expect("unload", UnloadAdmission(dir), ErrPermission, unix.EROFS)
	for _, deny := range []Deny{Silent, Refuse} {
		_, err := LoadAdmission(AdmissionOptions{Deny: deny})
		expect("load "+string(deny), err, ErrPermission)
	}
	expect("close", a.Close(), nil)
}

// unprivileged tries everything, and may do nothing.
func (j job) unprivileged() {
	for _, deny := range []Deny{Silent, Refuse} {
		for _, dir := range []string{"", j.Options.Dir, j.Options.Dir + "2"} {
			_, err := LoadAdmission(AdmissionOptions{Deny: deny, Dir: dir})
			expect(fmt.Sprintf("load %s in %q", deny, dir), err, ErrPermission)
			if e := (*Error)(nil); !errors.As(err, &e) || !strings.Contains(err.Error(), "needs CAP_BPF, CAP_PERFMON and CAP_NET_ADMIN") {
				fmt.Println("BAD: error", err)
			}
		}
	}
	_, err := OpenAdmission(j.Options.Dir)
	expect("open", err, ErrPermission)
	_, err = OpenAdmission(j.Options.Dir + "/none")
	expect("open none", err, os.ErrNotExist)
	expect("unload", UnloadAdmission(j.Options.Dir), ErrPermission)
}

func init() {
	text := os.Getenv(jobVariable)
	if text == "" {
		return
	}
	var j job
	if err := json.Unmarshal([]byte(text), &j); err != nil {
		fmt.Println("job:", err)
		os.Exit(1)
	}
	switch j.Do {
	case "load":
		a, err := LoadAdmission(j.Options)
		fmt.Println(err)
		_, _ = io.Copy(io.Discard, os.Stdin) // until it is killed
		_ = a
	case "own":
		j.own()
	case "unprivileged":
		j.unprivileged()
	}
	os.Exit(0)
}

// command is the other process with its job. The words before run it, such as those of setpriv.
func (j job) command(t *testing.T, words ...string) *exec.Cmd {
	t.Helper()
	text, err := json.Marshal(j)
	must(t, err)
	words = append(words, testBinary(t))
	c := exec.Command(words[0], words[1:]...)
	c.Env = append(os.Environ(), jobVariable+"="+string(text))
	return c
}

// run runs the other process to its end and fails the test for each line with "BAD".
func (j job) run(t *testing.T, c *exec.Cmd) {
	t.Helper()
	out, err := c.CombinedOutput()
	if err != nil {
		t.Errorf("%v: %v", c.Args, err)
	}
	if strings.Contains(string(out), "BAD") || !strings.Contains(string(out), "ok: unload") {
		t.Errorf("%v:\n%s", c.Args, out)
	}
}

// testBinary is a copy of the running test that any user may run.
func testBinary(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	through(t, dir)
	path := filepath.Join(dir, "ebpf.test")
	self, err := os.Open("/proc/self/exe")
	must(t, err)
	defer self.Close()
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o755)
	must(t, err)
	_, err = io.Copy(f, self)
	if err = errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
	return path
}

// through lets every user through the directories of a test's files.
func through(t *testing.T, dir string) {
	t.Helper()
	for ; dir != filepath.Clean(os.TempDir()) && dir != "/"; dir = filepath.Dir(dir) {
		must(t, os.Chmod(dir, 0o755))
	}
}

// start runs a job to where the filter is loaded. The process is killed at the end of the test.
func (j job) start(t *testing.T) *exec.Cmd {
	t.Helper()
	c := j.command(t)
	in, err := c.StdinPipe()
	must(t, err)
	out, err := c.StdoutPipe()
	must(t, err)
	must(t, c.Start())
	t.Cleanup(func() {
		in.Close()
		_ = c.Process.Kill()
		_ = c.Wait()
	})
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "<nil>\n" {
		t.Fatalf("load: %s, %v", line, err)
	}
	return c
}

func TestKilledLoaderLeavesPinnedFilterOnly(t *testing.T) {
	t.Parallel()
	for _, deny := range []Deny{Silent, Refuse} {
		t.Run(string(deny), func(t *testing.T) {
			t.Parallel()
			s := newSite(t)
			o := AdmissionOptions{Deny: deny, Netns: s.here.Netns(), Allow: s.peers()}
			kill := func(o AdmissionOptions) {
				t.Helper()
				c := job{Do: "load", Options: o}.start(t)
				s.filters("loaded", deny)
				must(t, c.Process.Kill())
				_ = c.Wait()
			}
			kill(o)
			s.open("loader killed, not pinned")
			o.Dir = filepath.Join(netlab.BPFFS(t), "rds")
			kill(o)
			s.filters("loader killed, pinned", deny)
			must(t, UnloadAdmission(o.Dir))
			s.open("unloaded")
			if _, err := os.Stat(o.Dir); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("the directory is left: %v", err)
			}
			if _, err := OpenAdmission(o.Dir); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("open when unloaded: %v", err)
			}
			if err := UnloadAdmission(o.Dir); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("unload when unloaded: %v", err)
			}
		})
	}
}

func TestOwnerChangesTheListAndCannotRemoveTheFilter(t *testing.T) {
	t.Parallel()
	for _, deny := range []Deny{Silent, Refuse} {
		for _, c := range []struct {
			name  string
			owner int
			words []string
		}{
			// As the unit of rdsd runs it: root with one capability, /sys read-only.
			{"root without capabilities", 0, []string{"unshare", "--mount", "sh", "-c",
				`mount --bind "$D" "$D" && mount -o remount,bind,ro "$D" && exec "$@"`, "sh",
				"setpriv", "--inh-caps=-all", "--bounding-set=-all,+chown", "--no-new-privs"}},
			// Where the directory is not read-only, modes and owners are what protects the filter, and the
			// directory's own entries are not protected.
			{"root without capabilities, a handover", 0, []string{"setpriv", "--inh-caps=-all", "--bounding-set=-all", "--no-new-privs"}},
			{"a user", nobody, []string{"setpriv", fmt.Sprintf("--reuid=%d", nobody), fmt.Sprintf("--regid=%d", nobody),
				"--clear-groups", "--inh-caps=-all", "--bounding-set=-all", "--no-new-privs"}},
		} {
			t.Run(fmt.Sprintf("%s, %s", deny, c.name), func(t *testing.T) {
				t.Parallel()
				s := newSite(t)
				mount := netlab.BPFFS(t)
				through(t, filepath.Dir(mount))
				o := AdmissionOptions{Dir: filepath.Join(mount, "rds"), Deny: deny, Netns: s.here.Netns(), Owner: c.owner, Allow: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}}
				a, err := LoadAdmission(o)
				must(t, err)
				defer a.Close()
				links, err := os.ReadDir(filepath.Join(o.Dir, linksDir))
				if err != nil || len(links) != 1 {
					t.Fatalf("links %v, %v", links, err)
				}
				j := job{Do: "own", Options: o, Set: s.peers()}
				cmd := j.command(t, c.words...)
				cmd.Env = append(cmd.Env, "D="+mount, "RDS_TEST_LINKS="+links[0].Name())
				if strings.HasSuffix(c.name, "a handover") {
					dir := filepath.Join(mount, "handover")
					h, err := LoadHandover(HandoverOptions{Dir: dir, Netns: s.here.Netns()})
					must(t, err)
					defer h.Close()
					cmd.Env = append(cmd.Env, "RDS_TEST_HANDOVER="+dir)
				}
				j.run(t, cmd)
				s.filters("after the owner's attempts", deny)
			})
		}
	}
}

func TestUnprivilegedUserGetsTheRightErrors(t *testing.T) {
	t.Parallel()
	mount := netlab.BPFFS(t)
	through(t, filepath.Dir(mount))
	must(t, os.Chmod(mount, 0o755))
	host, _ := netlab.Pair(t)
	o := AdmissionOptions{Dir: filepath.Join(mount, "rds"), Deny: Refuse, Netns: host.Netns()}
	a, err := LoadAdmission(o)
	must(t, err)
	defer a.Close()
	j := job{Do: "unprivileged", Options: o}
	user := []string{"setpriv", fmt.Sprintf("--reuid=%d", nobody), fmt.Sprintf("--regid=%d", nobody), "--clear-groups", "--inh-caps=-all", "--bounding-set=-all", "--no-new-privs"}
	j.run(t, j.command(t, host.Args(user...)...))
}

var ebpfLoadReadOnly = ebpf.LoadPinOptions{ReadOnly: true}

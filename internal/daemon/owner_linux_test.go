//go:build live

package daemon

import (
	"os"
	"os/exec"
	"syscall"
	"testing"

	"github.com/rds-go/rds/internal/ipc"
	"github.com/rds-go/rds/internal/rdstest"
)

// Root of a container, which is a process in a PID namespace below the daemon's, is not root of the host, nor
// is a process that the daemon does not see. The secret is known by its hash alone.
func TestOwnerOfAnApplication(t *testing.T) {
	t.Parallel()
	cmd := exec.Command("sleep", "60")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID}
	if err := cmd.Start(); err != nil {
		t.Skipf("needs to make PID namespaces: %v", err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	place := func(uid uint32, pid int) uint64 {
		return ownerOf(&ipc.Credentials{UID: uid, PID: pid}, nil).Place
	}
	rdstest.Eventually(t, "the process to be in its namespace", func() bool { return place(0, cmd.Process.Pid) != 0 })
	host, contained, unseen := place(0, os.Getpid()), place(0, cmd.Process.Pid), place(0, 0)
	if host != 0 || contained == unseen || unseen == 0 || contained != place(0, cmd.Process.Pid) {
		t.Errorf("places %d, %d and %d", host, contained, unseen)
	}
	if p := place(7, cmd.Process.Pid); p != 0 {
		t.Errorf("user 7 has place %d: other users are told apart by their numbers", p)
	}
	one, same, other := ownerOf(&ipc.Credentials{}, []byte("a")), ownerOf(&ipc.Credentials{}, []byte("a")), ownerOf(&ipc.Credentials{}, []byte("b"))
	if one.Secret != same.Secret || one.Secret == other.Secret || one.Secret == [16]byte{} || one.Secret[0] == 'a' || ownerOf(&ipc.Credentials{}, nil).Secret != [16]byte{} {
		t.Errorf("secrets %x, %x, %x", one.Secret, same.Secret, other.Secret)
	}
}

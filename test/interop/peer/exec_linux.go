package peer

import (
	"os/exec"
	"syscall"
)

// dieWithParent has the program end with this process, even a killed one.
func dieWithParent(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}

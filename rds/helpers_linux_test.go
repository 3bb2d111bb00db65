//go:build live

package rds

import (
	"os"
	"os/exec"
	"strings"

	"github.com/rds-go/rds/internal/rdstest"
)

// process makes this program again, as a part of test, in a role.
func process(test, role string, args ...string) *exec.Cmd {
	cmd := exec.Command(os.Args[0], "-test.run=^"+test+"$", "-test.count=1")
	cmd.Env = append(os.Environ(), exhaustEnv+"=1", "GORACE=atexit_sleep_ms=0", rdstest.RoleEnv+"="+role, rdstest.ArgEnv+"="+strings.Join(args, " "))
	return cmd
}

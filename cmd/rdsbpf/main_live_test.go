//go:build live

package main

import (
	"os"
	"strings"
	"testing"

	"github.com/rds-go/rds/internal/cli/clitest"
	"github.com/rds-go/rds/internal/rdstest"
)

func TestMistakesOfTheConfiguration(t *testing.T) {
	t.Parallel()
	file := t.TempDir() + "/rdsd.toml"
	for text, want := range map[string]string{
		"[admission]\nkernel = 'yes'\n": `admission.kernel: "yes" is none of auto, require and off`,
		"[admission]\ndeny = 'loud'\n":  `admission.deny: "loud" is neither silent nor refuse`,
		"[handover]\npins = ''\n":       "handover.pins: no directory",
		"port = 70000\n":                "port: 70000 is no TCP port",
		"port = \n":                     "toml:",
	} {
		rdstest.Must(t, os.WriteFile(file, []byte(text), 0o600))
		status, _, stderr := clitest.Run(t, bin.Path("rdsbpf"), "load", "--config", file)
		if status != 2 || !strings.Contains(stderr, want) || strings.Count(stderr, "\n") != 1 {
			t.Errorf("%q: status %d, %s", text, status, stderr)
		}
	}
	for _, args := range []string{"load nothing", "load admission --port 0", "load --deny loud", "allow", "allow 10.0.0.1/24", "deny x", "watch --interval 0", "status more", "unload more", "load --owner no-such-user", "load handover --group no-such-group", ""} {
		if status, _, stderr := clitest.Run(t, bin.Path("rdsbpf"), strings.Fields(args)...); status != 2 || strings.Count(stderr, "\n") != 1 {
			t.Errorf("%s: status %d, %s", args, status, stderr)
		}
	}
}

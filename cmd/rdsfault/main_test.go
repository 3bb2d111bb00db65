package main

import (
	"os"
	"strings"
	"testing"

	"github.com/rds-go/rds/internal/cli/clitest"
)

var bin clitest.Bin

func TestMain(m *testing.M) { os.Exit(clitest.Main(m, &bin, "./cmd/rdsfault")) }

// A mistake in the flags is found before anything is loaded, and named in one line.
func TestBadFlagsAreNamed(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"": "say which fault: drop, ", "nonsense": `unknown command "nonsense"`, "drop more": `unknown command "more"`,
		"drop --nonsense": "--nonsense", "drop": "--interface is missing", "blackhole --interface x --count 1": "--count",
		"delay --interface x --direction in": "--direction", "drop --interface x --direction up": `--direction "up"`,
		"drop --interface x --rate 0": `--rate "0"`, "drop --interface x --rate 101%": `--rate "101%"`,
		"drop --interface x --rate nan": `--rate "nan"`, "drop --interface x --count -1": "--count",
		"drop --interface x --for 0": "--for 0s", "drop --interface x --for 61m": "--for 1h1m0s",
		"drop --interface x --port 65536": "--port 65536", "drop --interface x --port 1,2,3,4,5,6,7,8,9": "--port: 9 ports",
		"delay --interface x --by 0": "--by 0s", "delay --interface x --by 11s": "--by 11s", "abort --every -1s": "--every -1s",
		"abort --count 3": "--count 3", "drop --interface x --peer 10.0.0": `--peer "10.0.0"`,
		"drop --interface x --local :0": `--local ":0"`, "abort --port 0": "--port 0", "abort --every never": "--every",
	} {
		status, stdout, stderr := clitest.Run(t, bin.Path("rdsfault"), strings.Fields(args)...)
		if status != 2 || stdout != "" || strings.Count(stderr, "\n") != 1 || !strings.HasPrefix(stderr, "rdsfault: ") ||
			!strings.Contains(stderr, want) || !strings.HasSuffix(stderr, "(see rdsfault --help)\n") {
			t.Errorf("%s: status %d, %q, %q; want %q", args, status, stdout, stderr, want)
		}
	}
}

func TestHelpHasExamples(t *testing.T) {
	t.Parallel()
	status, stdout, stderr := clitest.Run(t, bin.Path("rdsfault"), "--help")
	if status != 0 || stderr != "" || !strings.Contains(stdout, "Examples:\n  rdsfault drop --interface eth0 ") {
		t.Errorf("status %d, %q, %s", status, stderr, stdout)
	}
}

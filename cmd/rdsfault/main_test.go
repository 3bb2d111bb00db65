//go:build live

package main

import (
	"strings"
	"testing"

	"github.com/rds-go/rds/internal/cli/clitest"
)

// A mistake on the command line is one line that names it, and exit status 2.
func TestMistakesOfTheCommandLine(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"":                                             "say which fault: drop, duplicate, corrupt, blackhole, delay or abort",
		"lose":                                         "lose",
		"drop":                                         "--interface is missing",
		"drop --interface lo --rate 0":                 `--rate "0"`,
		"drop --interface lo --rate 101%":              `--rate "101%"`,
		"drop --interface lo --rate many":              `--rate "many"`,
		"drop --interface lo --for 2h":                 "--for 2h0m0s: above 0 and at most 1h0m0s",
		"drop --interface lo --port 0":                 "--port 0: from 1 to 65535",
		"drop --interface lo --direction up":           `--direction "up": in, out or both`,
		"drop --interface lo --peer host":              `--peer "host": want an address`,
		"drop --interface lo --local :0":               `--local ":0": want an address`,
		"blackhole --interface lo --count 3":           "--count",
		"abort --interface lo":                         "--interface",
		"drop --interface lo more":                     "more",
		"delay --interface lo --direction in":          "--direction",
		"corrupt --interface lo --rate 1% --by 3":      "--by",
		"drop --interface lo --port 1,2,3,4,5,6,7,8,9": "--port: 9 ports",
		"delay --interface lo --by 0":                  "--by 0s",
		"delay --interface lo --by 11s":                "--by 11s",
		"abort --every -1s":                            "--every -1s",
		"abort --count 3":                              "--count 3",
	} {
		status, stdout, stderr := clitest.Run(t, bin.Path("rdsfault"), strings.Fields(args)...)
		if status != 2 || stdout != "" || !strings.Contains(stderr, want) || strings.Count(stderr, "\n") != 1 {
			t.Errorf("%q: status %d, %s%s; want %q", args, status, stdout, stderr, want)
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

package cli

import (
	"bytes"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

func TestVersionOfABuild(t *testing.T) {
	t.Parallel()
	built := " (go1.99 " + runtime.GOOS + "/" + runtime.GOARCH + ")"
	for _, c := range []struct {
		version  string
		settings []debug.BuildSetting
		want     string
	}{
		{"v1.2.3", nil, "v1.2.3"},
		{"v0.0.0-20261122-abc+dirty", []debug.BuildSetting{{Key: "vcs.revision", Value: "abc"}}, "v0.0.0-20261122-abc+dirty"},
		{"(devel)", []debug.BuildSetting{{Key: "vcs.revision", Value: "abc"}, {Key: "vcs.modified", Value: "false"}}, "revision abc"},
		{"", []debug.BuildSetting{{Key: "vcs.revision", Value: "abc"}, {Key: "vcs.modified", Value: "true"}}, "revision abc, modified"},
		{"(devel)", nil, "of unknown version"},
	} {
		got := version(&debug.BuildInfo{GoVersion: "go1.99", Main: debug.Module{Version: c.version}, Settings: c.settings})
		if got != c.want+built {
			t.Errorf("%q %v: %s", c.version, c.settings, got)
		}
	}
}

// Every command below the program has the flag, with the program's name, and without its own
// arguments.
func TestVersionOfSubcommands(t *testing.T) {
	t.Parallel()
	for _, args := range []string{"--version", "sub --version", "sub deep --version"} {
		tool, sub := &cobra.Command{Use: "tool"}, &cobra.Command{Use: "sub"}
		deep := &cobra.Command{Use: "deep ARG", Args: cobra.ExactArgs(1), RunE: func(*cobra.Command, []string) error { return Exit(7) }}
		deep.Flags().BoolP("verbose", "v", false, "")
		tool.AddCommand(sub)
		sub.AddCommand(deep)
		var out, stderr bytes.Buffer
		tool.SetOut(&out)
		if status := RunTo(tool, strings.Fields(args), &stderr); status != 0 || stderr.Len() > 0 || !strings.HasPrefix(out.String(), "tool ") || !strings.Contains(out.String(), runtime.Version()) {
			t.Errorf("%s: status %d, %s%s", args, status, out.String(), stderr.String())
		}
	}
}

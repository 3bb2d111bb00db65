package cli

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// SetVersion gives cmd and the commands below it a flag --version, which prints the name of
// the program and what it was built from.
func SetVersion(cmd *cobra.Command) {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		info = &debug.BuildInfo{GoVersion: runtime.Version()}
	}
	setVersion(cmd, version(info))
}

func setVersion(cmd *cobra.Command, version string) {
	cmd.Version = version
	cmd.SetVersionTemplate("{{.Root.Name}} {{.Version}}\n")
	for _, c := range cmd.Commands() {
		setVersion(c, version)
	}
}

// version is that of the module, as the Go tool recorded it: a tag, a pseudo-version, or
// the revision. A build outside a repository has none of them.
func version(info *debug.BuildInfo) string {
	settings := make(map[string]string)
	for _, s := range info.Settings {
		settings[s.Key] = s.Value
	}
	v := info.Main.Version
	if v == "" || v == "(devel)" {
		v = "of unknown version"
		if rev := settings["vcs.revision"]; rev != "" {
			v = "revision " + rev
		}
		if settings["vcs.modified"] == "true" {
			v += ", modified"
		}
	}
	return fmt.Sprintf("%s (%s %s/%s)", v, info.GoVersion, runtime.GOOS, runtime.GOARCH)
}

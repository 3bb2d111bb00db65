package main

import (
	"errors"
	"os"
	"slices"
	"strings"

	"github.com/rds-go/rds/ebpf"
	"github.com/rds-go/rds/internal/cli"
)

// feature is something that rdsbpf loads into the kernel.
type feature struct {
	name  string
	short string // one line for the help
	// asked tells whether the configuration asks for the feature, which is loaded without being
	// named then; nil: it is only loaded if it is named.
	asked func(*config) bool
	// mode is what the configuration says of the feature: modeAuto, modeRequire or modeOff.
	mode func(*config) string
	dir  func(*config) string // directory where the feature is pinned
	// load loads the feature, or finds it loaded, and says in a line what is there.
	load func(*loadOptions) (string, error)
	// unload takes the feature out of its directory. The error Is os.ErrNotExist if it is not
	// there.
	unload func(dir string) error
	// status tells what is in the feature's directory, as a value for JSON and in lines. Its error Is
	// os.ErrNotExist if the feature is not there.
	status func(dir string) (value any, lines []string, err error)
}

// features are all features, in the order in which they are loaded.
var features = []feature{
	{
		name: "admission", short: "turn strangers away before TCP answers them",
		asked: func(*config) bool { return true },
		mode:  func(c *config) string { return c.Admission.Kernel },
		dir:   func(c *config) string { return c.Admission.Pins },
		load:  loadAdmission, unload: ebpf.UnloadAdmission, status: admissionStatus,
	},
	{
		name: "telemetry", short: "measure TCP connections of RDS: see rdsinfo --kernel",
		mode: func(c *config) string { return c.Telemetry.Kernel },
		dir:  func(c *config) string { return c.Admission.Pins },
		load: loadTelemetry, unload: ebpf.UnloadTelemetry, status: telemetryStatus,
	},
	{
		name: "handover", short: "bring connections to many addresses to one listening socket",
		asked: (*config).wantsHandover,
		mode:  func(c *config) string { return c.Handover.Kernel },
		dir:   func(c *config) string { return c.Handover.Pins },
		load:  loadHandover, unload: unloadHandover, status: handoverStatus,
	},
}

// chosen are the features with these names; without names all. named tells which it was.
func chosen(names []string) (list []feature, named bool, err error) {
	if len(names) == 0 {
		return features, false, nil
	}
	var known []string
	for _, f := range features {
		known = append(known, f.name)
		if slices.Contains(names, f.name) {
			list = append(list, f)
		}
	}
	for _, name := range names {
		if !slices.Contains(known, name) {
			return nil, true, cli.Usagef("no feature %q (have %s)", name, strings.Join(known, ", "))
		}
	}
	return list, true, nil
}

// missing tells whether an error says that a feature is not loaded.
func missing(err error) bool { return errors.Is(err, os.ErrNotExist) }

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/rds-go/rds/ebpf"
	"github.com/rds-go/rds/internal/cli"
)

const statusLong = `status shows which features are loaded in the directory, and which ones this kernel has and
this user may load. To find that out programs are loaded and taken out again.`

// statusReport is the status as JSON.
type statusReport struct {
	Dir      string                `json:"dir"`
	Loaded   map[string]any        `json:"loaded"`           // by the names of features; those that are not loaded are not there
	Errors   map[string]string     `json:"errors,omitempty"` // features that are loaded and cannot be read
	Possible map[string]possibleOf `json:"possible"`
}

// possibleOf is whether a feature can be used here.
type possibleOf struct {
	OK           bool   `json:"ok"`
	Why          string `json:"why,omitempty"` // not
	Kernel       string `json:"kernel,omitempty"`
	Capabilities string `json:"capabilities,omitempty"`
}

func statusCommand(o *options) *cobra.Command {
	cmd := &cobra.Command{
		Use: "status", Short: "What is loaded, and what can be", Long: statusLong, Args: cli.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error { return o.status(cmd.OutOrStdout()) },
	}
	directoriesFlag(cmd, o)
	jsonFlag(cmd, o)
	return cmd
}

func (o *options) status(w io.Writer) error {
	c, err := o.read()
	if err != nil {
		return err
	}
	r := statusReport{Dir: c.Admission.Pins, Loaded: make(map[string]any), Possible: make(map[string]possibleOf)}
	var errs []error
	var text []string
	for _, f := range features {
		dir := f.dir(c)
		value, lines, err := f.status(dir)
		switch {
		case missing(err):
			text = append(text, fmt.Sprintf("%s: not loaded in %s", f.name, dir))
		case err != nil:
			if r.Errors == nil {
				r.Errors = make(map[string]string)
			}
			r.Errors[f.name] = err.Error()
			errs = append(errs, err)
		default:
			r.Loaded[f.name] = value
			for _, line := range lines {
				text = append(text, fmt.Sprintf("%s: %s", f.name, line))
			}
		}
	}
	text = append(text, "this kernel and this user:")
	for _, s := range ebpf.Probe() {
		p := possibleOf{OK: s.Err == nil, Kernel: s.Kernel, Capabilities: s.Capabilities}
		if s.Err != nil {
			p.Why = s.Err.Error()
		}
		r.Possible[s.Name] = p
		text = append(text, "    "+s.String())
	}
	if o.json {
		err = json.NewEncoder(w).Encode(r)
	} else {
		for _, line := range text {
			fmt.Fprintln(w, line)
		}
	}
	return errors.Join(append(errs, err)...)
}

//go:build !live

package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/rds-go/rds/cmd/rdsinfo/internal/report"
	"github.com/rds-go/rds/rds"
)

func TestErrors(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		args   []string
		status int
		want   string
	}{
		{[]string{"--control", "/no/such.sock"}, 1, "rdsinfo: no node answers on /no/such.sock: start rdsd, or give the socket of another node with --control\n"},
		{[]string{"--watch", "--control", "/no/such.sock"}, 1, "rdsinfo: no node answers on /no/such.sock: start rdsd, or give the socket of another node with --control\n"},
		{[]string{"-y"}, 2, "rdsinfo: unknown shorthand flag: 'y' in -y (see rdsinfo --help)\n"},
		{[]string{"x"}, 2, `rdsinfo: unexpected argument "x" (see rdsinfo --help)` + "\n"},
		{[]string{"--watch", "x"}, 2, `rdsinfo: invalid argument "x" for --watch: want seconds, or a number and ms or us, such as 0.2 or 200ms (see rdsinfo --help)` + "\n"},
		{[]string{"--watch=0"}, 2, "rdsinfo: the interval of --watch must not be 0 (see rdsinfo --help)\n"},
		{[]string{"--provider", "tape"}, 2, `rdsinfo: no provider "tape" (have rdsd, kernel) (see rdsinfo --help)` + "\n"},
	} {
		status, stdout, stderr := info(t, c.args...)
		if status != c.status || stdout != "" || stderr != c.want {
			t.Errorf("%q: status %d, %s%s\nwant %d, %s", c.args, status, stdout, stderr, c.status, c.want)
		}
	}
}

// Linux has no applications to report; who asks for them gets an empty list.
func TestKindsOfKernel(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		provider string
		want     []report.Kind
	}{{providerKernel, report.LinuxKinds()}, {providerRDSD, report.DefaultKinds()}} {
		o := options{chosen: make(map[report.Kind]*bool), provider: c.provider}
		for _, k := range report.Kinds() {
			o.chosen[k] = new(bool)
		}
		if got := o.kinds(); !slices.Equal(got, c.want) {
			t.Errorf("%s: reports %q, want %q", c.provider, got, c.want)
		}
		*o.chosen[report.Applications] = true
		if got := o.kinds(); !slices.Equal(got, []report.Kind{report.Applications}) {
			t.Errorf("%s: reports %q of -a", c.provider, got)
		}
	}
}

func TestKernelWithoutRDS(t *testing.T) {
	t.Parallel()
	if _, err := rds.OpenKernel(); err == nil {
		t.Skip("needs a kernel without RDS (rmmod rds)")
	}
	status, stdout, stderr := info(t, "--provider", "kernel")
	if status != 1 || stdout != "" || !strings.Contains(stderr, "the kernel has no RDS") || strings.Count(stderr, "\n") != 1 {
		t.Errorf("status %d, %s%s", status, stdout, stderr)
	}
}

func TestHelp(t *testing.T) {
	t.Parallel()
	if status, stdout, _ := info(t, "--help"); status != 0 || !strings.Contains(stdout, "rdsinfo -c --watch") {
		t.Errorf("status %d, %s", status, stdout)
	}
}

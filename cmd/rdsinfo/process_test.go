//go:build !live

package main

import (
	"slices"
	"testing"

	"github.com/rds-go/rds/cmd/rdsinfo/internal/report"
)

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

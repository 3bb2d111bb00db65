//go:build !live

package main

import (
	"reflect"
	"testing"

	"github.com/rds-go/rds/internal/rdstest"
)

// The defaults of rdsbpf are those of rdsd's commented configuration.
func TestDefaultsAreThoseOfTheDaemon(t *testing.T) {
	t.Parallel()
	got, err := readConfig("../rdsd/rdsd.toml")
	rdstest.Must(t, err)
	want := defaultConfig()
	want.Admission.Interfaces, want.Listen = []string{}, []string{}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("the file has %+v, rdsbpf %+v", got, want)
	}
	if p := want.ports(); !reflect.DeepEqual(p, []uint16{16385, 18634}) {
		t.Errorf("ports %v", p)
	}
}

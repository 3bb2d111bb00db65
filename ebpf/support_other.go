//go:build !linux

package ebpf

import "runtime"

// elsewhere is the feature of a system without eBPF.
func elsewhere(name string) *feature {
	return &feature{name: name, probe: func() error { return notHere }}
}

var notHere = &systemError{}

// systemError is ErrNotSupported with the name of the system.
type systemError struct{}

func (*systemError) Error() string { return "not supported on " + runtime.GOOS }
func (*systemError) Unwrap() error { return ErrNotSupported }

func classify(err error) error { return err }

func allFeatures() []*feature { return []*feature{elsewhere("eBPF")} }

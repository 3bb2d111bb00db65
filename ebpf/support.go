package ebpf

import (
	"errors"
	"fmt"
)

// errEnterNetns says that this process may not enter the network namespace that was asked for.
var errEnterNetns = fmt.Errorf("enter the network namespace: %w", ErrPermission)

// feature is one thing that a kernel can do for a node.
type feature struct {
	name         string
	kernel       string // the first Linux that has it
	capabilities string // what using it takes
	probe        func() error
}

// err is the Error of the feature with a cause; nil for nil.
func (f *feature) err(cause error) error {
	if cause == nil {
		return nil
	}
	takes := f.capabilities
	if errors.Is(cause, errEnterNetns) {
		takes += ", and CAP_SYS_ADMIN for another network namespace"
	}
	return &Error{Feature: f.name, Kernel: f.kernel, Capabilities: takes, Err: classify(cause)}
}

// FeatureSupport is whether one feature can be used.
type FeatureSupport struct {
	Name         string `json:"name"`
	Kernel       string `json:"kernel"`       // the first Linux that has the feature
	Capabilities string `json:"capabilities"` // what the feature takes
	Err          error  `json:"-"`            // nil, or an *Error with the reason
}

// String is one line, such as "admission by sk_lookup: yes".
func (s FeatureSupport) String() string {
	if s.Err != nil {
		return s.Err.Error()
	}
	return fmt.Sprintf("%s: yes", s.Name)
}

// Probe tries each feature: its programs are loaded and taken out again, and where something
// must be attached to see whether that works, it is attached to nothing that carries traffic.
// The order is always the same. It takes some 100 ms.
func Probe() []FeatureSupport {
	features := allFeatures()
	out := make([]FeatureSupport, len(features))
	for i, f := range features {
		out[i] = FeatureSupport{Name: f.name, Kernel: f.kernel, Capabilities: f.capabilities, Err: f.err(f.probe())}
	}
	return out
}

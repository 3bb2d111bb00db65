//go:build !linux

package ebpf

import "net/netip"

var noAdmission = elsewhere("admission")

// Admission turns strangers away before TCP answers them. Only Linux has it.
type Admission struct{}

// LoadAdmission returns an error that Is ErrNotSupported.
func LoadAdmission(AdmissionOptions) (*Admission, error) { return nil, noAdmission.err(notHere) }

// OpenAdmission returns an error that Is ErrNotSupported.
func OpenAdmission(string) (*Admission, error) { return nil, noAdmission.err(notHere) }

// UnloadAdmission returns an error that Is ErrNotSupported.
func UnloadAdmission(string) error { return noAdmission.err(notHere) }

// Set returns an error that Is ErrNotSupported.
func (*Admission) Set([]netip.Prefix) error { return noAdmission.err(notHere) }

// Allow returns an error that Is ErrNotSupported.
func (*Admission) Allow() ([]netip.Prefix, error) { return nil, noAdmission.err(notHere) }

// Status returns an error that Is ErrNotSupported.
func (*Admission) Status() (AdmissionStatus, error) {
	return AdmissionStatus{}, noAdmission.err(notHere)
}

// Counters returns an error that Is ErrNotSupported.
func (*Admission) Counters() (map[netip.Addr]Counts, error) { return nil, noAdmission.err(notHere) }

// Close does nothing.
func (*Admission) Close() error { return nil }

package ebpf

import (
	"errors"
	"os"
	"strings"
)

var (
	// ErrNotSupported is the error of a feature that this kernel or this system does not
	// have.
	ErrNotSupported = errors.New("not supported by this kernel")
	// ErrPermission is the error of a feature that this process may not use. It is
	// os.ErrPermission.
	ErrPermission = os.ErrPermission
)

// Error is why a feature cannot be used.
type Error struct {
	Feature      string // such as "admission by sk_lookup"
	Kernel       string // the first Linux that has the feature, such as "5.9"
	Capabilities string // what the feature takes, such as "CAP_BPF and CAP_NET_ADMIN"; empty: nothing
	Err          error  // Is ErrNotSupported, ErrPermission or what else has happened
}

// Error is one line.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(e.Feature)
	b.WriteString(": ")
	switch {
	case errors.Is(e.Err, ErrNotSupported):
		b.WriteString(e.Err.Error())
		if r := reason(""); e.Kernel != "" && !errors.As(e.Err, &r) {
			b.WriteString(": needs Linux " + e.Kernel)
		}
	case errors.Is(e.Err, ErrPermission):
		b.WriteString("not permitted")
		if e.Capabilities != "" {
			b.WriteString(": needs " + e.Capabilities)
		}
	default:
		b.WriteString(e.Err.Error())
	}
	return b.String()
}

// reason is why a feature is missing that another kernel would not cure. It Is ErrNotSupported.
type reason string

func (r reason) Error() string { return string(r) }

func (reason) Is(target error) bool { return target == ErrNotSupported }

// Unwrap is for errors.Is and errors.As.
func (e *Error) Unwrap() error { return e.Err }

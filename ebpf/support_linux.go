package ebpf

import (
	"errors"
	"fmt"
	"slices"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"
	"golang.org/x/sys/unix"
)

// allFeatures are the features in the order in which Probe reports them.
func allFeatures() []*feature {
	return slices.Concat(
		[]*feature{refuseFeature, tcxFeature, xdpFeature},
		telemetryFeatures(),
		faultFeatures(),
		[]*feature{wakeups},
		[]*feature{handoverFeature},
	)
}

// classify makes the error of package ebpf of what the loader or the kernel has said. The
// verifier's log is left out: it tells the authors of programs something, and nobody else.
func classify(err error) error {
	var verifier *ebpf.VerifierError
	refused := errors.As(err, &verifier)
	switch {
	case errors.Is(err, ErrNotSupported), errors.Is(err, ErrPermission) && !refused:
		// os.ErrPermission is EPERM and EACCES. A verifier says EACCES too, of programs.
		if errors.Is(err, ErrPermission) {
			return fmt.Errorf("%w", ErrPermission)
		}
		return err
	case errors.Is(err, ebpf.ErrNotSupported), errors.Is(err, btf.ErrNotFound), errors.Is(err, btf.ErrNotSupported),
		errors.Is(err, unix.EOPNOTSUPP):
		return ErrNotSupported
	case refused:
		return fmt.Errorf("%w: the verifier refuses the program: %w", ErrNotSupported, verifier.Cause)
	}
	return err
}

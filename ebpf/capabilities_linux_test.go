//go:build live

package ebpf

import (
	"errors"
	"io"
	"net/netip"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/rds-go/rds/internal/netlab"
)

// The capabilities that errors name and docs/EBPF.md lists are enough. An admission by sk_lookup
// and a handover beside each other take CAP_SYS_ADMIN too.
func TestCapabilitiesThatAreNamedAreEnough(t *testing.T) {
	t.Parallel()
	a, b := netlab.Pair(t)
	as := func(f func() (io.Closer, error), capabilities ...int) (c io.Closer, err error) {
		t.Helper()
		b.As(65534, 65534, func() { c, err = f() }, capabilities...)
		return c, err
	}
	admission := func(deny Deny) func() (io.Closer, error) {
		return func() (io.Closer, error) {
			return LoadAdmission(AdmissionOptions{Deny: deny, Allow: []netip.Prefix{netip.PrefixFrom(a.IP4, 32)}})
		}
	}
	handover := func() (io.Closer, error) { return LoadHandover(HandoverOptions{}) }
	fault := func() (io.Closer, error) { return NewFault(FaultOptions{Interface: "eth0"}) }
	wakeups := func() (io.Closer, error) { return NewWakeups([]int{unix.Getpid()}) }
	telemetry := func() (io.Closer, error) {
		all, err := LoadTelemetry(TelemetryOptions{})
		if err != nil {
			return nil, err
		}
		for _, f := range all.Features() {
			if err == nil {
				err = f.Err
			}
		}
		return all, err
	}
	three := []int{unix.CAP_BPF, unix.CAP_PERFMON, unix.CAP_NET_ADMIN}
	for _, c := range []struct {
		what string
		load func() (io.Closer, error)
		take []int
	}{
		{"admission, refuse", admission(Refuse), three},
		{"admission, silent", admission(Silent), three},
		{"handover", handover, three},
		{"telemetry", telemetry, three},
		{"wake-ups", wakeups, []int{unix.CAP_BPF, unix.CAP_PERFMON}},
		{"faults", fault, []int{unix.CAP_BPF, unix.CAP_NET_ADMIN}},
	} {
		l, err := as(c.load, c.take...)
		if err != nil {
			t.Errorf("%s: %v", c.what, err)
			continue
		}
		if _, err := as(func() (io.Closer, error) { return nil, l.Close() }, c.take...); err != nil {
			t.Errorf("%s ends: %v", c.what, err)
		}
	}
	for _, order := range [][2]func() (io.Closer, error){{admission(Refuse), handover}, {handover, admission(Refuse)}} {
		first, err := as(order[0], three...)
		must(t, err)
		if _, err := as(order[1], three...); !errors.Is(err, ErrPermission) {
			t.Errorf("beside each other without CAP_SYS_ADMIN: %v", err)
		}
		second, err := as(order[1], append(three, unix.CAP_SYS_ADMIN)...)
		must(t, err)
		must(t, errors.Join(second.Close(), first.Close()))
	}
}

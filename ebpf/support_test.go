//go:build !live

package ebpf

import (
	"errors"
	"fmt"
	"testing"
)

func TestErrorNamesWhatIsMissing(t *testing.T) {
	t.Parallel()
	f := &feature{name: "admission by sk_lookup", kernel: "5.9", capabilities: "CAP_BPF and CAP_NET_ADMIN"}
	for _, c := range []struct {
		cause error
		is    error
		text  string
	}{
		{ErrNotSupported, ErrNotSupported, "admission by sk_lookup: not supported by this kernel: needs Linux 5.9"},
		{fmt.Errorf("load: %w", ErrPermission), ErrPermission, "admission by sk_lookup: not permitted: needs CAP_BPF and CAP_NET_ADMIN"},
	} {
		err := f.err(c.cause)
		if e := (*Error)(nil); !errors.Is(err, c.is) || !errors.As(err, &e) || err.Error() != c.text {
			t.Errorf("%v: %q", c.cause, err)
		}
	}
	if f.err(nil) != nil {
		t.Error("an error of nothing")
	}
}

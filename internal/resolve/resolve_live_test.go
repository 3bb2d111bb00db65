//go:build live

package resolve

import (
	"testing"
)

func TestLocalIsAnAddressOfThisHost(t *testing.T) {
	t.Parallel()
	if a := local(parse("192.0.2.7", "127.0.0.1", "127.0.0.2")); a.String() != "127.0.0.1" {
		t.Error(a)
	}
	if a := local(parse("192.0.2.7", "192.0.2.8")); a.String() != "192.0.2.7" {
		t.Error(a)
	}
	if a, err := Local(t.Context(), "localhost"); err != nil || !a.IsLoopback() {
		t.Errorf("%v, %v", a, err)
	}
}

package address

import (
	"net/netip"
	"strings"
	"testing"
)

func TestErrorsDoNotListHundredsOfAddresses(t *testing.T) {
	t.Parallel()
	var all []netip.Addr
	for i := range 300 {
		all = append(all, netip.AddrFrom4([4]byte{127, 0, byte(i >> 8), byte(i)}))
	}
	if s := Enumerate(all); strings.Count(s, ",") != 7 || !strings.HasSuffix(s, " and 292 more") {
		t.Error(s)
	}
	if s := Enumerate(nil); s != "none" {
		t.Error(s)
	}
}

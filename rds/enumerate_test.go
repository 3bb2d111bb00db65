package rds

import (
	"net/netip"
	"strings"
	"testing"
)

func TestErrorsDoNotListHundredsOfAddresses(t *testing.T) {
	t.Parallel()
	var all []netip.Addr
	for range 300 {
		all = append(all, newAddr())
	}
	if s := enumerate(all); strings.Count(s, ",") != 7 || !strings.HasSuffix(s, " and 292 more") {
		t.Error(s)
	}
	if s := enumerate(nil); s != "none" {
		t.Error(s)
	}
}

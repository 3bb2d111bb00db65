//go:build !live

package ebpf

import (
	"net/netip"
	"testing"
)

func TestOptionsThatMakeNoSenseAreRefused(t *testing.T) {
	t.Parallel()
	for _, o := range []AdmissionOptions{
		{},
		{Deny: "loudly"},
		{Deny: Refuse, Interfaces: []string{"eth0"}},
		{Deny: Silent, Interfaces: []string{}},
		{Deny: Silent, Interfaces: []string{"lo"}},
		{Deny: Refuse, Ports: []uint16{}},
		{Deny: Refuse, Ports: []uint16{0}},
		{Deny: Refuse, Ports: make([]uint16, 9)},
		{Deny: Refuse, Owner: -1},
		{Deny: Refuse, Allow: make([]netip.Prefix, 1)},
		{Deny: Silent, Interfaces: []string{"no such one"}},
		{Deny: Refuse, Netns: "/no/such/file"},
		{Deny: Refuse, Dir: t.TempDir()},
		{Deny: Refuse, Dir: "/no/such/directory"},
	} {
		if a, err := LoadAdmission(o); err == nil {
			a.Close()
			t.Errorf("%+v is taken", o)
		}
	}
}

package main

import (
	"net/netip"
	"reflect"
	"testing"

	"github.com/rds-go/rds/rds"
)

func allowing(list ...string) rds.Admission {
	var a rds.Admission
	for _, p := range list {
		a.Allow = append(a.Allow, netip.MustParsePrefix(p))
	}
	return a
}

func TestAllowSetting(t *testing.T) {
	t.Parallel()
	p := serving(t, "[admission]\nallow = ['10.0.0.0/24', ' 10.0.0.7 ', 'fd00:1::/64', 'fd00::7', '::ffff:10.1.0.0/112', 'localhost']\n")
	if want := allowing("10.0.0.0/24", "fd00:1::/64", "::ffff:10.1.0.0/112", "10.0.0.7/32", "fd00::7/128", "127.0.0.1/32"); !reflect.DeepEqual(p.node.Admission, want) {
		t.Errorf("got %v, want %v", p.node.Admission, want)
	}
	if p := serving(t, ""); p.node.Admission.Allow != nil {
		t.Errorf("without the setting %v", p.node.Admission)
	}
	s := defaults()
	s.Listen = []string{"10.0.0.1"}
	s.Admission.Allow = []string{"10.0.0.0/33", "10.0.0.256", "10.0.0.7/24", "fe80::1%eth0"}
	_, err := s.plan()
	const want = `admission.allow: "10.0.0.0/33" is neither a prefix such as "10.0.0.0/24" nor a host
admission.allow: "10.0.0.7/24" has bits behind its length: 10.0.0.0/24 is the prefix, 10.0.0.7 the address
admission.allow: "10.0.0.256": neither an IP address nor a host name
admission.allow: "fe80::1%eth0": an address without its zone allows all interfaces`
	if err == nil || err.Error() != want {
		t.Errorf("error %v\nwant %s", err, want)
	}
}

// SIGHUP gives the node a list that has changed, and only then.
func TestReloadChangesTheAllowList(t *testing.T) {
	t.Parallel()
	r := newRig()
	n := r.node
	r.reloaded(t, "[admission]\nallow = ['10.0.0.0/24']\n")
	if want := []rds.Admission{allowing("10.0.0.0/24")}; !reflect.DeepEqual(n.admissions, want) {
		t.Errorf("the node has %v, want %v", n.admissions, want)
	}
	if got := keys(r, "reloaded", "changed"); !reflect.DeepEqual(got, []string{"admission.allow"}) {
		t.Errorf("changed %q", got)
	}
	r = newRig()
	r.reloaded(t, "[sessions]\nmax = 7\n")
	if n := r.node; n.admissions != nil {
		t.Errorf("a list that has not changed: %v", n.admissions)
	}
	r = newRig()
	r.reloaded(t, "npaths = 3\n[admission]\nallow = ['10.0.0.0/24']\n")
	if n := r.node; n.admissions != nil || len(r.set.Admission.Allow) != 0 {
		t.Errorf("a file with a mistake changes the list: %v", n.admissions)
	}
}

//go:build !live

package main

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/rds-go/rds/ebpf"
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
	s.Admission.Kernel, s.Admission.Deny, s.Admission.Pins = "yes", "loud", "pins"
	_, err := s.plan()
	const want = `admission.allow: "10.0.0.0/33" is neither a prefix such as "10.0.0.0/24" nor a host
admission.allow: "10.0.0.7/24" has bits behind its length: 10.0.0.0/24 is the prefix, 10.0.0.7 the address
admission.allow: "10.0.0.256": neither an IP address nor a host name
admission.allow: "fe80::1%eth0": an address without its zone allows all interfaces
admission.kernel: "yes" is none of auto, require and off
admission.deny: "loud" is neither silent nor refuse
admission.pins: "pins" is not an absolute path, such as /sys/fs/bpf/rds`
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

// fakeFilter is a filter in the kernel that writes down its lists.
type fakeFilter struct {
	ports     []uint16
	deny      ebpf.Deny
	elsewhere bool
	lists     []string
	fails     error
}

func (f *fakeFilter) Set(list []netip.Prefix) error {
	if f.fails == nil {
		f.lists = append(f.lists, fmt.Sprint(list))
	}
	return f.fails
}

func (f *fakeFilter) Status() (ebpf.AdmissionStatus, error) {
	return ebpf.AdmissionStatus{Deny: f.deny, Hooks: []string{"sk_lookup"}, Ports: f.ports, Here: !f.elsewhere, Version: fmt.Sprint(len(f.lists))}, nil
}

func (f *fakeFilter) Close() error { return nil }

// withFilter gives the rig a filter in the kernel, or the error of opening it.
func (r *rig) withFilter(k *fakeFilter, err error) *rig {
	r.filter = newFilter([]uint16{16385, 18634}, r.set.Admission, r.log)
	r.filter.open = func(string) (kernelFilter, error) {
		if err != nil {
			return nil, err
		}
		return k, nil
	}
	return r
}

// read has the rig read a file of these settings again.
func (r *rig) read(t *testing.T, text string) {
	t.Helper()
	file := write(t, text)
	r.load = func() (settings, error) {
		set := defaults()
		set.Listen, set.Socket, set.Control = r.set.Listen, r.set.Socket, r.set.Control
		err := set.load(file)
		return set, err
	}
	r.reload()
}

// The filter in the kernel gets the list of each reload, also one that has not changed: rdsbpf
// may have changed the filter's. A reload that fails gives it the old list back.
func TestReloadChangesTheKernelFilter(t *testing.T) {
	t.Parallel()
	const listed = "[admission]\nallow = ['10.0.0.0/24']\n"
	k := &fakeFilter{ports: []uint16{16385, 18634}, deny: ebpf.Silent}
	r := newRig().withFilter(k, nil)
	r.read(t, listed)
	r.read(t, listed)
	if want := []string{"[10.0.0.0/24]", "[10.0.0.0/24]"}; !slices.Equal(k.lists, want) {
		t.Errorf("the filter had %v, want %v", k.lists, want)
	}
	if r.logs.FilterMessage("kernel filter differs from the settings until rdsbpf load").Len() == 0 {
		t.Errorf("nothing is said of deny: %q", r.messages())
	}
	k.lists, r.service.refused = nil, errors.New("no")
	r.read(t, "[admission]\nallow = []\n")
	if want := []string{"[]", "[10.0.0.0/24]"}; !slices.Equal(k.lists, want) {
		t.Errorf("after a reload that failed the filter had %v, want %v", k.lists, want)
	}
	if i := r.filter.info(); !i.Active || i.Why != "" {
		t.Errorf("%+v", i)
	}
	k.lists = append(k.lists, "of another process")
	if i := r.filter.info(); i.Active || !strings.Contains(i.Why, "set by another process") {
		t.Errorf("%+v", i)
	}
	r.read(t, listed)
	if i := r.filter.info(); !i.Active {
		t.Errorf("%+v", i)
	}
}

// A filter that is missing, fails or is another daemon's is no obstacle, unless it is required.
func TestKernelFilterThatCannotBeUsed(t *testing.T) {
	t.Parallel()
	both := []uint16{16385, 18634}
	for name, c := range map[string]struct {
		k    *fakeFilter
		open error
		line string // line of the log, with auto
		why  string
	}{
		"missing":   {nil, os.ErrNotExist, "no kernel filter, the daemon keeps strangers out by itself", "no pins in /sys/fs/bpf/rds"},
		"forbidden": {nil, os.ErrPermission, "kernel filter not set: it keeps the list it has", "permission denied"},
		"failing":   {&fakeFilter{ports: both, deny: ebpf.Refuse, fails: errors.New("full")}, nil, "kernel filter not set: it keeps the list it has", "full"},
		"elsewhere": {&fakeFilter{ports: both, deny: ebpf.Refuse, elsewhere: true}, nil, "kernel filter not set: it keeps the list it has", "is of another network namespace"},
		"foreign":   {&fakeFilter{ports: []uint16{17000}, deny: ebpf.Refuse}, nil, "kernel filter not set: it keeps the list it has", "is for TCP ports 17000, not for 16385, 18634"},
	} {
		r := newRig().withFilter(c.k, c.open)
		r.reloaded(t, "[admission]\nallow = ['10.0.0.0/24']\n")
		lines := r.logs.FilterMessage(c.line).All()
		if len(lines) != 1 || !strings.Contains(fmt.Sprint(lines[0].ContextMap()["why"]), c.why) || len(r.node.admissions) != 1 {
			t.Errorf("%s: %q, the node has %v", name, r.messages(), r.node.admissions)
		}
		if c.k != nil && c.k.lists != nil {
			t.Errorf("%s: the filter has %v", name, c.k.lists)
		}
		if i := r.filter.info(); i.Active || !strings.Contains(i.Why, c.why) {
			t.Errorf("%s: %+v", name, i)
		}
		r = newRig().withFilter(c.k, c.open)
		r.reloaded(t, "[admission]\nkernel = 'require'\nallow = ['10.0.0.0/24']\n")
		lines = r.logs.FilterMessage("not reloaded").All()
		if len(lines) != 1 || !strings.Contains(fmt.Sprint(lines[0].ContextMap()["error"]), c.why) || r.node.admissions != nil || r.set.Admission.Kernel != kernelAuto {
			t.Errorf("%s, required: %q, the node has %v", name, r.messages(), r.node.admissions)
		}
	}
	k := &fakeFilter{ports: []uint16{16385}, deny: ebpf.Refuse}
	r := newRig().withFilter(k, nil)
	r.reloaded(t, "[admission]\nallow = ['10.0.0.0/24']\n")
	if len(k.lists) != 1 || r.logs.FilterMessage("kernel filter does not look at all ports").Len() != 1 {
		t.Errorf("a filter of one port: %q, lists %v", r.messages(), k.lists)
	}
	if err := r.filter.usable(&admissionSettings{Kernel: kernelRequire}); err == nil {
		t.Error("a filter of one port will do where it is required")
	}
}

//go:build live

package ebpf

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/cilium/ebpf"

	"github.com/rds-go/rds/internal/netlab"
)

// links are the inodes of the pins of a filter's links, by their names.
func links(t *testing.T, dir string) map[string]os.FileInfo {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(dir, linksDir))
	must(t, err)
	out := make(map[string]os.FileInfo)
	for _, e := range entries {
		if out[e.Name()], err = e.Info(); err != nil {
			t.Fatal(err)
		}
	}
	return out
}

func TestPinnedFilterIsReplacedWithoutAGap(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	dir := filepath.Join(netlab.BPFFS(t), "rds")
	o := AdmissionOptions{Dir: dir, Deny: Refuse, Netns: s.here.Netns(), Allow: s.peers()}
	load := func(o AdmissionOptions) *Admission {
		t.Helper()
		a, err := LoadAdmission(o)
		must(t, err)
		t.Cleanup(func() { a.Close() })
		return a
	}
	load(o)
	daemon, err := OpenAdmission(dir)
	must(t, err)
	defer daemon.Close()
	// A stranger who tries all the time never gets in, whatever is loaded.
	done := make(chan struct{})
	var tries sync.WaitGroup
	tries.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
			}
			if c, err := s.dial(s.there, s.strange4, s.here.IP4, silence); err == nil {
				c.Close()
				t.Error("a stranger connected while the filter was replaced")
				return
			}
		}
	})
	before := links(t, dir)
	o.Allow = nil // the list that is there stays
	load(o)
	for name, info := range links(t, dir) {
		if before[name] == nil || !os.SameFile(before[name], info) {
			t.Errorf("loaded again, the same filter has another link %s", name)
		}
	}
	for _, c := range []struct {
		deny  Deny
		ports []uint16
		hooks string
	}{{Silent, nil, "[tcx on eth0]"}, {Silent, []uint16{16385}, "[tcx on eth0]"}, {Refuse, []uint16{16385, 7}, "[sk_lookup]"}, {Refuse, nil, "[sk_lookup]"}, {Silent, nil, "[tcx on eth0]"}} {
		o.Deny, o.Ports = c.deny, c.ports
		a := load(o)
		st, err := a.Status()
		if err != nil || fmt.Sprint(st.Hooks) != c.hooks || st.Prefixes != 2 || c.ports != nil && !slices.Equal(st.Ports, c.ports) {
			t.Errorf("status %+v, %v", st, err)
		}
		if n := len(links(t, dir)); n != 1 {
			t.Errorf("%d links", n)
		}
		s.filters(c.hooks, c.deny)
	}
	close(done)
	tries.Wait()
	// Who opened the first filter changes the list of the last.
	must(t, daemon.Set([]netip.Prefix{netip.PrefixFrom(s.strange4, 32)}))
	s.connects("listed by who opened the first filter", s.there, s.strange4, s.here.IP4)
	s.denied("a peer that is no more listed", Silent, s.there.IP4, s.here.IP4)
	must(t, UnloadAdmission(dir))
	s.open("unloaded")
}

// A filter that refuses sees connections between the host's addresses, and knows them also when
// it takes the place of one that has no need of them.
func TestFilterThatIsReplacedKnowsTheHostsAddresses(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.here.Run("ip", "address", "add", "10.99.0.77/16", "dev", "eth0")
	o := AdmissionOptions{Dir: filepath.Join(netlab.BPFFS(t), "rds"), Netns: s.here.Netns(), Allow: s.peers()}
	for _, o.Deny = range []Deny{Silent, Refuse} {
		a, err := LoadAdmission(o)
		must(t, err)
		must(t, a.Close())
		s.connects(string(o.Deny)+" and oneself", s.here, netip.MustParseAddr("10.99.0.77"), s.here.IP4)
		s.filters(string(o.Deny), o.Deny)
		s.filters(string(o.Deny), o.Deny)
	}
}

// The maps of another version of this package are replaced, and the list is kept.
func TestPinsOfAnotherVersionHandOnTheirList(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	dir := filepath.Join(netlab.BPFFS(t), "rds")
	o := AdmissionOptions{Dir: dir, Deny: Refuse, Netns: s.here.Netns(), Allow: s.peers()}
	a, err := LoadAdmission(o)
	must(t, err)
	defer a.Close()
	other, err := ebpf.NewMap(&ebpf.MapSpec{Name: "other", Type: ebpf.Hash, KeySize: 4, ValueSize: 4, MaxEntries: 1})
	must(t, err)
	defer other.Close()
	must(t, pinMap(other, filepath.Join(dir, mapRefused), 0, 0o600))
	o.Ports = []uint16{16385}
	o.Allow = nil
	b, err := LoadAdmission(o)
	must(t, err)
	defer b.Close()
	s.filters("of the new version", Refuse)
	if _, err := b.Counters(); err != nil {
		t.Error(err)
	}
}

func TestFilterFollowsAnInterfaceThatIsMadeAnew(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	o := AdmissionOptions{Dir: filepath.Join(netlab.BPFFS(t), "rds"), Deny: Silent, Netns: s.here.Netns(), Allow: s.peers()}
	load := func() {
		t.Helper()
		a, err := LoadAdmission(o)
		must(t, err)
		a.Close()
	}
	load()
	s.here.Run("ip", "link", "del", "eth0")
	s.here.Run("ip", "link", "add", "eth0", "type", "veth", "peer", "name", "eth0", "netns", s.there.Name)
	for _, h := range []*netlab.Host{s.here, s.there} {
		h.Run("ip", "address", "add", h.IP4.String()+"/16", "dev", "eth0")
		h.Run("ip", "address", "add", h.IP6.String()+"/64", "dev", "eth0", "nodad")
		h.Run("ip", "link", "set", "eth0", "up")
	}
	s.there.Run("ip", "address", "add", s.strange4.String()+"/16", "dev", "eth0")
	s.there.Run("ip", "address", "add", s.strange6.String()+"/64", "dev", "eth0", "nodad")
	load()
	s.filters("loaded again", Silent)
	if n := len(links(t, o.Dir)); n != 1 {
		t.Errorf("%d links", n)
	}
}

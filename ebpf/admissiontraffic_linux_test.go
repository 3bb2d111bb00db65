//go:build live

package ebpf

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rds-go/rds/internal/netlab"
)

// site is a host with a listener, behind a link to a host of peers and strangers.
type site struct {
	t                  *testing.T
	here, there        *netlab.Host
	port               uint16
	strange4, strange6 netip.Addr
}

// silence is how long a connect waits that is to get no answer.
const silence = 250 * time.Millisecond

// newSite makes a site. Addresses of the host there are its own, for a peer, and 10.99.0.66 and
// fd99::66 for a stranger. What connects is echoed to.
func newSite(t *testing.T) *site {
	t.Helper()
	s := &site{t: t, port: 16385, strange4: netip.MustParseAddr("10.99.0.66"), strange6: netip.MustParseAddr("fd99::66")}
	s.here, s.there = netlab.Pair(t)
	s.there.Run("ip", "address", "add", s.strange4.String()+"/16", "dev", "eth0")
	s.there.Run("ip", "address", "add", s.strange6.String()+"/64", "dev", "eth0", "nodad")
	s.here.Echo(int(s.port))
	return s
}

// interfaceIndex is the index of an interface of the site.
func (s *site) interfaceIndex(name string) (index int, err error) {
	s.here.Do(func() {
		var i *net.Interface
		if i, err = net.InterfaceByName(name); err == nil {
			index = i.Index
		}
	})
	return index, err
}

func (s *site) peers() []netip.Prefix {
	return []netip.Prefix{netip.PrefixFrom(s.there.IP4, 32), netip.PrefixFrom(s.there.IP6, 128)}
}

// dial connects from an address of a host to the site.
func (s *site) dial(h *netlab.Host, from, to netip.Addr, wait time.Duration) (c net.Conn, err error) {
	h.Do(func() {
		d := net.Dialer{LocalAddr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(from, 0)), Timeout: wait}
		d.SetMultipathTCP(false)
		c, err = d.Dial("tcp", netip.AddrPortFrom(to, s.port).String())
	})
	return c, err
}

// echoes fails the test unless a connection works.
func (s *site) echoes(what string, c net.Conn) {
	s.t.Helper()
	buf := make([]byte, 4)
	_ = c.SetDeadline(time.Now().Add(10 * time.Second))
	if _, err := c.Write([]byte("ping")); err != nil {
		s.t.Errorf("%s: %v", what, err)
	} else if _, err := io.ReadFull(c, buf); err != nil {
		s.t.Errorf("%s: %v", what, err)
	}
}

// connects fails the test unless a connection can be made and works.
func (s *site) connects(what string, h *netlab.Host, from, to netip.Addr) {
	s.t.Helper()
	c, err := s.dial(h, from, to, 10*time.Second)
	if err != nil {
		s.t.Errorf("%s: %v", what, err)
		return
	}
	defer c.Close()
	s.echoes(what, c)
}

// denied fails the test unless a connection is denied in the way that is asked for.
func (s *site) denied(what string, deny Deny, from, to netip.Addr) {
	s.t.Helper()
	limit := silence
	if deny == Refuse {
		limit = 10 * time.Second
	}
	c, err := s.dial(s.there, from, to, limit)
	if err == nil {
		c.Close()
		s.t.Errorf("%s: connected", what)
		return
	}
	refused := errors.Is(err, syscall.ECONNREFUSED)
	var timeout net.Error
	silent := errors.As(err, &timeout) && timeout.Timeout()
	if deny == Refuse && !refused || deny == Silent && !silent {
		s.t.Errorf("%s: %v, want it %s", what, err, deny)
	}
}

// filters fails the test unless peers connect and strangers do not.
func (s *site) filters(what string, deny Deny) {
	s.t.Helper()
	s.connects(what+": IPv4 peer", s.there, s.there.IP4, s.here.IP4)
	s.connects(what+": IPv6 peer", s.there, s.there.IP6, s.here.IP6)
	s.denied(what+": IPv4 stranger", deny, s.strange4, s.here.IP4)
	s.denied(what+": IPv6 stranger", deny, s.strange6, s.here.IP6)
}

// open fails the test unless strangers connect.
func (s *site) open(what string) {
	s.t.Helper()
	s.connects(what+": IPv4 stranger", s.there, s.strange4, s.here.IP4)
	s.connects(what+": IPv6 stranger", s.there, s.strange6, s.here.IP6)
}

var admissionVariants = []struct {
	name  string
	deny  Deny
	kinds []hookKind
	hook  string
	setup func(*site)
}{
	{"sk_lookup", Refuse, []hookKind{hookLookup}, "sk_lookup", nil},
	{"tcx", Silent, []hookKind{hookTCX, hookXDP}, "tcx on eth0", nil},
	{"XDP", Silent, []hookKind{hookXDP}, "XDP on eth0", nil},
	{"XDP generic", Silent, []hookKind{hookXDP}, "XDP on br0 (generic)", func(s *site) {
		// A bridge's driver has no XDP.
		s.here.Run("ip", "address", "flush", "dev", "eth0")
		s.here.Run("ip", "link", "add", "br0", "type", "bridge")
		s.here.Run("ip", "link", "set", "eth0", "master", "br0")
		s.here.Run("ip", "address", "add", s.here.IP4.String()+"/16", "dev", "br0")
		s.here.Run("ip", "address", "add", s.here.IP6.String()+"/64", "dev", "br0", "nodad")
		s.here.Run("ip", "link", "set", "br0", "up")
	}},
}

func TestStrangersDoNotConnect(t *testing.T) {
	t.Parallel()
	for _, v := range admissionVariants {
		t.Run(v.name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t)
			if v.setup != nil {
				v.setup(s)
			}
			before, err := s.dial(s.there, s.strange4, s.here.IP4, 10*time.Second)
			must(t, err)
			defer before.Close()
			o := AdmissionOptions{Deny: v.deny, Netns: s.here.Netns(), Allow: s.peers()}
			if v.deny == Silent {
				_, name, _ := strings.Cut(strings.TrimSuffix(v.hook, " (generic)"), " on ")
				o.Interfaces = []string{name}
			}
			a, err := loadAdmission(o, silentFeature, v.kinds)
			must(t, err)
			defer a.Close()
			s.filters("loaded", v.deny)
			s.echoes("a connection that was there", before)
			own4, own6 := []netip.Addr{s.here.IP4, netip.MustParseAddr("127.0.0.1")}, []netip.Addr{s.here.IP6, netip.IPv6Loopback()}
			for _, own := range [][]netip.Addr{own4, own6} {
				for _, from := range own {
					for _, to := range own {
						s.connects("own address", s.here, from, to)
					}
				}
			}
			during, err := s.dial(s.there, s.there.IP6, s.here.IP6, 10*time.Second)
			must(t, err)
			defer during.Close()
			st, err := a.Status()
			if err != nil || fmt.Sprint(st.Hooks) != "["+v.hook+"]" || st.Prefixes != 2 || st.Passed < 3 || st.Refused < 2 || st.Deny != v.deny {
				t.Errorf("status %+v, %v", st, err)
			}
			counts, err := a.Counters()
			if c := counts[s.strange4]; err != nil || c.Refused == 0 || time.Since(c.Last) > time.Minute || counts[s.strange6].Refused == 0 || len(counts) != 2 {
				t.Errorf("counters %v, %v", counts, err)
			}
			// The stranger is listed, the peer no more.
			must(t, a.Set([]netip.Prefix{netip.PrefixFrom(s.strange4, 32)}))
			s.connects("listed", s.there, s.strange4, s.here.IP4)
			s.denied("no more listed", v.deny, s.there.IP6, s.here.IP6)
			s.echoes("a connection of who is no more listed", during)
			must(t, a.Set(nil))
			s.open("empty list")
			must(t, a.Set(s.peers()))
			s.filters("set again", v.deny)
			must(t, a.Close())
			s.open("closed")
			if err := a.Set(nil); !errors.Is(err, os.ErrClosed) {
				t.Errorf("Set when closed: %v", err)
			}
		})
	}
}

// A router drops what strangers send to itself, and sends on what is for others.
func TestForwardedConnectionsAreNotTheFiltersBusiness(t *testing.T) {
	t.Parallel()
	client, router := netlab.Pair(t)
	server, _ := netlab.Pair(t)
	router.Run("ip", "link", "add", "to-server", "type", "veth", "peer", "name", "to-router", "netns", server.Name)
	for _, c := range []struct {
		host    *netlab.Host
		command string
	}{
		{server, "ip link del eth0"},
		{router, "ip address add 10.98.0.1/16 dev to-server"},
		{router, "ip address add fd98::1/64 dev to-server nodad"},
		{router, "ip link set to-server up"},
		{server, "ip address add 10.98.0.2/16 dev to-router"},
		{server, "ip address add fd98::2/64 dev to-router nodad"},
		{server, "ip link set to-router up"},
		{server, "ip route add default via 10.98.0.1"},
		{server, "ip route add default via fd98::1"},
		{client, "ip route add 10.98.0.0/16 via 10.99.0.2"},
		{client, "ip route add fd98::/64 via fd99::2"},
	} {
		c.host.Run(strings.Fields(c.command)...)
	}
	router.Run("sh", "-c", "echo 1 > /proc/sys/net/ipv4/ip_forward; echo 1 > /proc/sys/net/ipv6/conf/all/forwarding")
	for _, h := range []*netlab.Host{router, server} {
		h.Echo(16385)
	}
	for _, kind := range []hookKind{hookTCX, hookXDP} {
		a, err := loadAdmission(AdmissionOptions{Deny: Silent, Netns: router.Netns(), Allow: prefixes("192.0.2.0/24")}, silentFeature, []hookKind{kind})
		must(t, err)
		for to, own := range map[string]bool{"10.99.0.2": true, "fd99::2": true, "10.98.0.1": true, "10.98.0.2": false, "fd98::2": false} {
			wait := 5 * time.Second
			if own {
				wait = silence
			}
			client.Do(func() {
				var c net.Conn
				if c, err = net.DialTimeout("tcp", net.JoinHostPort(to, "16385"), wait); err == nil {
					c.Close()
				}
			})
			var timeout net.Error
			if own && (!errors.As(err, &timeout) || !timeout.Timeout()) || !own && err != nil {
				t.Errorf("%s: connect to %s: %v", kind, to, err)
			}
		}
		if s, err := a.Status(); err != nil || s.Refused < 3 || s.Passed != 0 {
			t.Errorf("%s: %+v, %v", kind, s, err)
		}
		must(t, a.Close())
	}
}

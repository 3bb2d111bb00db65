//go:build !live

package resolve

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// zone is a resolver that knows one name.
func zone(name string, list ...netip.Addr) func(context.Context, string, string) ([]netip.Addr, error) {
	return func(_ context.Context, network, host string) ([]netip.Addr, error) {
		if host != name || network != "ip" {
			return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
		}
		return list, nil
	}
}

func TestIPv4ComesFirst(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ has, want []string }{
		{[]string{"10.0.0.2", "10.0.0.1"}, []string{"10.0.0.2", "10.0.0.1"}}, // the resolver's order stays
		{[]string{"2001:db8::1", "10.0.0.2", "2001:db8::2", "10.0.0.1"}, []string{"10.0.0.2", "10.0.0.1", "2001:db8::1", "2001:db8::2"}},
		{[]string{"::ffff:10.0.0.1"}, []string{"10.0.0.1"}},
		{[]string{"0.0.0.0", "2001:db8::1", "224.0.0.1"}, []string{"2001:db8::1"}},
	} {
		got, err := addrs(t.Context(), "node7", zone("node7", parse(c.has...)...))
		if err != nil || !slices.Equal(got, parse(c.want...)) {
			t.Errorf("%v: %v, %v; want %v", c.has, got, err, c.want)
		}
	}
}

func TestAddressesAreNotLookedUp(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{"10.0.0.1": "10.0.0.1", "2001:db8::1": "2001:db8::1", "::ffff:10.0.0.1": "10.0.0.1", "0.0.0.0": "0.0.0.0"} {
		got, err := addrs(t.Context(), in, nil)
		if err != nil || len(got) != 1 || got[0].String() != want {
			t.Errorf("%s: %v, %v", in, got, err)
		}
	}
}

func TestErrorsNameTheHost(t *testing.T) {
	t.Parallel()
	_, err := addrs(t.Context(), "node8", zone("node7"))
	if dns := new(net.DNSError); err == nil || err.Error() != "unknown host node8" || !errors.As(err, &dns) {
		t.Error(err)
	}
	_, err = addrs(t.Context(), "node7", zone("node7", parse("0.0.0.0")...))
	if err == nil || err.Error() != "host node7 has no address of a host, only [0.0.0.0]" {
		t.Error(err)
	}
	_, err = addrs(t.Context(), "node7", func(context.Context, string, string) ([]netip.Addr, error) {
		return nil, &net.DNSError{Err: "server misbehaving", Name: "node7", IsTemporary: true}
	})
	if err == nil || !strings.Contains(err.Error(), "host node7: the name could not be looked up") {
		t.Error(err)
	}
	for _, host := range []string{"", "10.0.0.256", "10.0.0", "5000", "a b", "node7:5000", "fd00::1::2", "a..b", ".a", "10.0.0.1/24", strings.Repeat("a", 64), strings.Repeat("a.", 127) + "a"} {
		if _, err := addrs(t.Context(), host, nil); !errors.Is(err, errName) {
			t.Errorf("%q: %v", host, err)
		}
	}
	for _, host := range []string{"a", "node-7.example.com.", "_x.y", "7.node", "3com", "a.9b"} {
		if !IsName(host) {
			t.Errorf("%q is not a name", host)
		}
	}
}

// A resolver that does not answer costs timeout, or what the caller has left.
func TestLookUpEnds(t *testing.T) {
	t.Parallel()
	silent := func(ctx context.Context, _, _ string) ([]netip.Addr, error) {
		<-ctx.Done()
		return nil, &net.DNSError{Err: "i/o timeout", Name: "node7", IsTimeout: true}
	}
	synctest.Test(t, func(t *testing.T) {
		for _, limit := range []time.Duration{time.Second, time.Hour} {
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			begin := time.Now()
			_, err := addrs(ctx, "node7", silent)
			cancel()
			if took, want := time.Since(begin), min(limit, timeout); took != want || !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "node7") {
				t.Errorf("limit %v: %v after %v, want %v", limit, err, took, want)
			}
		}
	})
}

func TestLocalhost(t *testing.T) {
	t.Parallel()
	a, err := Addr(t.Context(), "localhost")
	if err != nil || !a.IsLoopback() {
		t.Errorf("%v, %v", a, err)
	}
}

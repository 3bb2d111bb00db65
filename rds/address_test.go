//go:build !live

package rds

import (
	"errors"
	"net"
	"strings"
	"syscall"
	"testing"
)

func TestParseAddr(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"10.77.0.1:5000": "10.77.0.1:5000", "10.77.0.1:0": "10.77.0.1:0", "[2001:db8::1]:65535": "[2001:db8::1]:65535",
		"[::ffff:10.77.0.1]:5000": "10.77.0.1:5000", "[fe80::1%eth0]:5000": "[fe80::1%eth0]:5000",
	} {
		if got, err := ParseAddr(in); err != nil || got.String() != want {
			t.Errorf("%s: %v, %v", in, got, err)
		}
		if got, err := ResolveAddr(t.Context(), in); err != nil || got.String() != want {
			t.Errorf("ResolveAddr(%s): %v, %v", in, got, err)
		}
	}
	for in, why := range map[string]string{
		"":                  "is empty",
		":5000":             "has no IP address before the port",
		"localhost:5000":    "has the host name localhost, which Listen and ResolveAddr look up",
		"10.77.0.1":         "has no port: give 10.77.0.1:4000",
		"2001:db8::1":       "has no port: give [2001:db8::1]:4000",
		"[2001:db8::1]":     "has no port: give [2001:db8::1]:4000",
		"localhost":         "has no port: give localhost:4000",
		"2001:db8::1:5000x": "an IPv6 address without brackets",
		"10.77.0.1:http":    `has the port "http", which is not a number from 0 to 65535`,
		"10.77.0.1:65536":   `has the port "65536"`,
		"10.77.0.1:":        `has the port ""`,
		"10.77.0.256:5000":  `has the host "10.77.0.256", which is neither an IP address nor a name`,
		"a b:5000":          `has the host "a b"`,
		"a b":               "is not IP:port or host:port",
		"0.0.0.0:5000":      "0.0.0.0 is not the address of a host",
		"[::]:5000":         ":: is not the address of a host",
		"224.0.0.1:5000":    "224.0.0.1 is not the address of one host",
		"255.255.255.255:1": "255.255.255.255 is not the address of one host",
	} {
		_, err := ParseAddr(in)
		wantSaid(t, in, err, syscall.EINVAL, `rds: parse address: address "`+in+`" `, why)
		if in == "localhost:5000" {
			continue
		}
		_, err = ResolveAddr(t.Context(), in)
		wantSaid(t, "ResolveAddr "+in, err, ErrInvalid, `rds: resolve: address "`+in+`" `, why)
	}
}

func TestResolveAddr(t *testing.T) {
	t.Parallel()
	if a, err := ResolveAddr(t.Context(), "localhost:5000"); err != nil || a.String() != "127.0.0.1:5000" {
		t.Errorf("%v, %v", a, err)
	}
	_, err := ResolveAddr(t.Context(), "no-such-host.invalid:5000")
	if dns := new(net.DNSError); !errors.As(err, &dns) || !strings.Contains(err.Error(), `address "no-such-host.invalid:5000"`) {
		t.Error(err)
	}
}

// WriteTo takes what ParseAddr reads, and says what is wrong with the rest.
func TestWriteToNamesTheAddress(t *testing.T) {
	t.Parallel()
	l := newLoopLab(t)
	s := l.bind(l.node(Config{}))
	for _, a := range []string{"localhost:5000", "10.77.0.1"} {
		_, err := s.WriteTo(nil, textAddr(a))
		wantSaid(t, a, err, ErrInvalid, `address "`+a+`" has `)
	}
}

type textAddr string

func (a textAddr) Network() string { return "rds" }
func (a textAddr) String() string  { return string(a) }

//go:build !live

package main

import (
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
)

// The configuration in docs/SECURITY.md is one: rdsd listens on the tunnel's address and has
// connections with the tunnel's network alone.
func TestExampleOfSecurity(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/SECURITY.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(page), "```toml\n")
	text, _, ok := strings.Cut(rest, "```")
	if !ok {
		t.Fatal("no configuration in docs/SECURITY.md")
	}
	s := defaults()
	if err := s.load(write(t, text)); err != nil {
		t.Fatal(err)
	}
	p, err := s.plan()
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(p.node.Addresses, []netip.Addr{netip.MustParseAddr("10.77.0.1")}) || !slices.Equal(p.node.Admission.Allow, []netip.Prefix{netip.MustParsePrefix("10.77.0.0/24")}) {
		t.Errorf("%v, %v", p.node.Addresses, p.node.Admission)
	}
}

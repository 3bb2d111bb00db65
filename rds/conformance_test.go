//go:build live

package rds_test

import (
	"math/rand/v2"
	"net/netip"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rds-go/rds/internal/conformance"
	"github.com/rds-go/rds/rds"
)

// The same suite for a Node and for a Client of rdsd; test/interop runs it for
// the kernel.

// place hands out addresses of 127.0.0.0/8 and ports that no other test has,
// nor, most likely, another process.
var place = struct {
	base  uint32
	addrs atomic.Uint32
	ports atomic.Uint32
}{base: 1<<23 + 1<<16 + rand.Uint32N(1<<22)}

func placeAddr() netip.Addr {
	for {
		n := place.base + place.addrs.Add(1)
		if b := n & 0xff; b > 1 && b < 0xfe {
			return netip.AddrFrom4([4]byte{127, byte(n >> 16), byte(n >> 8), byte(n)})
		}
	}
}

func placeSetup() conformance.Setup {
	return conformance.Setup{NearAddr: placeAddr(), FarAddr: placeAddr(), Other: placeAddr(), Nowhere: placeAddr(), Foreign: netip.MustParseAddr("192.0.2.1")}
}

var placePort = uint16(26200 + rand.Uint32N(3000))

func placeNode(t *testing.T, port uint16) *rds.Node {
	t.Helper()
	n, err := rds.NewNode(rds.Config{Port: port, Linger: -1, XRC: rds.XRCConfig{Patience: time.Minute}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = n.Close() })
	return n
}

func nextPort() uint16 { return placePort + uint16(place.ports.Add(1)) }

// placeDaemon serves a node and returns the path to attach to.
func placeDaemon(t *testing.T, port uint16) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "rds") // short enough for a socket's name
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	path := filepath.Join(dir, "s")
	svc, err := rds.NewService(placeNode(t, port), rds.ServiceConfig{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = svc.Close() })
	return path
}

func placeClient(t *testing.T, path string) *rds.Client {
	t.Helper()
	c, err := rds.Dial(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func TestConformance(t *testing.T) {
	t.Run("node", func(t *testing.T) {
		conformance.Run(t, rds.ProviderNode, func(t *testing.T) conformance.Setup {
			s, port := placeSetup(), nextPort()
			s.Near, s.Far = placeNode(t, port), placeNode(t, port)
			return s
		})
	})
	t.Run("one node", func(t *testing.T) {
		conformance.Run(t, rds.ProviderNode, func(t *testing.T) conformance.Setup {
			s := placeSetup()
			n := placeNode(t, nextPort())
			s.Near, s.Far, s.OneHost = n, n, true
			return s
		})
	})
	t.Run("rdsd", func(t *testing.T) {
		conformance.Run(t, rds.ProviderDaemon, func(t *testing.T) conformance.Setup {
			s, port := placeSetup(), nextPort()
			s.Near, s.Far = placeClient(t, placeDaemon(t, port)), placeClient(t, placeDaemon(t, port))
			return s
		})
	})
	t.Run("one rdsd", func(t *testing.T) {
		conformance.Run(t, rds.ProviderDaemon, func(t *testing.T) conformance.Setup {
			s, path := placeSetup(), placeDaemon(t, nextPort())
			s.Near, s.Far, s.OneHost = placeClient(t, path), placeClient(t, path), true
			return s
		})
	})
}

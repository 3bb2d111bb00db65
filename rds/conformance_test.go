//go:build live

package rds_test

import (
	"net/netip"
	"testing"

	"github.com/rds-go/rds/internal/conformance"
	"github.com/rds-go/rds/internal/rdstest"
	"github.com/rds-go/rds/rds"
)

// The same suite for a Node and for a Client of rdsd; test/interop runs it for
// the kernel.

func setup() conformance.Setup {
	return conformance.Setup{NearAddr: rdstest.NewAddr(), FarAddr: rdstest.NewAddr(), Other: rdstest.NewAddr(), Nowhere: rdstest.NewAddr(), Foreign: netip.MustParseAddr("192.0.2.1")}
}

func nodeIn(l *rdstest.Lab) *rds.Node {
	l.Helper()
	return rdstest.Start(l, rds.NewNode, rds.Config{})
}

// daemonIn serves a node and returns the path to attach to.
func daemonIn(l *rdstest.Lab) (path string) {
	l.Helper()
	_, path = rdstest.Serve(l, rds.NewService, nodeIn(l), rds.ServiceConfig{})
	return path
}

func TestConformance(t *testing.T) {
	for _, c := range []struct {
		name, provider string
		hosts          func(l *rdstest.Lab) (near, far rds.Provider)
		one            bool
	}{
		{"node", rds.ProviderNode, func(l *rdstest.Lab) (near, far rds.Provider) { return nodeIn(l), nodeIn(l) }, false},
		{"one node", rds.ProviderNode, func(l *rdstest.Lab) (near, far rds.Provider) { n := nodeIn(l); return n, n }, true},
		{"rdsd", rds.ProviderDaemon, func(l *rdstest.Lab) (near, far rds.Provider) {
			return rdstest.Attach(l, rds.Dial, daemonIn(l)), rdstest.Attach(l, rds.Dial, daemonIn(l))
		}, false},
		{"one rdsd", rds.ProviderDaemon, func(l *rdstest.Lab) (near, far rds.Provider) {
			path := daemonIn(l)
			return rdstest.Attach(l, rds.Dial, path), rdstest.Attach(l, rds.Dial, path)
		}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			conformance.Run(t, c.provider, func(t *testing.T) conformance.Setup {
				s, l := setup(), rdstest.NewLab(t)
				s.Near, s.Far = c.hosts(&l)
				s.OneHost = c.one
				return s
			})
		})
	}
}

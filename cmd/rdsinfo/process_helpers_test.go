//go:build live

package main

import (
	"net/netip"
	"path/filepath"
	"testing"

	"github.com/rds-go/rds/internal/cli/clitest"
	"github.com/rds-go/rds/internal/rdstest"
	"github.com/rds-go/rds/rds"
)

func info(t *testing.T, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	return clitest.Run(t, bin.Path("rdsinfo"), args...)
}

// started is a node with a control socket.
func started(t *testing.T, port uint16, cfg rds.Config) (_ *rds.Node, ctl string) {
	t.Helper()
	clitest.NeedLoopback(t)
	dir := rdstest.Dir(t)
	cfg.Port, cfg.Linger, cfg.Control = port, -1, filepath.Join(dir, "c.sock")
	n, err := rds.NewNode(cfg)
	rdstest.Must(t, err)
	t.Cleanup(func() { n.Close() })
	return n, cfg.Control
}

func bind(t *testing.T, p rds.Provider, at string) *rds.Socket {
	t.Helper()
	s, err := p.Bind(netip.MustParseAddrPort(at))
	rdstest.Must(t, err)
	return s
}

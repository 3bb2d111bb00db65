//go:build live

package daemon

import (
	"testing"

	"github.com/rds-go/rds/internal/ipc"
	"github.com/rds-go/rds/internal/rdstest"
	"github.com/rds-go/rds/rds/config"
)

// A port that is chosen is none that others have reserved.
func TestChosenPortIsPermitted(t *testing.T) {
	t.Parallel()
	rules := []config.PortRule{{First: 0, Last: 4999, UIDs: []uint32{1 << 30}}, {First: 5003, Last: 65535, UIDs: []uint32{1 << 30}}}
	_, _, path := served(t, newLoopLab(t), config.Node{}, config.Service{Ports: rules})
	e := intrude(t, path)
	defer e.leave()
	here := rdstest.NewAddr()
	for range 3 {
		if _, port := e.bind(rdstest.AddrOf(here, 0)); port < 5000 || port > 5002 {
			t.Errorf("port %d is reserved", port)
		}
	}
	if r := e.ask(ipc.Request{Op: ipc.CallBind, Addr: rdstest.AddrOf(here, 0)}); r.Error == "" {
		t.Error("a fourth port")
	}
}

//go:build !live

package daemon

import (
	"errors"
	"net/netip"
	"testing"

	"github.com/rds-go/rds/internal/rdstest"
	"github.com/rds-go/rds/rds/config"
	"github.com/rds-go/rds/rds/datagram"
)

func TestSetAdmissionIsValidated(t *testing.T) {
	t.Parallel()
	l := newLoopLab(t)
	n := l.node(config.Node{})
	if err := n.SetAdmission(config.Admission{Allow: []netip.Prefix{{}}}); !errors.Is(err, datagram.ErrInvalid) || !n.Allows(rdstest.Nowhere().Addr()) {
		t.Errorf("%v", err)
	}
}

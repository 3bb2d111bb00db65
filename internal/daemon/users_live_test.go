//go:build live

package daemon

import (
	"errors"
	"syscall"
	"testing"

	"github.com/rds-go/rds/internal/client"
	"github.com/rds-go/rds/internal/rdstest"
	"github.com/rds-go/rds/rds/config"
	"github.com/rds-go/rds/rds/datagram"
)

// A user's sessions together may have as many regions as the user's share, and else as the
// user leaves free. They have an owner together, which ends with the last of them.
func TestRegionsOfAUser(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	node, svc, path := served(t, l, config.Node{Wire: config.WireXRC}, config.Service{Users: config.UserShares{Regions: 5}})
	n := 0
	here := rdstest.NewAddr()
	device := node.Regions()
	owners := device.Stats().Owners
	var err error
	var clients []*client.Client
	for i := range 3 {
		c := dialed(t, path)
		clients = append(clients, c)
		s := bound(t, c, rdstest.AddrOf(here, uint16(5+i)))
		m, e := s.AllocMemory(64)
		if e != nil {
			t.Fatal(e)
		}
		for range 4 {
			if _, e := s.GetMR(m.B, datagram.MRReadWrite); e != nil {
				err = e
				break
			}
			n++
		}
	}
	if n != 5 || !errors.Is(err, syscall.EAGAIN) {
		t.Errorf("%d regions, then %v", n, err)
	}
	for i, c := range clients {
		if got := device.Stats().Owners; got <= owners {
			t.Errorf("%d owners while %d sessions have regions, %d before", got, len(clients)-i, owners)
		}
		_ = c.Close()
	}
	rdstest.Eventually(t, "the user's end", func() bool { return len(svc.Users()) == 0 })
	rdstest.Eventually(t, "the end of all owners of regions", func() bool { return device.Stats().Owners == owners })
}

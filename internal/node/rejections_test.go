//go:build !live

package node

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/rds-go/rds/rds/info"
)

func TestRejectionsAreCountedByNeighbourhood(t *testing.T) {
	t.Parallel()
	var r rejections
	now := time.Unix(1_700_000_000, 0)
	for _, a := range []string{"10.0.0.1", "10.0.0.200", "::ffff:10.0.0.7", "10.0.1.1", "fd00:1:2:3::1", "fd00:1:2:3:ffff::2%eth0", "fd00:1:2:4::1"} {
		r.count(netip.MustParseAddr(a), now)
	}
	var got info.Admission
	r.info(&got)
	want := map[string]uint64{"10.0.0.0/24": 3, "10.0.1.0/24": 1, "fd00:1:2:3::/64": 2, "fd00:1:2:4::/64": 1}
	for _, p := range got.Prefixes {
		if want[p.Prefix.String()] != p.Count || !p.Last.Equal(now) {
			t.Errorf("%+v", p)
		}
	}
	if len(got.Prefixes) != len(want) || got.Rejected != 7 || got.Prefixes[0].Count != 3 {
		t.Errorf("%+v", got)
	}
}

// However many prefixes strangers have, the table is bounded, and no rejection is lost.
func TestRejectionsAreBounded(t *testing.T) {
	t.Parallel()
	var r rejections
	const count = 5 * maxRejecting
	for i := range count {
		r.count(netip.AddrFrom4([4]byte{10, byte(i >> 8), byte(i), 1}), time.Unix(1, 0))
	}
	var got info.Admission
	r.info(&got)
	sum := got.Others
	for _, p := range got.Prefixes {
		sum += p.Count
	}
	if len(got.Prefixes) != maxRejecting || got.Rejected != count || sum != count {
		t.Errorf("%d prefixes, %d rejected, %d in sum", len(got.Prefixes), got.Rejected, sum)
	}
}

// The first rejection is logged at once, later ones in sum, and after a quiet time it
// begins anew.
func TestRejectionsAreLoggedInSum(t *testing.T) {
	t.Parallel()
	var r rejections
	core, logs := observer.New(zap.InfoLevel)
	log, at := zap.New(core), time.Unix(1_700_000_000, 0)
	stranger := netip.MustParseAddr("10.0.0.1")
	lines := func() []observer.LoggedEntry { return logs.TakeAll() }
	r.tell(log, at)
	if got := lines(); len(got) != 0 {
		t.Errorf("nobody was rejected: %v", got)
	}
	r.count(stranger, at)
	r.tell(log, at)
	if got := lines(); len(got) != 1 || got[0].ContextMap()["connections"] != uint64(1) || !strings.Contains(got[0].ContextMap()["most"].(string), "10.0.0.0/24: 1") {
		t.Errorf("the first one: %v", got)
	}
	total := 0
	for range 24 * 3600 { // a day, a stranger each second
		at = at.Add(time.Second)
		r.count(stranger, at)
		r.tell(log, at)
		total += logs.Len()
		for _, e := range lines() {
			if e.ContextMap()["prefixes"] != int64(1) {
				t.Errorf("%v", e.ContextMap())
			}
		}
	}
	if total < 20 || total > 40 {
		t.Errorf("%d lines in a day", total)
	}
	at = at.Add(sumLast)
	r.tell(log, at)
	lines()
	at = at.Add(sumLast)
	r.tell(log, at) // nothing since: begins anew
	r.count(stranger, at)
	r.tell(log, at)
	if got := lines(); len(got) != 1 || got[0].ContextMap()["connections"] != uint64(1) {
		t.Errorf("after a quiet time: %v", got)
	}
}

//go:build !live

package bench

import (
	"slices"
	"strings"
	"testing"
)

func TestRDMAPlan(t *testing.T) {
	t.Parallel()
	o := goodOptions()
	o.Provider, o.CRC, o.Depth, o.Reply = "", CRCBoth, 0, 0
	titles := func() (list []string) {
		for _, w := range o.Plan(RDMA) {
			list = append(list, w.Title())
			if !w.checkRDMA() {
				t.Errorf("a server refuses %s", w.Title())
			}
		}
		return list
	}
	for _, c := range []struct {
		set  func()
		want []string
	}{
		{func() { o.Op, o.Sizes = OpWrite, []int{8192, 1 << 20} }, []string{
			"write 8 KiB, depth 32, lists of 8", "write 8 KiB, depth 32, lists of 8, CRC",
			"write 1 MiB, depth 4, single", "write 1 MiB, depth 4, single, CRC"}},
		{func() { o.Op, o.Sizes, o.CRC, o.Batch = OpSend, []int{64}, CRCOff, 100 }, []string{"send 64 B, depth 2048, lists of 100"}},
		{func() { o.Op, o.Depth, o.ULPDU = OpRead, 64, 1024 }, []string{"read 64 B, depth 64, lists of 64, segments of 1024"}},
		{func() { o.PingPong, o.Busy, o.Pin = true, true, PinSame }, []string{"ping-pong read 64 B, segments of 1024, polling, one CPU"}},
	} {
		c.set()
		if got := titles(); !slices.Equal(got, c.want) {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
	o = goodOptions()
	o.CRC, o.Depth = CRCBoth, 0
	if list := titles(); len(list) < 8 || !strings.Contains(list[1], "1 MiB") || !strings.Contains(list[1], "CRC") {
		t.Errorf("the table: %q", list)
	}
}

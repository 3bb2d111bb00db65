//go:build !live

package bench

import (
	"strings"
	"testing"
)

func TestValidateNamesTheOption(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		kind Kind
		set  func(*Options)
		want string // "": valid
	}{
		{Latency, func(o *Options) {}, ""},
		{Mux, func(o *Options) {}, ""},
		{Stress, func(o *Options) {}, ""},
		{Sockets, func(o *Options) { o.Sizes = nil }, ""},
		{OneWay, func(o *Options) { o.Sizes = []int{0} }, ""},
		{Mux, func(o *Options) { o.Sizes = []int{15} }, "16 bytes"},
		{Stress, func(o *Options) { o.Reply = 31 }, "32 bytes"},
		{Latency, func(o *Options) { o.Sizes = nil }, "--size"},
		{Latency, func(o *Options) { o.Paths = 2 }, "--paths"},
		{Latency, func(o *Options) { o.Provider = "x" }, "--provider"},
		{Latency, func(o *Options) { o.Pin = "x" }, "--pin"},
		{Latency, func(o *Options) { o.ZeroCopy = "x" }, "--zero-copy"},
		{Latency, func(o *Options) { o.Duration = 0 }, "--duration"},
		{Latency, func(o *Options) { o.Warmup = -1 }, "--warmup"},
		{Latency, func(o *Options) { o.Repeat = 0 }, "--repeat"},
		{Latency, func(o *Options) { o.Rate = -1 }, "--rate"},
		{OneWay, func(o *Options) { o.Batch = 5000 }, "--batch"},
		{Mux, func(o *Options) { o.Depth = 0 }, "--depth"},
		{Mux, func(o *Options) { o.Sockets = 0 }, "--sockets"},
		{Mux, func(o *Options) { o.Peers = 1 << 20 }, "--peers"},
		{Mux, func(o *Options) { o.Depth, o.Reply = 100, 1<<20 }, "receive buffer"},
		{Sockets, func(o *Options) { o.Sockets = 1 << 20 }, "--sockets"},
		{Mux, func(o *Options) { o.Depth, o.Paths = 0, 3 }, "; "},
		{OneWay, func(o *Options) { o.Provider = "rdsd" }, ""},
		{OneWay, func(o *Options) { o.Provider, o.Server, o.Socket = "rdsd", "host", "/s" }, ""},
		{OneWay, func(o *Options) { o.Provider, o.Socket = "rdsd", "/s" }, "--server"},
		{OneWay, func(o *Options) { o.Server, o.Socket = "host", "/s" }, "--provider rdsd"},
		{"", func(o *Options) { o.Provider, o.Server = "rdsd", "host" }, "needs a mode"},
		{Sockets, func(o *Options) { o.Provider = "rdsd" }, "--provider node"},
		{Mux, func(o *Options) { o.Provider, o.Processes = "rdsd", 4 }, ""},
		{Mux, func(o *Options) { o.Processes = 4 }, "--provider rdsd"},
		{Mux, func(o *Options) { o.Provider, o.Processes, o.Server = "rdsd", 4, "host" }, "without --server"},
		{Mux, func(o *Options) { o.Provider, o.Processes, o.Baseline = "rdsd", 4, true }, "--baseline"},
		{Mux, func(o *Options) { o.Provider, o.Processes, o.Pin = "rdsd", 4, PinSplit }, "--pin"},
		{Mux, func(o *Options) { o.Provider, o.Processes = "rdsd", 1000 }, "256"},
		{Stopped, func(o *Options) { o.Provider, o.Processes, o.Sockets = "rdsd", 32, 12 }, ""},
		{Stopped, func(o *Options) { o.Processes, o.Sockets = 32, 12 }, "--provider rdsd"},
		{Stopped, func(o *Options) { o.Provider, o.Processes, o.Sockets = "rdsd", 1, 12 }, "--pairs"},
		{Stopped, func(o *Options) { o.Provider, o.Processes, o.Sockets = "rdsd", 32, 10 }, "--sockets is 11"},
		{Stopped, func(o *Options) { o.Provider, o.Processes, o.Sockets, o.Wire = "rdsd", 32, 12, "tcp" }, "--wire"},
		{Stopped, func(o *Options) { o.Provider, o.Processes, o.Sockets, o.Sizes = "rdsd", 32, 12, []int{7} }, "8 bytes"},
		{OneWay, func(o *Options) { o.CRC = CRCAuto }, ""},
		{OneWay, func(o *Options) { o.CRC = CRCBoth }, "--crc"},
		{RDMA, func(o *Options) { o.Provider, o.CRC, o.Op = "", CRCOn, OpWrite }, ""},
		{RDMA, func(o *Options) { o.Provider, o.CRC, o.Depth = "", CRCOn, 0 }, ""},
		{RDMA, func(o *Options) { o.CRC, o.Op = CRCOn, OpWrite }, "--provider"},
		{RDMA, func(o *Options) { o.Provider, o.CRC, o.Op = "", CRCOn, "x" }, "--op"},
		{RDMA, func(o *Options) { o.Provider, o.Op, o.CRC = "", OpWrite, CRCAuto }, "--crc"},
		{RDMA, func(o *Options) { o.Provider, o.CRC = "", CRCOn }, "need --op"},
		{RDMA, func(o *Options) { o.Provider, o.CRC, o.Op, o.Depth = "", CRCOn, OpRead, 129 }, "128"},
		{RDMA, func(o *Options) { o.Provider, o.CRC, o.Op, o.ULPDU = "", CRCOn, OpRead, 100 }, "--ulpdu"},
		{RDMA, func(o *Options) { o.Provider, o.CRC, o.Op, o.Sizes = "", CRCOn, OpRead, []int{0} }, "--size"},
		{RDMA, func(o *Options) { o.Provider, o.CRC, o.Depth, o.PingPong = "", CRCOn, 0, true }, "--ping-pong"},
		{Regions, func(o *Options) { o.Provider, o.Sizes = "", nil }, ""},
		{Regions, func(o *Options) {}, "--provider"},
		{Fair, func(o *Options) { o.Provider = "rdsd" }, ""},
		{Fair, func(o *Options) {}, "--provider rdsd"},
		{Attach, func(o *Options) { o.Provider, o.Attaches, o.Sessions = "rdsd", 10, 10 }, ""},
		{Attach, func(o *Options) { o.Provider, o.Attaches = "rdsd", 0 }, "--attaches"},
		{Attach, func(o *Options) { o.Provider, o.Attaches, o.Sessions = "rdsd", 10, 1<<20 }, "--sessions"},
	} {
		o := goodOptions()
		c.set(&o)
		err := o.Validate(c.kind)
		if (err == nil) != (c.want == "") || err != nil && (!strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n")) {
			t.Errorf("%s: %v, want %q", c.kind, err, c.want)
		}
	}
}

func TestPlan(t *testing.T) {
	t.Parallel()
	o := goodOptions()
	o.Sizes, o.Baseline = []int{64, 1 << 20}, true
	if w := o.Plan(OneWay); len(w) != 2 || w[0].ZeroCopy || !w[1].ZeroCopy || !w[1].Baseline || w[1].Batch != 1 {
		t.Errorf("%+v", w)
	}
	o.ZeroCopy = "off"
	if w := o.Plan(OneWay); w[1].ZeroCopy {
		t.Errorf("%+v", w)
	}
	if w := o.Plan(Mux); len(w) != 2 || w[0].Batch != o.Depth || w[0].Sockets != 4 {
		t.Errorf("%+v", w)
	}
	if w := o.Plan(Stress); len(w) != 1 || len(w[0].Sizes) != 2 || w[0].Baseline {
		t.Errorf("%+v", w)
	}
	for _, o.Provider = range []string{"node", "rdsd"} {
		titles := map[string]bool{}
		for _, w := range o.Demonstration() {
			if titles[w.Title()] {
				t.Errorf("two works are called %q", w.Title())
			}
			titles[w.Title()] = true
		}
	}
}

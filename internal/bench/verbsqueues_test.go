//go:build !live

package bench

import (
	"slices"
	"strings"
	"testing"
)

func TestQueuesBounds(t *testing.T) {
	t.Parallel()
	good := func() Options {
		o := goodOptions()
		o.Provider, o.CRC, o.Op, o.Sizes, o.Depth, o.Batch = "", CRCOff, OpSend, []int{64}, 0, 0
		o.Queues, o.Stopped = 32, 1
		return o
	}
	o := good()
	if err := o.Validate(RDMA); err != nil {
		t.Fatal(err)
	}
	plan := o.Plan(RDMA)
	if len(plan) != 1 || plan[0].Title() != "send 64 B, depth 4096, lists of 64, 32 queues, 1 stopped" || !plan[0].checkRDMA() {
		t.Fatalf("%+v", plan)
	}
	if got := o.transports(&plan[0]); !slices.Equal(got, []Transport{IWARP, Running}) {
		t.Errorf("transports %q", got)
	}
	for name, set := range map[string]func(*Options){
		"--op":         func(o *Options) { o.Op = OpWrite },
		"--queues":     func(o *Options) { o.PingPong = true },
		"at most 4096": func(o *Options) { o.Queues = maxQueues + 1 },
		"--stopped":    func(o *Options) { o.Stopped = 32 },
		"--depth":      func(o *Options) { o.Depth = 31 },
	} {
		o := good()
		set(&o)
		if err := o.Validate(RDMA); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, spoil := range map[string]func(*Work){
		"write":     func(w *Work) { w.Op = OpWrite },
		"negative":  func(w *Work) { w.Queues = -1 },
		"all":       func(w *Work) { w.Stopped = w.Queues },
		"none":      func(w *Work) { w.Queues = 0 },
		"no window": func(w *Work) { w.Queues = w.Depth + 1; w.Depth = 1 },
		"memory":    func(w *Work) { w.Size, w.Depth, w.Batch = 1<<20, 32, 1 },
	} {
		w := plan[0]
		spoil(&w)
		if w.checkRDMA() {
			t.Errorf("%s: a server takes %+v", name, w)
		}
	}
}

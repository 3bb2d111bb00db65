package bench

import (
	"context"
	"slices"
	"strings"
	"testing"
)

// Sends are spread over shared queues, inline and from a region, with lists and
// without, and queues that are stopped do not end the others.
func TestSendsOverSharedQueues(t *testing.T) {
	o := rdmaOptions(t)
	o.Op, o.CRC, o.Repeat = OpSend, CRCOff, 2
	var works []Work
	for _, c := range []struct{ queues, stopped, depth, batch, size int }{
		{1, 0, 0, 0, 64}, {7, 0, 0, 0, 64}, {32, 1, 0, 0, 64}, {5, 4, 160, 8, 64}, {4, 1, 130, 5, 300},
	} {
		o.Queues, o.Stopped, o.Depth, o.Batch, o.Sizes = c.queues, c.stopped, c.depth, c.batch, []int{c.size}
		if err := o.Validate(RDMA); err != nil {
			t.Fatal(err)
		}
		works = append(works, o.Plan(RDMA)...)
	}
	rep, err := (&Runner{Options: o}).Run(context.Background(), works)
	if err != nil {
		t.Fatal(err)
	}
	for i, row := range rep.Rows {
		w := works[i]
		if !row.Finished || row.RDS.Messages == 0 || row.TCP == nil || row.Ratio <= 0 {
			t.Errorf("%s: %+v", row.Title, row)
		}
		if (w.Stopped > 0) != (row.Running != nil) || w.Stopped > 0 && row.OfRunning <= 0 {
			t.Errorf("%s: without what is stopped %+v, ratio %g", row.Title, row.Running, row.OfRunning)
		}
	}
	var text strings.Builder
	if err := rep.WriteText(&text); err != nil {
		t.Fatal(err)
	}
	if want := "32 queues, 1 stopped: "; !strings.Contains(text.String(), want) {
		t.Errorf("no %q in\n%s", want, text.String())
	}
}

func TestInterruptedSharedQueuesKeepWhatThereIs(t *testing.T) {
	o := rdmaOptions(t)
	o.Op, o.Sizes, o.CRC, o.Queues, o.Stopped = OpSend, []int{64}, CRCOn, 8, 2
	interrupted(t, o, o.Plan(RDMA))
}

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

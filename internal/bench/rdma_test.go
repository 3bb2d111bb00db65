//go:build !live

package bench

import (
	"slices"
	"strings"
	"testing"

	"github.com/rds-go/rds/internal/rdstest"
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

// What a worker is told is checked: a word that goes back has lost a change.
func TestAtomicWorkerNoticesLostChanges(t *testing.T) {
	for _, op := range []Op{OpAdd, OpSwap} {
		w := &Work{Kind: Atomic, Op: op, Words: 2, Depth: 1, Workers: 1, Size: wordSize}
		k := newAtomicWorker(&sender{c: &cell{work: w}}, nil, 1)
		for i, before := range []uint64{0, 5, 6} {
			if err := k.end(0, before); err != nil {
				t.Errorf("%s %d: %v", op, i, err)
			}
		}
		if want := map[Op]uint64{OpAdd: 3, OpSwap: 1}[op]; k.total != want { // a swap that expected 1 found 5, then the next 6
			t.Errorf("%s: %d changes, want %d", op, k.total, want)
		}
		if err := k.end(0, 4); err == nil || !strings.Contains(err.Error(), "earlier") {
			t.Errorf("%s: %v", op, err)
		}
	}
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
	rdstest.Must(t, o.Validate(RDMA))
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

//go:build live

package bench

import (
	"context"
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

//go:build live

package bench

import (
	"context"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/rds-go/rds/internal/rdstest"
)

func rdmaOptions(t *testing.T) Options {
	o := serve(t)
	o.Provider, o.CRC, o.Baseline = "", CRCBoth, true
	o.Depth, o.Batch, o.Sizes = 0, 0, nil
	return o
}

// Each operation works with and without CRC, in lists and alone, inline and
// from a region, with lists that do not divide what is outstanding.
func TestRDMAWorks(t *testing.T) {
	o := rdmaOptions(t)
	o.Repeat = 2
	var works []Work
	for _, w := range []Work{
		{Op: OpWrite, Size: 1 << 20},
		{Op: OpWrite, Size: 4, Depth: 7, Batch: 3},
		{Op: OpRead, Size: 8 << 10},
		{Op: OpRead, Size: 100, Depth: 5, Batch: 2},
		{Op: OpSend, Size: 64},
		{Op: OpSend, Size: 3000, Depth: 1, Batch: 1},
		{Op: OpSend, Size: 64, PingPong: true},
		{Op: OpWrite, Size: 5000, PingPong: true},
		{Op: OpRead, Size: 64, PingPong: true},
	} {
		works = append(works, o.rdmaCRC(w)...)
	}
	works[4].Busy, works[4].ULPDU = true, 1000
	rep, err := (&Runner{Options: o}).Run(context.Background(), works)
	rdstest.Must(t, err)
	if len(rep.Rows) != len(works) {
		t.Fatalf("%d rows", len(rep.Rows))
	}
	for _, row := range rep.Rows {
		if !row.Finished || row.Runs != 2 || row.RDS.Messages == 0 || row.RDS.Rate <= 0 || row.TCP == nil || row.Ratio <= 0 {
			t.Errorf("%s: %+v", row.Title, row)
		}
		if trips := row.Work.PingPong || row.Work.Op == OpRead; trips != (row.RDS.Latency != nil) || trips != (row.TCP.Latency != nil) {
			t.Errorf("%s: latency %v, %v", row.Title, row.RDS.Latency, row.TCP.Latency)
		}
	}
}

func TestInterruptedRDMAKeepsWhatThereIs(t *testing.T) {
	for _, op := range []Op{OpWrite, OpRead, OpSend} {
		o := rdmaOptions(t)
		o.Op, o.Sizes, o.CRC = op, []int{4096}, CRCOn
		interrupted(t, o, o.Plan(RDMA))
	}
}

// A server refuses RDMA works that it has not agreed on, or cannot hold.
func TestServerRefusesRDMANonsense(t *testing.T) {
	o := rdmaOptions(t)
	for _, first := range []struct {
		provider string
		requests []request
	}{
		{providerNone, []request{
			{Op: opOpen, Work: &Work{Kind: OneWay, Batch: 1, Size: 64}, Transport: RDS},
			{Op: opOpen, Work: &Work{Kind: RDMA, Op: OpSend, Batch: 1, Depth: 1, Size: 64}, Transport: RDS},
			{Op: opOpen, Work: &Work{Kind: RDMA, Op: OpSend, Batch: 1, Depth: 1}, Transport: IWARP},
			{Op: opOpen, Work: &Work{Kind: RDMA, Op: "x", Batch: 1, Depth: 1, Size: 64}, Transport: IWARP},
			{Op: opOpen, Work: &Work{Kind: RDMA, Op: OpRead, Batch: 1, Depth: maxReads + 1, Size: 64}, Transport: IWARP},
			{Op: opOpen, Work: &Work{Kind: RDMA, Op: OpWrite, Batch: 1, Depth: maxOutstanding, Size: 1 << 20}, Transport: IWARP},
		}},
		{"node", []request{
			{Op: opOpen, Work: &Work{Kind: RDMA, Op: OpSend, Batch: 1, Depth: 1, Size: 64}, Transport: IWARP},
			{Op: opOpen, Work: &Work{Kind: OneWay, Batch: 1, Size: 64}, Transport: IWARP},
		}},
	} {
		c, err := net.Dial("tcp", o.Server)
		rdstest.Must(t, err)
		k := newController("server", c)
		if _, err := k.call(request{Op: opHello, Hello: &hello{Version: controlVersion, Provider: first.provider, Port: o.Port, Paths: 1}}); err != nil {
			t.Fatal(err)
		}
		for _, q := range first.requests {
			if _, err := k.call(q); err == nil || !strings.Contains(err.Error(), "out of bounds") {
				t.Errorf("%+v over %s: %v", q.Work, q.Transport, err)
			}
		}
		k.close()
	}
}

func TestRegionsWorks(t *testing.T) {
	o := goodOptions()
	o.Provider, o.Duration, o.Warmup, o.Repeat = "", 20*time.Millisecond, time.Millisecond, 2
	works := o.Plan(Regions)
	rep, err := (&Runner{Options: o}).Run(context.Background(), works)
	rdstest.Must(t, err)
	var text strings.Builder
	rdstest.Must(t, rep.WriteText(&text))
	for i, row := range rep.Rows {
		if !row.Finished || row.Runs != 2 || row.RDS.Rate <= 0 {
			t.Errorf("%s: %+v", row.Title, row)
		}
		if timed := works[i].Op == OpBarrier || works[i].Op == OpTraffic; timed != (row.RDS.Latency != nil) {
			t.Errorf("%s: latency %v", row.Title, row.RDS.Latency)
		}
	}
	for _, want := range []string{"key check: ", "times as fast", "MB/s meanwhile", "  a barrier each"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("no %q in\n%s", want, text.String())
		}
	}
}

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
		rdstest.Must(t, o.Validate(RDMA))
		works = append(works, o.Plan(RDMA)...)
	}
	rep, err := (&Runner{Options: o}).Run(context.Background(), works)
	rdstest.Must(t, err)
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
	rdstest.Must(t, rep.WriteText(&text))
	if want := "32 queues, 1 stopped: "; !strings.Contains(text.String(), want) {
		t.Errorf("no %q in\n%s", want, text.String())
	}
}

func TestInterruptedSharedQueuesKeepWhatThereIs(t *testing.T) {
	o := rdmaOptions(t)
	o.Op, o.Sizes, o.CRC, o.Queues, o.Stopped = OpSend, []int{64}, CRCOn, 8, 2
	interrupted(t, o, o.Plan(RDMA))
}

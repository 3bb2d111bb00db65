package verbs

import (
	"testing"

	"github.com/rds-go/rds/internal/rdstest"
	"github.com/rds-go/rds/transport/iwarp"
)

// Messages of 64 bytes in lists of 32, from one application through two daemons to another.
func BenchmarkSend64(b *testing.B) {
	l := rdstest.NewLab(b)
	near, far := newHost(b, &l), newHost(b, &l)
	const window, list, depth = 512, 32, 1024
	a := newProcess(b, far, nil, depth, 2*depth)
	a.advertise(b, 7)
	p := newProcess(b, near, nil, 1, 2*depth)
	i, err := p.Connect(rdstest.Background(b), InitiatorAttr{PD: p.pd, CQ: p.cq, Remote: far.addr, Service: 7, MaxSend: window})
	if err != nil {
		b.Fatal(err)
	}
	done := make(chan error, 1)
	b.ResetTimer()
	go func() {
		var got [64]iwarp.Completion
		for n := 0; n < b.N; {
			if err := a.cq.Wait(b.Context()); err != nil {
				done <- err
				return
			}
			k := a.cq.Poll(got[:])
			var again [64]iwarp.ReceiveRequest
			var sge [64][1]iwarp.SGE
			for j := range k {
				sge[j][0] = a.mem.SGE(int(got[j].ID)*slot, slot)
				again[j] = iwarp.ReceiveRequest{ID: got[j].ID, SGE: sge[j][:]}
			}
			if _, err := a.srq.PostReceive(again[:k]...); err != nil {
				done <- err
				return
			}
			n += k
		}
		done <- nil
	}()
	payload := make([]byte, 64)
	var reqs [list]iwarp.WorkRequest
	for k := range reqs {
		reqs[k] = iwarp.WorkRequest{Queue: a.srq.Num(), Inline: payload}
	}
	reqs[list-1].Flags = iwarp.Signaled
	var got [64]iwarp.Completion
	for n := 0; n < b.N; {
		k, err := i.PostSend(reqs[:min(list, b.N-n)]...)
		n += k
		if k < list && err != nil {
			if err := p.cq.Wait(b.Context()); err != nil {
				b.Fatal(err)
			}
			p.cq.Poll(got[:])
		}
	}
	if err := <-done; err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds()/1e6, "M/s")
}

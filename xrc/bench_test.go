//go:build live

package xrc

import (
	"context"
	"net/netip"
	"testing"

	"github.com/rds-go/rds/internal/client"
	"github.com/rds-go/rds/internal/rdstest"
	"github.com/rds-go/rds/internal/socket"
	"github.com/rds-go/rds/transport/iwarp"
)

// Messages of 64 bytes in lists of 32, from one application through two daemons to another.
func BenchmarkSend64(b *testing.B) {
	l := rdstest.NewLab(b)
	near, far := newHost(b, &l), newHost(b, &l)
	const window, list, depth = 2048, 32, 4096
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

// One message there and one back, from application to application through two daemons.
func BenchmarkPingPong64(b *testing.B) {
	l := rdstest.NewLab(b)
	near, far := newHost(b, &l), newHost(b, &l)
	a, p := newProcess(b, far, nil, 16, 128), newProcess(b, near, nil, 16, 128)
	a.advertise(b, 7)
	p.advertise(b, 8)
	there, back := p.connect(b, far.addr, 7), a.connect(b, near.addr, 8)
	send := func(i *Initiator, queue uint32) {
		if _, err := i.PostSend(iwarp.WorkRequest{Queue: queue, Inline: make([]byte, 64)}); err != nil {
			b.Error(err)
		}
	}
	take := func(p *process) bool {
		var got [8]iwarp.Completion
		for {
			if n := p.cq.Poll(got[:]); n > 0 {
				p.receive(b, got[0].ID)
				return true
			}
			if p.cq.Wait(context.Background()) != nil {
				return false
			}
		}
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range b.N {
			if !take(a) {
				return
			}
			send(back, p.srq.Num())
		}
	}()
	b.ResetTimer()
	for range b.N {
		send(there, a.srq.Num())
		take(p)
	}
	<-done
}

// A target, with its registration.
func BenchmarkCreateTarget(b *testing.B) {
	l := rdstest.NewLab(b)
	p := newProcess(b, newHost(b, &l), nil, 1, 8)
	for b.Loop() {
		n, err := p.CreateTarget(p.dom)
		if err == nil {
			err = p.Unregister(b.Context(), p.dom, n)
		}
		if err != nil {
			b.Fatal(err)
		}
	}
}

// An initiator that is connected in-band, and closed.
func BenchmarkConnect(b *testing.B) {
	l := rdstest.NewLab(b)
	near, far := newHost(b, &l), newHost(b, &l)
	a, p := newProcess(b, far, nil, 1, 8), newProcess(b, near, nil, 1, 128)
	a.advertise(b, 7)
	for b.Loop() {
		if err := p.connect(b, far.addr, 7).Close(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}

// The same with datagrams of RDS, for a comparison in the same run.
func BenchmarkDatagramPingPong64(b *testing.B) {
	l := rdstest.NewLab(b)
	near, far := newHost(b, &l), newHost(b, &l)
	bind := func(h *host) *socket.Socket {
		return rdstest.Bind(b, rdstest.Attach(b, client.Dial, h.path), netip.AddrPortFrom(h.addr, 100))
	}
	x, y := bind(near), bind(far)
	go func() {
		buf := make([]byte, 64)
		for {
			n, from, err := y.ReadFromAddrPort(buf)
			if err != nil {
				return
			}
			if _, err := y.WriteToAddrPort(buf[:n], from); err != nil {
				return
			}
		}
	}()
	buf := make([]byte, 64)
	for b.Loop() {
		if _, err := x.WriteToAddrPort(buf, y.LocalAddrPort()); err != nil {
			b.Fatal(err)
		}
		if _, _, err := x.ReadFromAddrPort(buf); err != nil {
			b.Fatal(err)
		}
	}
}

package main

import (
	"context"
	"os"

	"github.com/rds-go/rds/mr"
	"github.com/rds-go/rds/rds"
	"github.com/rds-go/rds/transport/iwarp"
	"github.com/rds-go/rds/xrc"
	"github.com/rds-go/rds/xrc/objects"
)

// maxRegion is the longest region of a PD, in octets.
const maxRegion = 1 << 20

// process is what a process has of XRC to send and to receive. All ends with the process.
type process struct {
	*xrc.Session
	*xsrqJob
	pd    *xrc.PD
	cq    *xrc.CQ
	dom   *xrc.Domain
	srq   *xrc.SRQ
	slots slots // for received messages
}

// newProcess attaches to the daemon and posts the receives. Up to sends requests may be outstanding.
func newProcess(ctx context.Context, job *xsrqJob, sends int) (*process, error) {
	c, err := rds.Dial(job.Socket)
	if err != nil {
		return nil, err
	}
	p := &process{xsrqJob: job}
	if p.Session, err = c.XRC(ctx); err != nil {
		return nil, err
	}
	var file *os.File
	if job.Shared {
		file = os.NewFile(3, "domain")
	}
	if p.dom, err = p.OpenDomain(file, os.O_CREATE); err != nil {
		return nil, err
	}
	if p.pd, err = p.AllocPD(); err != nil {
		return nil, err
	}
	if p.cq, err = p.CreateCQ(job.Receives + sends); err != nil {
		return nil, err
	}
	if p.srq, err = p.CreateSRQ(xrc.SRQAttr{Domain: p.dom, PD: p.pd, CQ: p.cq, MaxWR: job.Receives}); err != nil {
		return nil, err
	}
	p.slots = slots{pd: p.pd, rights: mr.LocalWrite, size: job.Size, each: min(job.Receives, maxRegion/job.Size)}
	for i := range job.Receives {
		if i%p.slots.each == 0 {
			if err := p.slots.add(); err != nil {
				return nil, err
			}
		}
		if err := p.post(uint64(i)); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// post posts the receive that a slot is for.
func (p *process) post(slot uint64) error {
	_, err := p.srq.PostReceive(iwarp.ReceiveRequest{ID: slot, SGE: []iwarp.SGE{p.slots.sge(int(slot), p.Size)}})
	return err
}

// received is what came to a slot.
func (p *process) received(c *iwarp.Completion) []byte { return p.slots.at(int(c.ID))[:c.Len] }

// lost calls f with the number of each initiator that ends.
func (p *process) lost(ctx context.Context, f func(initiator uint32)) {
	for {
		e, err := p.NextEvent(ctx)
		if err != nil {
			return
		}
		_ = p.Ack(e)
		switch e.Kind {
		case objects.EventQPFatal, objects.EventQPRequest, objects.EventQPAccess, objects.EventDeviceFatal:
			if e.Object.Kind == objects.KindInitiator {
				f(e.Object.Number)
			}
		}
	}
}

// slots is registered memory for messages, in regions of each slots.
type slots struct {
	pd         *xrc.PD
	rights     mr.Rights
	size, each int
	regions    []*xrc.Region
}

// add adds a region.
func (s *slots) add() error {
	m, err := s.pd.Alloc(s.each*s.size, s.rights)
	if err == nil {
		s.regions = append(s.regions, m)
	}
	return err
}

func (s *slots) at(i int) []byte { return s.regions[i/s.each].Bytes()[i%s.each*s.size:][:s.size] }

func (s *slots) sge(i, n int) iwarp.SGE { return s.regions[i/s.each].SGE(i%s.each*s.size, n) }

func (s *slots) close() {
	for _, m := range s.regions {
		_ = m.Close()
	}
}

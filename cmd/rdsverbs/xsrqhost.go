package main

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"time"

	"github.com/rds-go/rds/internal/cli"
	"github.com/rds-go/rds/mr"
	"github.com/rds-go/rds/transport/iwarp"
	"github.com/rds-go/rds/transport/rdma/fabric"
	"github.com/rds-go/rds/xrc"
)

// fabricHost is one life of a host: its device, its objects and its fabric.
type fabricHost struct {
	*fabric.Fabric
	dev  *iwarp.Device
	xrc  *xrc.Device
	addr netip.Addr
}

// newFabricHost starts a host at an address. That it cannot is StatusUsage.
func newFabricHost(addr netip.Addr, o *xsrqOptions) (*fabricHost, error) {
	fail := func(err error) (*fabricHost, error) { return nil, cli.WithStatus(cli.StatusUsage, err) }
	h := &fabricHost{addr: addr}
	var err error
	if h.dev, err = iwarp.Open(iwarp.Config{EventLoops: 1}); err != nil {
		return fail(err)
	}
	if h.xrc, err = xrc.New(xrc.Config{Now: time.Now}); err != nil {
		return fail(errors.Join(err, h.dev.Close()))
	}
	h.Fabric, err = fabric.New(fabric.Config{Device: h.dev, XRC: h.xrc, Addresses: []netip.Addr{addr}, Port: o.port, NoCRC: !bool(o.crc)})
	if err != nil {
		return fail(errors.Join(err, h.xrc.Close(), h.dev.Close()))
	}
	return h, nil
}

// close ends it; peers are told.
func (h *fabricHost) close() {
	_ = h.Fabric.Close()
	_ = h.xrc.Close()
	_ = h.dev.Close()
}

// process is a session with what it needs to send and to receive.
type process struct {
	*xrc.Session
	pd     *fabric.PD
	cq     *fabric.CQ
	dom    *xrc.Domain
	srq    *xrc.SRQ
	number uint32     // number of srq
	slots  *fabric.MR // memory for received messages
	size   int        // size of each slot
}

// processAttr describes a process.
type processAttr struct {
	name     string
	domain   int // a file whose domain is meant, -1 for one of its own
	receives int // posted
	size     int // size of each receive
	sends    int // sends that can complete at once
}

// newProcess starts one. What was made ends with the session, at the latest with
// the device.
func (h *fabricHost) newProcess(a processAttr) (*process, error) {
	s, err := h.xrc.NewSession(xrc.SessionConfig{Name: a.name})
	if err != nil {
		return nil, err
	}
	p := &process{Session: s, size: a.size}
	if p.pd, err = h.AllocPD(s); err != nil {
		return nil, err
	}
	if p.cq, err = h.CreateCQ(s, max(a.receives, a.sends)); err != nil {
		return nil, err
	}
	attr := xrc.DomainAttr{Mask: xrc.DomainFD | xrc.DomainFlags, FD: a.domain, Flags: os.O_CREATE}
	if p.dom, err = s.OpenDomain(attr); err != nil {
		return nil, err
	}
	if p.srq, err = h.CreateSRQ(s, fabric.SRQAttr{Domain: p.dom, PD: p.pd, CQ: p.cq, MaxWR: a.receives, MaxSGE: 1}); err != nil {
		return nil, err
	}
	if p.number, err = p.srq.Number(); err != nil {
		return nil, err
	}
	if p.slots, err = p.pd.RegMR(make([]byte, a.receives*a.size), mr.LocalWrite, 0); err != nil {
		return nil, err
	}
	for i := range a.receives {
		if err := p.post(uint64(i)); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// post posts the receive that a slot is for.
func (p *process) post(slot uint64) error {
	_, err := p.srq.PostReceive(xrc.Receive{ID: slot, SGE: []xrc.SGE{p.slots.Receive(int(slot)*p.size, p.size)}})
	return err
}

// received is what came to a slot.
func (p *process) received(c *fabric.Completion) []byte {
	return p.slots.Bytes()[int(c.ID)*p.size:][:c.Len]
}

// domainFile makes a file whose domain processes share as long as they have it
// open. The caller closes it.
func domainFile() (*os.File, error) {
	f, err := os.CreateTemp("", "rdsverbs-xsrq-")
	if err != nil {
		return nil, err
	}
	return f, os.Remove(f.Name())
}

// addressTo is the local address that the route to a host has.
func addressTo(ctx context.Context, host netip.Addr) (netip.Addr, error) {
	var d net.Dialer
	c, err := d.DialContext(ctx, "udp", netip.AddrPortFrom(host, 9).String()) // sends nothing
	if err != nil {
		return netip.Addr{}, err
	}
	defer c.Close()
	return c.LocalAddr().(*net.UDPAddr).AddrPort().Addr().Unmap(), nil
}

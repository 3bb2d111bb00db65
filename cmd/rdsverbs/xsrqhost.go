package main

import (
	"context"
	"net"
	"net/netip"
	"os"

	"github.com/rds-go/rds/internal/cli"
	"github.com/rds-go/rds/mr"
	"github.com/rds-go/rds/rds"
	"github.com/rds-go/rds/transport/iwarp"
	"github.com/rds-go/rds/transport/xrc"
	objects "github.com/rds-go/rds/xrc"
)

// xsrqHost is one life of a host: a node, whose connections carry XRC.
type xsrqHost struct {
	*xrc.Transport
	node *rds.Node
	addr netip.Addr
}

// newXsrqHost starts a host at an address. That it cannot is StatusUsage.
func newXsrqHost(addr netip.Addr, o *xsrqOptions) (*xsrqHost, error) {
	crc := rds.CRCOff
	if o.crc {
		crc = rds.CRCOn
	}
	node, err := rds.NewNode(rds.Config{Addresses: []netip.Addr{addr}, Wire: rds.WireXRC,
		TCP: rds.TCPConfig{EventLoops: 1}, XRC: rds.XRCConfig{Port: o.port, CRC: crc}})
	if err != nil {
		return nil, cli.WithStatus(cli.StatusUsage, err)
	}
	return &xsrqHost{Transport: node.XRC(), node: node, addr: addr}, nil
}

// close ends it; peers are told.
func (h *xsrqHost) close() { _ = h.node.Close() }

// process is a session with what it needs to send and to receive.
type process struct {
	*objects.Session
	pd     *objects.PD
	cq     *objects.CQ
	dom    *objects.Domain
	srq    *objects.SRQ
	number uint32    // number of srq
	slots  *iwarp.MR // memory for received messages
	size   int       // size of each slot
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
func (h *xsrqHost) newProcess(a processAttr) (*process, error) {
	s, err := h.Objects().NewSession(objects.SessionConfig{Name: a.name})
	if err != nil {
		return nil, err
	}
	p := &process{Session: s, size: a.size}
	if p.pd, err = s.AllocPD(); err != nil {
		return nil, err
	}
	if p.cq, err = s.CreateCQ(a.receives + a.sends); err != nil {
		return nil, err
	}
	if p.dom, err = s.OpenDomain(a.domain, os.O_CREATE); err != nil {
		return nil, err
	}
	if p.srq, err = s.CreateSRQ(objects.SRQAttr{Domain: p.dom, PD: p.pd, CQ: p.cq, MaxWR: a.receives}); err != nil {
		return nil, err
	}
	p.number = p.srq.Num()
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
	_, err := p.srq.PostReceive(iwarp.ReceiveRequest{ID: slot, SGE: []iwarp.SGE{p.slots.SGE(int(slot)*p.size, p.size)}})
	return err
}

// received is what came to a slot.
func (p *process) received(c *iwarp.Completion) []byte {
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

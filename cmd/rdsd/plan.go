package main

import (
	"errors"
	"net/netip"
	"time"

	"github.com/rds-go/rds/internal/control"
	"github.com/rds-go/rds/rds"
)

// plan is the settings as the parts of the daemon take them.
type plan struct {
	node     rds.Config
	service  rds.ServiceConfig // an empty Path means that there is no service
	prefixes []netip.Prefix    // prefixes of the setting listen: their addresses may share a listening socket
	control  control.Config    // an empty Path means that there is no control socket
}

// plan checks the settings. The error names all that are wrong.
func (s *settings) plan() (plan, error) {
	var c checks
	addrs, prefixes := s.listenOn(&c)
	c.between("port", s.Port, 1, 65535)
	wire, peers := s.wires(&c)
	if s.Paths != 1 && s.Paths != 8 {
		c.add("npaths", "%d is neither 1 nor 8", s.Paths)
	}
	c.between("max_message", s.MaxMessage, 8192, rds.MaxMessage)
	for _, f := range []struct {
		key string
		v   int
	}{
		{"send_buffer", s.SendBuffer}, {"receive_buffer", s.ReceiveBuffer},
		{"receive_overrun", s.ReceiveOverrun}, {"peer_budget", s.PeerBudget}, {"tcp.keepalive_count", s.TCP.KeepAliveCount},
	} {
		c.between(f.key, f.v, 1, maxInt)
	}
	for _, f := range []struct {
		key string
		v   int
	}{{"tcp.send_buffer", s.TCP.SendBuffer}, {"tcp.receive_buffer", s.TCP.ReceiveBuffer}, {"tcp.event_loops", s.TCP.EventLoops}} {
		c.between(f.key, f.v, 0, maxInt)
	}
	c.notNegative("drain", s.Drain)
	c.notNegative("grace", s.Grace)
	c.notNegative("tcp.user_timeout", s.TCP.UserTimeout)
	c.notNegative("tcp.silence", s.TCP.Silence)
	if d := s.TCP.Silence.Duration; d > 0 && d < time.Second {
		c.add("tcp.silence", "%s is neither 0s nor at least 1s", d)
	}
	c.positive("reconnect_min", s.ReconnectMin)
	c.positive("reconnect_max", s.ReconnectMax)
	c.positive("receive.stall", s.Receive.Stall)
	c.positive("tcp.keepalive_idle", s.TCP.KeepAliveIdle)
	c.positive("tcp.keepalive_interval", s.TCP.KeepAliveInterval)
	c.positive("tcp.drain_timeout", s.TCP.DrainTimeout)
	admission := s.Admission.admission(&c)
	s.Handover.check(&c)
	s.Log.check(&c)
	s.Telemetry.check(&c)
	s.Memory.check(&c)
	s.Sessions.check(&c)
	var p plan
	p.service = s.service(&c)
	p.control = s.controls(&c)
	p.service.ReportGroups = reportGroups(p.control)
	s.checkMetrics(&c)
	if err := c.err(); err != nil {
		return plan{}, err
	}
	p.node, p.prefixes = s.node(addrs), prefixes
	p.node.Wire, p.node.PeerWires, p.node.Admission = wire, peers, admission
	return p, p.validate(s)
}

// validate asks package rds, whose word is the last.
func (p *plan) validate(s *settings) error {
	err := p.node.Validate()
	if s.Socket != none {
		err = errors.Join(err, p.service.Validate())
	}
	return err
}

// node writes the settings as a node reads them, where 0 means the default.
func (s *settings) node(addrs []netip.Addr) rds.Config {
	cfg := rds.Config{
		Addresses: addrs, Port: uint16(s.Port), Paths: s.Paths,
		SendBuffer: s.SendBuffer, ReceiveBuffer: s.ReceiveBuffer, ReceiveOverrun: s.ReceiveOverrun,
		ReceiveStall: s.Receive.Stall.Duration, PeerBudget: s.PeerBudget, MaxMessage: s.MaxMessage,
		Linger: s.Drain.Duration, ReconnectMin: s.ReconnectMin.Duration, ReconnectMax: s.ReconnectMax.Duration,
		DisablePing: !s.Ping, Serves: s.Socket != none, State: s.statePath(s.Socket), Grace: s.Grace.Duration,
		XRC:    rds.XRCConfig{Port: uint16(s.XRC.Port), CRC: crcs[s.XRC.CRC], Operations: s.XRC.Operations, Patience: s.XRC.Patience.Duration},
		Memory: s.Memory.table(),
		TCP: rds.TCPConfig{
			Burst: rds.ServiceBurst, SendBuffer: s.TCP.SendBuffer, ReceiveBuffer: s.TCP.ReceiveBuffer,
			KeepAliveIdle: s.TCP.KeepAliveIdle.Duration, KeepAliveInterval: s.TCP.KeepAliveInterval.Duration,
			KeepAliveCount: s.TCP.KeepAliveCount, UserTimeout: s.TCP.UserTimeout.Duration, Silence: s.TCP.Silence.Duration, Congestion: s.TCP.Congestion,
			EventLoops: s.TCP.EventLoops, DrainTimeout: s.TCP.DrainTimeout.Duration,
		},
	}
	if s.TCP.Silence.Duration == 0 {
		cfg.TCP.Silence = -1
	}
	if s.Drain.Duration == 0 {
		cfg.Linger = -1
	}
	if s.Grace.Duration == 0 {
		cfg.Grace = -1
	}
	return cfg
}

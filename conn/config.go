package conn

import (
	"math/rand/v2"
	"net/netip"
	"time"

	"github.com/rds-go/rds/internal/buf"
	"github.com/rds-go/rds/internal/wire"
)

// MaxPaths is the number of paths a connection can have (net/rds/rds.h,
// RDS_MPATH_WORKERS).
const MaxPaths = 8

// Role says which side's links are used (spec of net/rds/threads.c,
// rds_addr_cmp): those from the smaller address to the larger one.
type Role uint8

// Roles. ByAddress, the zero value, is the rule; the others are for a
// connection of an address to itself, which needs one of each.
const (
	ByAddress Role = iota
	Connector
	Acceptor
)

// Config is what a Conn is told once. Zero durations and sizes take the
// defaults named.
type Config struct {
	Local, Remote netip.Addr
	Role          Role

	// Paths is 1 or MaxPaths: what we tell the peer. Linux strands messages
	// with anything between.
	Paths int
	// Generation is our incarnation, constant for the life of the process, not 0.
	Generation uint32
	// PeerGeneration is the peer's as a predecessor of ours knew it, 0: nobody did.
	PeerGeneration uint32
	// FirstSequence is the number of the first message of each path. Derived
	// from the time it is above everything an earlier incarnation used.
	FirstSequence uint64
	// Limit is the longest payload that we take, which probes and pongs state, 0: they state none.
	Limit wire.Limit
	// IgnorePings turns off answers to pings and probes (sysctl ping_enable = 0). What probes say is heard.
	IgnorePings bool

	// Pace spaces the dials of all connections that share it, once they have failed; nil: nothing does.
	Pace *Pace

	// ReconnectMin and ReconnectMax bound the back-off window: 4 ms and 1 s.
	ReconnectMin, ReconnectMax time.Duration
	// IdleReconnectMax is ReconnectMax of a path that has nothing to send: 60 s.
	IdleReconnectMax time.Duration
	// ProofTimeout is how long a link must live to count as taken by the peer's
	// RDS when the peer says nothing on it: 15 s. It must be longer than the
	// peer's HoldTimeout, for a link that was held may still be refused.
	ProofTimeout time.Duration
	// HoldTimeout is how long an inbound link may wait for its path: 10 s.
	HoldTimeout time.Duration
	// AskTimeout is how long a link that is asked whether it lives may take to answer: 1 s.
	AskTimeout time.Duration

	// Budget bounds the memory of queued and unacknowledged messages: 64 MiB.
	Budget int
	// MaxPongs bounds the answers to pings waiting on a path: 1,024.
	MaxPongs int

	// Pool supplies the memory of queued messages; nil means one of its own.
	Pool *buf.Pool
	// Rand spreads reconnects. It must not be nil.
	Rand *rand.Rand
	// LocalMap copies the congestion map of our address; nil means all clear.
	LocalMap func(*wire.CongestionMap)
	// OnRefused hears, within RefusedBy, of each message to whose port nobody is bound;
	// nil: nobody does.
	OnRefused func(sport, dport uint16)
	// OneOperation has Fill show one operation at a time, for links that do operations within
	// Send: how one has ended may decide whether the next one begins.
	OneOperation bool
	// Begins hears, within Fill, of each operation that is about to be shown on a path, and
	// lets it begin; otherwise its message ends with Again. nil: all begin.
	Begins func(path int, op *Operation) bool
}

func (c *Config) setDefaults() {
	if c.Paths != MaxPaths {
		c.Paths = 1
	}
	def := func(d *time.Duration, v time.Duration) {
		if *d == 0 {
			*d = v
		}
	}
	def(&c.ReconnectMin, 4*time.Millisecond)
	def(&c.ReconnectMax, time.Second)
	def(&c.IdleReconnectMax, time.Minute)
	c.IdleReconnectMax = max(c.IdleReconnectMax, c.ReconnectMax)
	def(&c.ProofTimeout, 15*time.Second)
	def(&c.HoldTimeout, 10*time.Second)
	def(&c.AskTimeout, time.Second)
	if c.Budget == 0 {
		c.Budget = 64 << 20
	}
	if c.MaxPongs == 0 {
		c.MaxPongs = 1024
	}
	if c.FirstSequence == 0 {
		c.FirstSequence = 1
	}
	if c.Pool == nil {
		c.Pool = new(buf.Pool)
	}
	if c.LocalMap == nil {
		c.LocalMap = func(*wire.CongestionMap) {}
	}
	switch {
	case c.Role != ByAddress:
	case c.Local.Unmap().Compare(c.Remote.Unmap()) < 0:
		c.Role = Connector
	default:
		c.Role = Acceptor
	}
}

package config

import (
	"errors"
	"fmt"
	"net/netip"
	"time"

	"go.uber.org/zap"

	"github.com/rds-go/rds/internal/address"
	"github.com/rds-go/rds/internal/wire"
	"github.com/rds-go/rds/mr"
	"github.com/rds-go/rds/transport"
)

// Defaults of a Config.
const (
	DefaultPort           = transport.DefaultPort
	DefaultBuffer         = 4 << 20  // send and receive buffer of a socket, bytes of payload
	DefaultReceiveOverrun = 64 << 20 // bytes
	DefaultReceiveStall   = 60 * time.Second
	DefaultPeerBudget     = 64 << 20 // bytes
	DefaultLinger         = 5 * time.Second
	DefaultGrace          = 10 * time.Second // how long ports of a node's predecessor are waited for
	MaxMessage            = wire.MaxPayload  // the largest message, 1 MiB
)

// Node is what a Node is told once. Its zero value works: no listener until
// the first Bind, one path per peer, the standard port.
type Node struct {
	// Addresses are listened on from the start, so that peers can reach (and
	// ping) the node before anything is bound. Bind adds others by itself.
	Addresses []netip.Addr
	// Shared has many of the addresses listened on with one socket. Nil: each has its own.
	Shared *SharedListeners
	// Port is the TCP port of RDS over TCP, on this node and on its peers.
	// Default 16385, the only one Linux speaks.
	Port uint16
	// Wire is the wire transport: WireAuto (the default), WireXRC or WireTCP.
	Wire Wire
	// PeerWires are peers that one transport serves, WireXRC or WireTCP, whatever
	// they speak. It needs WireAuto.
	PeerWires map[netip.Addr]Wire
	// Admission says which peers the node has connections with; the zero value is
	// everybody.
	Admission Admission
	// XRC tunes the transport between two nodes of this service.
	XRC XRC
	// Paths is the number of TCP connections per peer: 1 (default) or 8. Linux
	// handles nothing between, and the smaller of both sides' numbers is used.
	Paths int

	// SendBuffer and ReceiveBuffer are the defaults for new sockets, in bytes
	// of payload; 0 means DefaultBuffer.
	SendBuffer, ReceiveBuffer int
	// ReceiveOverrun is how far past its receive buffer a socket may be filled
	// by what was under way when its congestion became known. Over TCP the
	// connection that brings a message beyond it is not read until the socket has
	// room (recv_paused). On XRC it is what the node's peers may have under way to
	// it, all together, and at least one message of MaxMessage; from peers of an
	// earlier version messages beyond it are dropped and counted
	// (recv_drop_overrun). 0 means DefaultReceiveOverrun.
	ReceiveOverrun int
	// ReceiveStall is how long a full socket may keep a connection from being read.
	// Then messages for it are dropped and counted (recv_drop_overrun) until it has
	// room. 0 means DefaultReceiveStall.
	ReceiveStall time.Duration
	// PeerBudget bounds the memory of the messages queued for one peer, sent
	// or parked while it cannot be reached. 0 means DefaultPeerBudget.
	PeerBudget int
	// MaxMessage is the largest message accepted from a peer, rounded down to
	// 4 KiB. Peers are told and refuse longer ones (ErrMessageTooLong); what
	// comes nevertheless is dropped and counted (recv_drop_too_long), and ends
	// with StatusTooLong at its sender, but with StatusSuccess at a Linux kernel.
	// Default and upper bound 1 MiB, lower bound 8192 (a congestion map).
	MaxMessage int
	// Linger is how long Close waits for unacknowledged messages: 0 means
	// DefaultLinger, negative not at all.
	Linger time.Duration

	// ReconnectMin and ReconnectMax bound the back-off between attempts to
	// connect: 4 ms and 1 s.
	ReconnectMin, ReconnectMax time.Duration
	// DisablePing leaves pings and path probes unanswered, as the Linux sysctl
	// net.rds.ping_enable = 0 does.
	DisablePing bool

	// Memory sets up the table of memory regions, which the transport has that carries
	// RDMA. Its Logger is not used: the table logs to Logger. PeerLookUps and LookUps of 0
	// mean 64 and 1,024; what sockets of the node may have refused by a peer follows from
	// PeerLookUps too (StatusAgain).
	Memory mr.Config

	// Serves is for a node that is there for a Service. The event loops that read from peers
	// take the submissions of applications, too, and they sleep at once when nothing is left to
	// do. A program that uses the node's own sockets as well is slower with it.
	Serves bool

	// TCP tunes the connections to peers, of either wire transport.
	TCP TCP

	// Logger receives one line per change of state; nil means none. Lines that others can
	// cause are limited: 20 of a kind about one peer or application, and 250 of a kind but
	// for peers that Admission lists, in a minute, and in up to 16 minutes as long as there
	// are more. The rest is counted (log_left_out) and told in sum.
	Logger *zap.Logger
	// Control is the path of a Unix socket on which the node answers rdsinfo;
	// empty means none.
	Control string

	// State is the path of a file in which the node keeps, for its successor on this
	// boot of the host, which ports are bound and what was received of each peer;
	// empty means none. A node that finds ports there waits for them to be bound again,
	// for Grace: they count as congested, and what comes for them is kept. Links to
	// peers are made and taken when all of them are bound, or after a second.
	State string
	// Grace is how long the node waits for the ports of its predecessor (State) to be
	// bound again. 0 means DefaultGrace, negative not at all.
	Grace time.Duration

	// Transport carries the messages instead of Wire; the node closes it. It is
	// for tests and simulations.
	Transport transport.Transport
	// Domain is the protection domain of the memory that links of Transport reach. nil: they
	// carry no operations.
	Domain *mr.Domain
}

// ServiceBurst is TCP.Burst for a node that serves applications.
const ServiceBurst = 256 << 10

// TCP tunes the TCP connections of a Node.
type TCP struct {
	// SendBuffer and ReceiveBuffer set SO_SNDBUF and SO_RCVBUF, in bytes; 0
	// leaves them to the kernel's autotuning.
	SendBuffer, ReceiveBuffer int
	// Burst is how many bytes a stream of messages collects for one write, and what a
	// socket towards an address of this host holds unsent, up to 384 KiB. 0 means 512 KiB.
	// ServiceBurst is faster for a node that serves applications: there the processor's
	// caches are shared with more processes.
	Burst int
	// KeepAliveIdle, KeepAliveInterval and KeepAliveCount find dead peers:
	// 5 s, 5 s and 5, as in Linux RDS.
	KeepAliveIdle, KeepAliveInterval time.Duration
	KeepAliveCount                   int
	// UserTimeout is TCP_USER_TIMEOUT: how long written data may stay
	// unacknowledged before the connection counts as lost. 0 leaves it to the kernel.
	// It also resets a peer that merely pauses.
	UserTimeout time.Duration
	// Silence is how long a peer may leave unanswered what was sent to it, before the
	// connection ends and is made anew: 20 s by default, at least 1 s, negative for
	// ever. A peer that receives nothing, because its window is closed, answers. On XRC
	// the peer's program has to answer too. It does even while its applications receive
	// nothing, and fails to only when the whole node is stopped.
	Silence time.Duration
	// Congestion is the TCP congestion control, such as "reno"; empty leaves
	// the system's default.
	Congestion string
	// EventLoops is the number of goroutines that read from peers; 0 means
	// one for each CPU, at most 4.
	EventLoops int
	// DrainTimeout is how long a connection that ends may go on delivering
	// what the peer still sends: 5 s.
	DrainTimeout time.Duration
}

// Validate returns nil or one error that names every field out of bounds.
func (c *Node) Validate() error {
	var errs []error
	bad := func(field, why string, v any) {
		errs = append(errs, fmt.Errorf("rds: Config.%s = %v: %s", field, v, why))
	}
	if c.Paths != 0 && c.Paths != 1 && c.Paths != 8 {
		bad("Paths", "must be 1 or 8", c.Paths)
	}
	if c.MaxMessage != 0 && (c.MaxMessage < wire.CongestionMapSize || c.MaxMessage > MaxMessage) {
		bad("MaxMessage", fmt.Sprintf("must be %d to %d", wire.CongestionMapSize, MaxMessage), c.MaxMessage)
	}
	for _, f := range []struct {
		name string
		v    int64
	}{
		{"SendBuffer", int64(c.SendBuffer)}, {"ReceiveBuffer", int64(c.ReceiveBuffer)},
		{"ReceiveOverrun", int64(c.ReceiveOverrun)}, {"PeerBudget", int64(c.PeerBudget)},
		{"ReceiveStall", int64(c.ReceiveStall)},
		{"ReconnectMin", int64(c.ReconnectMin)}, {"ReconnectMax", int64(c.ReconnectMax)},
		{"TCP.SendBuffer", int64(c.TCP.SendBuffer)}, {"TCP.ReceiveBuffer", int64(c.TCP.ReceiveBuffer)},
		{"TCP.KeepAliveIdle", int64(c.TCP.KeepAliveIdle)}, {"TCP.KeepAliveInterval", int64(c.TCP.KeepAliveInterval)},
		{"TCP.KeepAliveCount", int64(c.TCP.KeepAliveCount)}, {"TCP.UserTimeout", int64(c.TCP.UserTimeout)},
		{"TCP.Burst", int64(c.TCP.Burst)}, {"TCP.EventLoops", int64(c.TCP.EventLoops)}, {"TCP.DrainTimeout", int64(c.TCP.DrainTimeout)},
		{"XRC.Patience", int64(c.XRC.Patience)},
	} {
		if f.v < 0 {
			bad(f.name, "must not be negative", f.v)
		}
	}
	if c.TCP.Silence > 0 && c.TCP.Silence < time.Second {
		bad("TCP.Silence", "must be 0, negative or at least 1 s", c.TCP.Silence)
	}
	switch c.Wire {
	case WireAuto, WireXRC, WireTCP:
	default:
		bad("Wire", `must be "xrc", "tcp" or empty`, c.Wire)
	}
	if err := c.Admission.Validate(); err != nil {
		bad("Admission.Allow", err.Error(), "list")
	}
	for a, w := range c.PeerWires {
		if !address.Unicast(a) || w != WireXRC && w != WireTCP || c.Wire != WireAuto || c.Transport != nil {
			bad("PeerWires", `must be unicast addresses with "xrc" or "tcp", and Wire empty`, fmt.Sprintf("%v: %s", a, w))
		}
	}
	if port := c.XRC.Port; port != 0 && c.Wire == WireAuto && (port == c.Port || port == DefaultPort && c.Port == 0) {
		bad("XRC.Port", "must not be the port of RDS over TCP", port)
	}
	if c.XRC.CRC != CRCAuto && c.XRC.CRC != CRCOn && c.XRC.CRC != CRCOff {
		bad("XRC.CRC", `must be "on", "off" or empty`, c.XRC.CRC)
	}
	if c.XRC.Operations < 0 || c.XRC.Operations > maxOperations {
		bad("XRC.Operations", fmt.Sprintf("must be 0 to %d", maxOperations), c.XRC.Operations)
	}
	if err := c.Memory.Validate(); err != nil {
		errs = append(errs, fmt.Errorf("rds: Config.Memory: %w", err))
	}
	for _, a := range c.Addresses {
		if !address.Unicast(a) {
			bad("Addresses", "must be unicast addresses", a)
		}
	}
	return errors.Join(errs...)
}

func (c *Node) SetDefaults() {
	def := func(v *int, d int) {
		if *v == 0 {
			*v = d
		}
	}
	def(&c.Paths, 1)
	def(&c.SendBuffer, DefaultBuffer)
	def(&c.ReceiveBuffer, DefaultBuffer)
	def(&c.ReceiveOverrun, DefaultReceiveOverrun)
	def(&c.PeerBudget, DefaultPeerBudget)
	def(&c.MaxMessage, MaxMessage)
	c.MaxMessage = wire.LimitOf(c.MaxMessage).Octets()
	def(&c.TCP.Burst, 2*ServiceBurst)
	if c.Port == 0 {
		c.Port = DefaultPort
	}
	if c.ReceiveStall == 0 {
		c.ReceiveStall = DefaultReceiveStall
	}
	if c.Linger == 0 {
		c.Linger = DefaultLinger
	}
	if c.Grace == 0 {
		c.Grace = DefaultGrace
	}
	if c.Logger == nil {
		c.Logger = zap.NewNop()
	}
}

package tcp

import (
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/rds-go/rds/internal/gnetloop"
	"github.com/rds-go/rds/internal/wire"
	"github.com/rds-go/rds/transport"
)

const name = "tcp"

// Options sets up a Transport. The zero value is ready to use.
type Options struct {
	// Port is the TCP port listened on and dialed. 0 means 16385.
	Port uint16

	// EventLoops is the number of goroutines that read, 1 to 256. 0 means
	// GOMAXPROCS, at most 4.
	EventLoops int
	// ReadBuffer is the size in bytes of each event loop's read buffer, 4 KiB
	// to 16 MiB, rounded up to a power of two. 0 means 512 KiB.
	ReadBuffer int

	// KeepAliveIdle is how long a connection is silent before it is probed,
	// KeepAliveInterval the time between probes, whole seconds from 1 to
	// 32767. 0 means 5 s, as in net/rds/tcp.c, rds_tcp_keepalive.
	KeepAliveIdle, KeepAliveInterval time.Duration
	// KeepAliveCount is how many unanswered probes end a connection, 1 to 127.
	// 0 means 5.
	KeepAliveCount int
	// UserTimeout ends a connection whose data stays unacknowledged for so
	// long, in whole milliseconds. 0 leaves that to the kernel.
	UserTimeout time.Duration

	// Silence ends a connection on which something was sent and whose peer's TCP has
	// answered nothing for so long. A peer that does not read answers. 0 means 20 s,
	// negative never; at least 1 s.
	Silence time.Duration

	// SendBuffer and ReceiveBuffer are SO_SNDBUF and SO_RCVBUF in bytes. 0
	// leaves them to the kernel's tuning (net.rds.tcp.rds_tcp_sndbuf, _rcvbuf).
	SendBuffer, ReceiveBuffer int
	// LocalSendBuffer is SO_SNDBUF towards an address of this host, if SendBuffer is 0.
	// 0 means 256 KiB.
	LocalSendBuffer int
	// Congestion names the TCP congestion control algorithm. Empty means the
	// system's.
	Congestion string

	// DrainTimeout is how long Close(transport.Drain) waits for the peer to
	// end its side. 0 means 5 s.
	DrainTimeout time.Duration

	// MaxMessage is the longest payload accepted, in bytes, up to 1 GiB; of a longer one of up to
	// 1 MiB the handler gets the header. 0
	// means 1 MiB, the longest Linux sends.
	MaxMessage int
	// LaxHeaders accepts headers with padding that is not zero, as Linux does,
	// instead of taking them for a stream that lost its framing.
	LaxHeaders bool

	// Gate says whose links are accepted and who may be dialed. nil: everybody.
	Gate transport.Gate
	// Network brings the sockets instead of the host's TCP; tests have one in memory. nil:
	// the host's.
	Network gnetloop.Network
	// Inherited is what another process has passed. nil: nothing.
	Inherited *gnetloop.Inheritance
	// Loops are event loops that other transports use, too, instead of the transport's own.
	// They have to be closed after it. nil: it has its own.
	Loops *gnetloop.Loops
	// Sharing says which addresses share a listening socket. nil: each has its own.
	Sharing *gnetloop.Sharing

	// Seed makes the choice of source ports repeatable. 0 takes a random seed.
	Seed uint64
	// Logger hears about changes of state. nil logs nothing.
	Logger *zap.Logger
}

// Validate tells what is wrong with o, all of it in one error.
func (o Options) Validate() error {
	err := o.engine().Validate()
	if o.MaxMessage < 0 || o.MaxMessage > 1<<30 {
		err = errors.Join(err, fmt.Errorf("tcp: MaxMessage %d is not in 0..1 GiB", o.MaxMessage))
	}
	return err
}

// withDefaults fills in what was left zero, except for the engine's.
func (o Options) withDefaults() Options {
	if o.Port == 0 {
		o.Port = transport.DefaultPort
	}
	if o.MaxMessage == 0 {
		o.MaxMessage = wire.MaxPayload
	}
	return o
}

// engine are the options of what is below the framing.
func (o Options) engine() gnetloop.Options {
	return gnetloop.Options{
		Name:              name,
		EventLoops:        o.EventLoops,
		Loops:             o.Loops,
		ReadBuffer:        o.ReadBuffer,
		KeepAliveIdle:     o.KeepAliveIdle,
		KeepAliveInterval: o.KeepAliveInterval,
		KeepAliveCount:    o.KeepAliveCount,
		UserTimeout:       o.UserTimeout,
		Silence:           o.Silence,
		SendBuffer:        o.SendBuffer,
		LocalSendBuffer:   o.LocalSendBuffer,
		ReceiveBuffer:     o.ReceiveBuffer,
		Congestion:        o.Congestion,
		DrainTimeout:      o.DrainTimeout,
		Gate:              o.Gate,
		Network:           o.Network,
		Inherited:         o.Inherited,
		Sharing:           o.Sharing,
		HalfOpen:          transport.MostSetups,
		HalfOpenEach:      transport.MostSetupsOfPeer,
		Logger:            o.Logger,
	}
}

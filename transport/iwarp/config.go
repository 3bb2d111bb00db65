package iwarp

import (
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/rds-go/rds/internal/gnetloop"
	"github.com/rds-go/rds/mr"
	"github.com/rds-go/rds/transport"
	"github.com/rds-go/rds/transport/iwarp/mpa"
)

// maxQueue bounds every queue a program asks for.
const maxQueue = 1 << 20

// Config sets up a Device. The zero value is ready.
type Config struct {
	// Regions is the table of memory regions; nil makes one, which the device
	// closes. Several devices of a host may share one.
	Regions *mr.Device
	// Memory sets up the table that is made without Regions. Its Logger is this one's.
	Memory mr.Config

	// EventLoops is the number of goroutines that receive, 1 to 256. 0 means
	// GOMAXPROCS, at most 4.
	EventLoops int
	// ReadBuffer is each event loop's buffer in bytes. 0 means 512 KiB.
	ReadBuffer int
	// SendBuffer and ReceiveBuffer fix SO_SNDBUF and SO_RCVBUF. 0 leaves them
	// to the kernel.
	SendBuffer, ReceiveBuffer int
	// LocalSendBuffer is SO_SNDBUF towards an address of this host, if SendBuffer is 0.
	// 0 means 256 KiB.
	LocalSendBuffer int
	// Congestion names the TCP congestion control. Empty: the system's.
	Congestion string
	// UserTimeout ends a connection whose data stays unacknowledged for so
	// long, also one whose peer does not read. 0 leaves that to the kernel.
	UserTimeout time.Duration
	// Silence ends a connection on which something was sent and whose peer's TCP has
	// answered nothing for so long. A peer that does not read answers. 0 means 20 s,
	// negative never; at least 1 s. See SharedParams.Silence for a peer whose TCP
	// answers and whose program does not.
	Silence time.Duration

	// MaxULPDU bounds the segments we send, in octets, 128 to 64768. 0 makes
	// each segment fit the path's TCP segment (RFC 5044 section 4.5), which
	// every peer takes; more is faster and understood by all receivers that go
	// by the length field, Linux's siw among them.
	MaxULPDU int

	// RequestTimeout is how long an accepted connection may take to say what
	// it wants (0: 5 s), ReplyTimeout how long a peer may take to answer
	// (0: 10 s), RTRTimeout how long the first message of a peer-to-peer
	// connection may take (0: 10 s).
	RequestTimeout, ReplyTimeout, RTRTimeout time.Duration
	// CloseTimeout is how long the peer may take to end its side after we have
	// ended ours. 0 means 5 s.
	CloseTimeout time.Duration
	// Backlog is how many connections wait for Accept. 0 means 128.
	Backlog int

	// NoExtensions refuses immediate data and atomics (RFC 7306), as a stack
	// that does not know them would.
	NoExtensions bool

	// Gate says whose connections are accepted and who may be connected to. nil:
	// everybody.
	Gate transport.Gate
	// Network brings the sockets instead of the host's TCP; tests have one in memory. nil:
	// the host's.
	Network gnetloop.Network
	// Inherited is what another process has passed. nil: nothing.
	Inherited *gnetloop.Inheritance
	// Loops are event loops that others use, too, instead of the device's own. They have to
	// be closed after it. nil: it has its own.
	Loops *gnetloop.Loops
	// Sharing says which addresses share a listening socket. nil: each has its own.
	Sharing *gnetloop.Sharing
	// OnEvent hears of asynchronous events. It is called from internal
	// goroutines, must not block, and must not close objects. nil: nobody.
	OnEvent func(Event)
	// Logger hears of connections that end with an error. nil: nothing.
	Logger *zap.Logger
}

// Validate tells what is wrong with c, all of it in one error.
func (c Config) Validate() error {
	var errs []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf("iwarp: "+format, args...))
		}
	}
	check(c.MaxULPDU == 0 || c.MaxULPDU >= minMaxULPDU && c.MaxULPDU <= mpa.MaxULPDU,
		"MaxULPDU %d is not 0 or in %d..%d", c.MaxULPDU, minMaxULPDU, mpa.MaxULPDU)
	for name, d := range map[string]time.Duration{"RequestTimeout": c.RequestTimeout, "ReplyTimeout": c.ReplyTimeout,
		"RTRTimeout": c.RTRTimeout, "CloseTimeout": c.CloseTimeout} {
		check(d >= 0, "%s %v is negative", name, d)
	}
	if err := c.Memory.Validate(); err != nil {
		errs = append(errs, err)
	}
	check(c.Backlog >= 0 && c.Backlog <= 1<<16, "Backlog %d is not in 0..65536", c.Backlog)
	return errors.Join(append(errs, c.loop().Validate())...)
}

// minMaxULPDU is RFC 5044's lower bound of MULPDU.
const minMaxULPDU = 128

func (c Config) withDefaults() Config {
	or := func(p *time.Duration, v time.Duration) {
		if *p == 0 {
			*p = v
		}
	}
	or(&c.RequestTimeout, mpa.RequestTimeout)
	or(&c.ReplyTimeout, mpa.ReplyTimeout)
	or(&c.RTRTimeout, mpa.RTRTimeout)
	or(&c.CloseTimeout, 5*time.Second)
	if c.Backlog == 0 {
		c.Backlog = 128
	}
	if c.Logger == nil {
		c.Logger = zap.NewNop()
	}
	return c
}

func (c Config) loop() gnetloop.Options {
	return gnetloop.Options{
		Name:              "iwarp",
		EventLoops:        c.EventLoops,
		Loops:             c.Loops,
		ReadBuffer:        c.ReadBuffer,
		SendBuffer:        c.SendBuffer,
		LocalSendBuffer:   c.LocalSendBuffer,
		ReceiveBuffer:     c.ReceiveBuffer,
		Congestion:        c.Congestion,
		KeepAliveIdle:     10 * time.Second,
		KeepAliveInterval: 3 * time.Second,
		KeepAliveCount:    3,
		UserTimeout:       c.UserTimeout,
		Silence:           c.Silence,
		DrainTimeout:      c.CloseTimeout,
		Gate:              c.Gate,
		Network:           c.Network,
		Inherited:         c.Inherited,
		Sharing:           c.Sharing,
		HalfOpen:          transport.MostSetups,
		HalfOpenEach:      transport.MostSetupsOfPeer,
		Logger:            c.Logger,
	}
}

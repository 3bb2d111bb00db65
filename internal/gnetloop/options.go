package gnetloop

import (
	"errors"
	"fmt"
	"runtime"
	"time"

	"go.uber.org/zap"

	"github.com/rds-go/rds/transport"
)

// Options sets up an Engine. Only Name is required.
type Options struct {
	// Name is the transport's, which is what errors begin with.
	Name string

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
	// Silence ends a connection, with errSilent, on which something was sent and
	// whose peer's TCP has answered nothing for so long, to within an eighth. A peer
	// that does not read answers: its TCP says that its window is closed, if
	// not more often than every half second. 0 means 20 s, negative never, and anything
	// else is at least 1 s.
	Silence time.Duration

	// SendBuffer and ReceiveBuffer are SO_SNDBUF and SO_RCVBUF in bytes. 0
	// leaves them to the kernel's tuning, within the bounds that connections
	// within this host have.
	SendBuffer, ReceiveBuffer int
	// LocalSendBuffer is SO_SNDBUF towards an address of this host, where no round trip has
	// to be filled, if SendBuffer is 0. The kernel doubles it. 0 means 256 KiB.
	LocalSendBuffer int
	// Congestion names the TCP congestion control algorithm. Empty means the
	// system's.
	Congestion string

	// HalfOpen and HalfOpenEach bound the accepted connections that are not settled
	// (Conn.Settled), in all and of one address. One more ends the oldest of the
	// greediest. Those that Gate lists do not count. A process that may have less than
	// 2,730 descriptors has fewer than 256. HalfOpen 0 bounds nothing.
	HalfOpen, HalfOpenEach int

	// Loops are the event loops, shared with other engines, that read instead of the
	// engine's own. They have to be closed after the engine. nil: the engine has its own.
	Loops *Loops

	// DrainTimeout is how long Close(transport.Drain) waits for the peer to
	// end its side. 0 means 5 s.
	DrainTimeout time.Duration

	// Gate says whose connections are accepted and who may be dialed. nil: everybody.
	Gate transport.Gate

	// Network brings the sockets instead of the host's TCP, for Open. nil: the host's.
	Network Network

	// Inherited is what another process has passed. nil: nothing.
	Inherited *Inheritance

	// Sharing says which addresses share a listening socket. nil: each has its own.
	Sharing *Sharing
	// Logger hears about changes of state. nil logs nothing.
	Logger *zap.Logger
}

// Validate tells what is wrong with o, all of it in one error.
func (o Options) Validate() error {
	var errs []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(o.Name+": "+format, args...))
		}
	}
	check(o.EventLoops >= 0 && o.EventLoops <= 256, "EventLoops %d is not in 0..256", o.EventLoops)
	check(o.ReadBuffer == 0 || o.ReadBuffer >= 4<<10 && o.ReadBuffer <= 16<<20,
		"ReadBuffer %d is not 0 or in 4 KiB..16 MiB", o.ReadBuffer)
	seconds := func(name string, d time.Duration) {
		check(d == 0 || d >= time.Second && d <= 32767*time.Second && d%time.Second == 0,
			"%s %v is not 0 or whole seconds in 1..32767", name, d)
	}
	seconds("KeepAliveIdle", o.KeepAliveIdle)
	seconds("KeepAliveInterval", o.KeepAliveInterval)
	check(o.KeepAliveCount >= 0 && o.KeepAliveCount <= 127, "KeepAliveCount %d is not in 0..127", o.KeepAliveCount)
	check(o.UserTimeout >= 0 && o.UserTimeout <= 1<<31*time.Millisecond-1 && o.UserTimeout%time.Millisecond == 0,
		"UserTimeout %v is not whole milliseconds from 0 to 2^31-1", o.UserTimeout)
	check(o.Silence <= 0 || o.Silence >= time.Second, "Silence %v is not 0, negative or at least 1 s", o.Silence)
	check(o.SendBuffer >= 0 && o.SendBuffer <= 1<<30, "SendBuffer %d is not in 0..1 GiB", o.SendBuffer)
	check(o.LocalSendBuffer >= 0 && o.LocalSendBuffer <= 1<<30, "LocalSendBuffer %d is not in 0..1 GiB", o.LocalSendBuffer)
	check(o.ReceiveBuffer >= 0 && o.ReceiveBuffer <= 1<<30, "ReceiveBuffer %d is not in 0..1 GiB", o.ReceiveBuffer)
	check(len(o.Congestion) < 16, "Congestion %q is longer than 15 bytes", o.Congestion)
	check(o.HalfOpen >= 0 && (o.HalfOpen == 0 || o.HalfOpenEach > 0), "HalfOpen %d with HalfOpenEach %d", o.HalfOpen, o.HalfOpenEach)
	check(o.DrainTimeout >= 0, "DrainTimeout %v is negative", o.DrainTimeout)
	return errors.Join(errs...)
}

// withDefaults fills in what was left zero.
func (o Options) withDefaults() Options {
	or := func(p *int, v int) {
		if *p == 0 {
			*p = v
		}
	}
	orTime := func(p *time.Duration, v time.Duration) {
		if *p == 0 {
			*p = v
		}
	}
	or(&o.EventLoops, min(runtime.GOMAXPROCS(0), 4))
	or(&o.ReadBuffer, 512<<10)
	orTime(&o.KeepAliveIdle, 5*time.Second)
	orTime(&o.KeepAliveInterval, 5*time.Second)
	or(&o.KeepAliveCount, 5)
	orTime(&o.DrainTimeout, 5*time.Second)
	orTime(&o.Silence, defaultSilence)
	if o.Logger == nil {
		o.Logger = zap.NewNop()
	}
	return o
}

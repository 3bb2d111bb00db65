package node

import (
	"errors"
	"fmt"
	"syscall"

	"github.com/rds-go/rds/internal/address"
	"github.com/rds-go/rds/internal/gnetloop"
	"github.com/rds-go/rds/rds/config"
	"github.com/rds-go/rds/rds/datagram"
	"github.com/rds-go/rds/transport"
	"github.com/rds-go/rds/transport/tcp"
)

func tcpOptions(c *config.Node, g transport.Gate, in *gnetloop.Inheritance, loops *gnetloop.Loops) tcp.Options {
	return tcp.Options{
		Port: c.Port, MaxMessage: c.MaxMessage, Gate: g, Inherited: in, Sharing: sharing(c), Loops: loops, Logger: c.Logger,
		SendBuffer: c.TCP.SendBuffer, LocalSendBuffer: localSendBuffer(c), ReceiveBuffer: c.TCP.ReceiveBuffer,
		KeepAliveIdle: c.TCP.KeepAliveIdle, KeepAliveInterval: c.TCP.KeepAliveInterval, KeepAliveCount: c.TCP.KeepAliveCount,
		UserTimeout: c.TCP.UserTimeout, Silence: c.TCP.Silence, Congestion: c.TCP.Congestion, EventLoops: c.TCP.EventLoops, DrainTimeout: c.TCP.DrainTimeout,
	}
}

// localSendBuffer is SO_SNDBUF towards an address of this host. Measured with messages of
// 8 KiB to 1 MiB: with 256 KiB sender and receiver wait for each other more often (a tenth
// to a third slower), and 1 MiB, which is as fast with Reno, halves the rate with BBR, whose
// pacing then sends it in small pieces. Through daemons 384 KiB are a quarter slower than
// 256 KiB.
func localSendBuffer(c *config.Node) int { return min(c.TCP.Burst, 384<<10) }

// listenError makes our errors of the errnos that listen(2) gives.
func listenError(err error) error {
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return fmt.Errorf("%w: %w", datagram.ErrAddressInUse, err)
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return address.Foreign("this host", address.OfHost())
	}
	return err
}

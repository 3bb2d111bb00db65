package rds

import (
	"errors"
	"fmt"
	"syscall"

	"github.com/rds-go/rds/transport/tcp"
)

func tcpOptions(c *Config) tcp.Options {
	return tcp.Options{
		Port: c.Port, MaxMessage: c.MaxMessage, Logger: c.Logger,
		SendBuffer: c.TCP.SendBuffer, ReceiveBuffer: c.TCP.ReceiveBuffer,
		KeepAliveIdle: c.TCP.KeepAliveIdle, KeepAliveInterval: c.TCP.KeepAliveInterval, KeepAliveCount: c.TCP.KeepAliveCount,
		UserTimeout: c.TCP.UserTimeout, Silence: c.TCP.Silence, Congestion: c.TCP.Congestion, EventLoops: c.TCP.EventLoops, DrainTimeout: c.TCP.DrainTimeout,
	}
}

// listenError makes our errors of the errnos that listen(2) gives.
func listenError(err error) error {
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return fmt.Errorf("%w: %w", ErrAddressInUse, err)
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return fmt.Errorf("%w: %w", ErrAddressNotAvailable, err)
	}
	return err
}

package client

import (
	"net/netip"

	"github.com/rds-go/rds/internal/socket"
	"github.com/rds-go/rds/rds/info"
)

// provider is where sockets come from.
type provider interface {
	Bind(addr netip.AddrPort) (*socket.Socket, error)
	Info() (info.Report, error)
	Close() error
}

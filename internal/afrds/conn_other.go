//go:build !linux

package afrds

import (
	"net/netip"
	"syscall"
	"time"
)

// Conn is one AF_RDS socket; this system has none.
type Conn struct{}

var errNotAvailable error = &notAvailableError{cause: syscall.EAFNOSUPPORT}

// Available returns ErrNotAvailable.
func Available() error { return errNotAvailable }

// Open fails with ErrNotAvailable.
func Open() (*Conn, error) { return nil, errNotAvailable }

// Listen fails with ErrNotAvailable.
func Listen(netip.AddrPort) (*Conn, error) { return nil, errNotAvailable }

func (c *Conn) Bind(netip.AddrPort) error                  { return errNotAvailable }
func (c *Conn) CancelSentTo(netip.AddrPort) error          { return errNotAvailable }
func (c *Conn) Close() error                               { return errNotAvailable }
func (c *Conn) Connect(netip.AddrPort) error               { return errNotAvailable }
func (c *Conn) Connections() ([]Connection, error)         { return nil, errNotAvailable }
func (c *Conn) Counters() ([]Counter, error)               { return nil, errNotAvailable }
func (c *Conn) LocalAddrPort() (netip.AddrPort, error)     { return netip.AddrPort{}, errNotAvailable }
func (c *Conn) Poll(int16) (int16, error)                  { return 0, errNotAvailable }
func (c *Conn) ReceiveBuffer() (int, error)                { return 0, errNotAvailable }
func (c *Conn) ReceiveQueue() ([]Message, error)           { return nil, errNotAvailable }
func (c *Conn) RecvErr() (bool, error)                     { return false, errNotAvailable }
func (c *Conn) RecvFrom([]byte, int) (r Received, _ error) { return r, errNotAvailable }
func (c *Conn) RetransmitQueue() ([]Message, error)        { return nil, errNotAvailable }
func (c *Conn) SendBuffer() (int, error)                   { return 0, errNotAvailable }
func (c *Conn) SendQueue() ([]Message, error)              { return nil, errNotAvailable }
func (c *Conn) SetCongestionMonitor(bool) error            { return errNotAvailable }
func (c *Conn) SetDeadline(time.Time) error                { return errNotAvailable }
func (c *Conn) SetReadDeadline(time.Time) error            { return errNotAvailable }
func (c *Conn) SetReceiveBuffer(int) error                 { return errNotAvailable }
func (c *Conn) SetRecvErr(bool) error                      { return errNotAvailable }
func (c *Conn) SetSendBuffer(int) error                    { return errNotAvailable }
func (c *Conn) SetTOS(uint8) error                         { return errNotAvailable }
func (c *Conn) SetTransport(int) error                     { return errNotAvailable }
func (c *Conn) SetWriteDeadline(time.Time) error           { return errNotAvailable }
func (c *Conn) Sockets() ([]SocketInfo, error)             { return nil, errNotAvailable }
func (c *Conn) TCPSockets() ([]TCPSocket, error)           { return nil, errNotAvailable }
func (c *Conn) TOS() (uint8, error)                        { return 0, errNotAvailable }
func (c *Conn) Transport() (int, error)                    { return 0, errNotAvailable }

func (c *Conn) SendTo([]byte, netip.AddrPort, int) (int, error) { return 0, errNotAvailable }

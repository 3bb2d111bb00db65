package datagram

import "net/netip"

// Addr is the address of an RDS socket, a net.Addr.
type Addr netip.AddrPort

// Network returns "rds".
func (a Addr) Network() string { return "rds" }

func (a Addr) String() string { return netip.AddrPort(a).String() }

// Events is a set of readiness bits, values as in poll(2).
type Events uint16

// Readiness of a Socket (net/rds/af_rds.c, rds_poll).
const (
	PollIn     Events = 0x001 // a datagram, a status or congestion news can be received
	PollOut    Events = 0x004 // the send buffer has room; says nothing of congestion
	PollHup    Events = 0x010 // the socket is closed
	PollWrBand Events = 0x200 // a congestion map has arrived since the last look
)

// Flags of ReadMessage, values as in recvmsg(2).
type Flags int

// Flags.
const (
	Peek     Flags = 0x02 // leave the message queued
	Trunc    Flags = 0x20 // return the datagram's length even if the buffer is shorter
	DontWait Flags = 0x40 // fail with ErrWouldBlock instead of waiting
)

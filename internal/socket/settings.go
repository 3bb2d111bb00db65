package socket

import (
	"net"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/rds-go/rds/rds/datagram"
)

// Settings are what a program has set of its socket, besides the sizes of buffers.
type Settings struct {
	Closed        atomic.Bool
	ReadDeadline  Deadline
	WriteDeadline Deadline
	ToPort        atomic.Pointer[netip.AddrPort] // the destination of Connect; nil: none
	Linger        atomic.Int64                   // nanoseconds; 0 or less: none
	RecvErrOn     atomic.Bool
	TosValue      atomic.Uint32           // value + 1<<8 once set
	Sent          atomic.Bool             // a send has fixed the TOS
	Monitor       atomic.Pointer[Monitor] // nil: no congestion monitor
}

func (s *Settings) Remote() netip.AddrPort {
	if to := s.ToPort.Load(); to != nil {
		return *to
	}
	return netip.AddrPort{}
}

func (s *Settings) RecvErr() bool             { return s.RecvErrOn.Load() }
func (s *Settings) SetLinger(d time.Duration) { s.Linger.Store(int64(d)) }
func (s *Settings) TOS() uint8                { return uint8(s.TosValue.Load()) }

// SetTOS accepts what Linux accepts: once, before anything was sent. TCP maps
// every value to 0 (net/rds/tcp.c, rds_tcp_get_tos_map).
func (s *Settings) SetTOS(tos uint8) error {
	if s.Closed.Load() {
		return net.ErrClosed
	}
	if s.Sent.Load() || !s.TosValue.CompareAndSwap(0, uint32(tos)|1<<8) {
		return datagram.ErrInvalid
	}
	return nil
}

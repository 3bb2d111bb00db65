package socket

import (
	"net/netip"
	"time"

	"github.com/rds-go/rds/internal/address"
	"github.com/rds-go/rds/rds/config"
	"github.com/rds-go/rds/rds/datagram"
)

// SetDeadline is Socket.SetDeadline of package rds.
func (s *Socket) SetDeadline(t time.Time) error { s.Endpoint.SetDeadline(true, true, t); return nil }

// SetReadDeadline is Socket.SetReadDeadline of package rds.
func (s *Socket) SetReadDeadline(t time.Time) error {
	s.Endpoint.SetDeadline(true, false, t)
	return nil
}

// SetWriteDeadline is Socket.SetWriteDeadline of package rds.
func (s *Socket) SetWriteDeadline(t time.Time) error {
	s.Endpoint.SetDeadline(false, true, t)
	return nil
}

// SetReadBuffer is Socket.SetReadBuffer of package rds.
func (s *Socket) SetReadBuffer(bytes int) error {
	if bytes <= 0 {
		return s.fail("setsockopt", netip.AddrPort{}, datagram.ErrInvalid)
	}
	return s.fail("setsockopt", netip.AddrPort{}, s.Endpoint.SetBuffers(0, bytes))
}

// SetWriteBuffer is Socket.SetWriteBuffer of package rds.
func (s *Socket) SetWriteBuffer(bytes int) error {
	if bytes <= 0 {
		return s.fail("setsockopt", netip.AddrPort{}, datagram.ErrInvalid)
	}
	return s.fail("setsockopt", netip.AddrPort{}, s.Endpoint.SetBuffers(bytes, 0))
}

// Buffers is Socket.Buffers of package rds.
func (s *Socket) Buffers() (send, receive int) { return s.Endpoint.Buffers() }

// CancelSentTo is Socket.CancelSentTo of package rds.
func (s *Socket) CancelSentTo(to netip.AddrPort) error {
	return s.fail("cancel", to, s.Endpoint.Cancel(address.Unmap(to)))
}

// SetCongestionMonitor is Socket.SetCongestionMonitor of package rds.
func (s *Socket) SetCongestionMonitor(on bool) error {
	return s.fail("setsockopt", netip.AddrPort{}, s.Endpoint.SetMonitor(on))
}

// SetRecvErr is Socket.SetRecvErr of package rds.
func (s *Socket) SetRecvErr(on bool) error {
	return s.fail("setsockopt", netip.AddrPort{}, s.Endpoint.SetRecvErr(on))
}

// RecvErr is Socket.RecvErr of package rds.
func (s *Socket) RecvErr() bool { return s.Endpoint.RecvErr() }

// SetTOS is Socket.SetTOS of package rds.
func (s *Socket) SetTOS(tos uint8) error {
	return s.fail("setsockopt", netip.AddrPort{}, s.Endpoint.SetTOS(tos))
}

// SetTransport is Socket.SetTransport of package rds.
func (s *Socket) SetTransport(w config.Wire) error {
	switch w {
	case config.WireAuto, config.WireXRC, config.WireTCP:
		return s.fail("setsockopt", netip.AddrPort{}, s.Endpoint.SetTransport(w))
	}
	return s.fail("setsockopt", netip.AddrPort{}, datagram.ErrInvalid)
}

// TOS is Socket.TOS of package rds.
func (s *Socket) TOS() uint8 { return s.Endpoint.TOS() }

// SetLinger is Socket.SetLinger of package rds.
func (s *Socket) SetLinger(d time.Duration) { s.Endpoint.SetLinger(d) }

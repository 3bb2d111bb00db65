package rds

import (
	"net/netip"
	"time"
)

// SetDeadline sets both deadlines; see SetReadDeadline and SetWriteDeadline.
func (s *Socket) SetDeadline(t time.Time) error { return s.s.SetDeadline(t) }

// SetReadDeadline sets the time after which receiving calls fail with
// os.ErrDeadlineExceeded; the zero time means never.
func (s *Socket) SetReadDeadline(t time.Time) error { return s.s.SetReadDeadline(t) }

// SetWriteDeadline sets the time after which blocked sends fail with
// os.ErrDeadlineExceeded; the zero time means never.
func (s *Socket) SetWriteDeadline(t time.Time) error { return s.s.SetWriteDeadline(t) }

// SetReadBuffer sets the receive buffer size in bytes of payload (SO_RCVBUF).
// More than that queued marks the port congested; it is no hard limit.
func (s *Socket) SetReadBuffer(bytes int) error { return s.s.SetReadBuffer(bytes) }

// SetWriteBuffer sets the send buffer size in bytes of payload (SO_SNDBUF): a
// send waits while that much is queued or unacknowledged, and a longer message
// is refused.
func (s *Socket) SetWriteBuffer(bytes int) error { return s.s.SetWriteBuffer(bytes) }

// Buffers returns the sizes of the send and the receive buffer.
func (s *Socket) Buffers() (send, receive int) { return s.s.Buffers() }

// CancelSentTo drops the messages sent to exactly this address and port that
// the peer has not acknowledged (RDS_CANCEL_SENT_TO); one of them may still be
// delivered. The zero AddrPort means all destinations, which rds(7) promises
// and Linux refuses with EINVAL.
func (s *Socket) CancelSentTo(to netip.AddrPort) error { return s.s.CancelSentTo(to) }

// SetCongestionMonitor turns RDS_CONG_MONITOR on or off. While it is on, each
// non-blocking send refused with ErrCongested remembers bit port mod 64, and
// once a congestion map arrives Recv returns the remembered bits in a Message
// of KindCongestion. Over TCP every map counts for all of them: retry, and
// expect ErrCongested again.
func (s *Socket) SetCongestionMonitor(on bool) error { return s.s.SetCongestionMonitor(on) }

// SetRecvErr turns RDS_RECVERR on or off: with it, messages sent without
// Notify report their fate too, with token 0, when it is not success.
func (s *Socket) SetRecvErr(on bool) error { return s.s.SetRecvErr(on) }

// RecvErr tells whether RDS_RECVERR is on.
func (s *Socket) RecvErr() bool { return s.s.RecvErr() }

// SetTOS sets the type of service (SIOCRDSSETTOS): once, before the first send
// and before any other TOS, else ErrInvalid. Over TCP it has no effect on the
// wire, as in Linux.
func (s *Socket) SetTOS(tos uint8) error { return s.s.SetTOS(tos) }

// SetTransport lets the socket send by one transport only, WireXRC or WireTCP
// (SO_RDS_TRANSPORT); WireAuto, which every socket begins with, lets it send by
// any. Receiving and a host's own addresses are not concerned.
//
// A peer to which such a socket sends before it is known what it speaks is served
// by that transport from then on, for all sockets and as long as the node lives: if
// it does not speak it, messages to it wait as for a host that is down. A send to a
// peer that another transport serves fails with ErrNotSupported (EOPNOTSUPP).
//
// ErrNoTransport (ENOPROTOOPT) if the provider does not have the transport,
// ErrInvalid (EINVAL) for what is none. What a socket of rdsd decides counts for all
// applications of the daemon; with one that is too old to be asked the error is
// ErrNotSupported. Sockets of the kernel cannot choose: they have a transport from
// Bind on, and over TCP WireTCP succeeds.
func (s *Socket) SetTransport(w Wire) error { return s.s.SetTransport(w) }

// TOS returns the type of service.
func (s *Socket) TOS() uint8 { return s.s.TOS() }

// SetLinger sets how long Close waits for unacknowledged messages; 0 or less
// means not at all.
func (s *Socket) SetLinger(d time.Duration) { s.s.SetLinger(d) }

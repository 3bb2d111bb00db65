package gnetloop

import (
	"time"

	"golang.org/x/sys/unix"

	"github.com/rds-go/rds/transport"
)

// TCPInfo asks the kernel about the connection. It reports false when the
// connection has ended.
func (c *Conn) TCPInfo() (transport.TCPInfo, bool) {
	if !c.acquire() {
		return transport.TCPInfo{}, false
	}
	defer c.put()
	return tcpInfo(c.fd)
}

func tcpInfo(fd int) (transport.TCPInfo, bool) {
	t, err := unix.GetsockoptTCPInfo(fd, unix.IPPROTO_TCP, unix.TCP_INFO)
	if err != nil {
		return transport.TCPInfo{}, false
	}
	info := transport.TCPInfo{
		RTT: us(t.Rtt), RTTVar: us(t.Rttvar), MinRTT: us(t.Min_rtt), RTO: us(t.Rto),
		Cwnd: t.Snd_cwnd, MSS: t.Snd_mss, Unacked: t.Unacked,
		Retransmitted: t.Total_retrans, Retransmits: t.Retransmits, Probes: t.Probes,
		NotSent: t.Notsent_bytes, SendWindow: t.Snd_wnd, DeliveryRate: t.Delivery_rate,
		LastDataSent: ms(t.Last_data_sent), LastAckRecv: ms(t.Last_ack_recv),
		Busy: us(t.Busy_time), ReceiveLimited: us(t.Rwnd_limited), SendLimited: us(t.Sndbuf_limited),
	}
	if t.Min_rtt == ^uint32(0) { // no round-trip time has been measured
		info.MinRTT = 0
	}
	return info, true
}

func us[N uint32 | uint64](n N) time.Duration { return time.Duration(n) * time.Microsecond }

func ms(n uint32) time.Duration { return time.Duration(n) * time.Millisecond }

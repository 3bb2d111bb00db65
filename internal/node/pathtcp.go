package node

import (
	"fmt"

	"github.com/rds-go/rds/rds/info"
	"github.com/rds-go/rds/transport"
)

// pathTCP asks the kernel about a path's link.
func pathTCP(path int, l transport.Link) (p info.PathTCP, ok bool) {
	i, ok := l.TCPInfo()
	if !ok {
		return p, false
	}
	p = info.PathTCP{
		Path: path, RTT: i.RTT.Microseconds(), RTTVar: i.RTTVar.Microseconds(), MinRTT: i.MinRTT.Microseconds(), RTO: i.RTO.Microseconds(),
		Cwnd: i.Cwnd, MSS: i.MSS, Unacked: i.Unacked, Retransmitted: i.Retransmitted, Timeouts: i.Retransmits, Probes: i.Probes,
		NotSent: i.NotSent, SendWindow: i.SendWindow, DeliveryRate: i.DeliveryRate, LastAck: i.LastAckRecv.Microseconds(), Busy: i.Busy.Microseconds(),
	}
	if i.Busy > 0 {
		p.ReceiverLimited, p.SendBufferLimited = min(1, i.ReceiveLimited.Seconds()/i.Busy.Seconds()), min(1, i.SendLimited.Seconds()/i.Busy.Seconds())
	}
	return p, true
}

// whyStalled says in words why nothing is acknowledged, as far as TCP tells.
func whyStalled(p *info.PathTCP) string {
	switch {
	case p.Timeouts > 0:
		return fmt.Sprintf("%d retransmissions in a row: packets are lost, or the peer's host is gone", p.Timeouts)
	case p.Probes > 0, p.NotSent > 0 && p.SendWindow < p.MSS:
		return "the peer's TCP window is closed: its RDS does not read"
	}
	return "the peer's TCP has everything, its RDS does not answer"
}

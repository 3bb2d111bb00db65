package gnetloop

import (
	"fmt"
	"syscall"
	"time"

	"github.com/rds-go/rds/transport"
)

// errSilent ends a connection whose peer has answered nothing for Options.Silence
// although something was sent to it. It is syscall.ETIMEDOUT.
var errSilent = fmt.Errorf("peer has not answered for too long: %w", syscall.ETIMEDOUT)

const (
	defaultSilence = 20 * time.Second
	// silenceLooks is how often a connection is looked at in Options.Silence. So many
	// looks, one after the other, find the peer silent, or it is not: what stops this
	// process, or the whole machine, takes up one look at most.
	silenceLooks = 16

	// rtoMost bounds the time between two retransmissions, and between two probes of a
	// closed window, where the kernel can (TCP_RTO_MAX_MS, Linux 6.15): so long after
	// the end of an outage shorter than Options.Silence the connection goes on. The
	// kernel gives up after net.ipv4.tcp_retries2 (15) of them, some 21 s.
	rtoMost = 1500 * time.Millisecond
	// rtoKernels is the kernel's own bound.
	rtoKernels = 2 * time.Minute

	// keepAliveMost is TCP_KEEPCNT where Options.Silence has us look for ourselves; see owes.
	keepAliveMost = 127
)

// silence is how long the peer of a connection has left unanswered what was sent.
type silence struct {
	looks int // looks in a row that have found the peer owing an answer
	since time.Time
}

// owes tells whether the peer owes an answer, and for how long it may. outstanding is
// whether something was written that is not acknowledged; where nothing is, keepalive's
// probe is due after its time.
//
// unread is whether bytes have come that this process has not read. Then the kernel may
// throw the peer's answers away, and nothing can be said: it takes a window back that it
// has announced when many small messages use up its receive memory, and acknowledgements
// then lie outside of that window (tcp_sequence, net/ipv4/tcp_input.c). That is why the
// kernel is not to judge by itself either, by a count of its keepalive's probes or of
// retransmissions, while this process does not read, or is stopped.
func (o *Options) owes(outstanding, unread bool, i *transport.TCPInfo) (owed bool, limit time.Duration) {
	switch {
	case unread:
		return false, 0
	case outstanding:
		return unanswered(i), o.Silence
	}
	return i.LastAckRecv > o.KeepAliveIdle, o.KeepAliveInterval * time.Duration(o.KeepAliveCount)
}

// unanswered tells whether the peer's TCP owes an answer: a segment with data was sent,
// or a probe of the peer's closed window, and nothing has come since that acknowledges
// anything. While that window is closed our kernel sends less and less often, up to two
// minutes apart, a probe or a segment that the window has closed before; once that is
// answered nothing is owed until the next one.
func unanswered(i *transport.TCPInfo) bool {
	return i.Probes > 0 || i.Unacked > 0 && i.LastDataSent < i.LastAckRecv
}

// look notes the state of a connection and tells whether its peer has been silent for
// the limit. owed is whether the peer's TCP owes an answer. ack is how long ago it has
// given the last one, which may be long before anything was sent that it owes one to.
func (s *silence) look(now time.Time, owed bool, ack, limit time.Duration) bool {
	switch {
	case !owed:
		*s = silence{}
	case s.looks == 0 || now.Add(-ack).After(s.since):
		*s = silence{looks: 1, since: now}
	default:
		s.looks++
	}
	return s.looks > silenceLooks && now.Sub(s.since) >= limit
}

// patience is how long a peer may leave a message unfinished.
func (o *Options) patience() time.Duration {
	if o.Silence < 0 {
		return defaultSilence
	}
	return o.Silence
}

// rtoMax is the bound of the connection's retransmission timeout. With a long limit it
// is such that the kernel does not give up before that.
func (o *Options) rtoMax() time.Duration {
	switch {
	case o.Silence < 0:
		return rtoKernels
	case o.Silence <= defaultSilence:
		return rtoMost
	}
	return min(max(rtoMost, o.Silence/8), rtoKernels)
}

// keepAliveCount is TCP_KEEPCNT.
func (o *Options) keepAliveCount() int {
	if o.Silence < 0 {
		return o.KeepAliveCount
	}
	return keepAliveMost
}

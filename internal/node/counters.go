package node

import (
	"maps"
	"slices"
	"sync/atomic"

	"github.com/rds-go/rds/conn"
	"github.com/rds-go/rds/transport"
)

// counters are a node's own; a connection's are in conn.Counters.
type counters struct {
	recvDropOld      atomic.Uint64 // duplicates of messages delivered before
	recvDropNoSock   atomic.Uint64 // messages to a port nobody is bound to
	recvDropTooLong  atomic.Uint64 // messages longer than Config.MaxMessage
	peersEnded       atomic.Uint64 // peers that ended with their last link
	strangersRefused atomic.Uint64 // links refused because there were too many strangers
	sequencesFull    atomic.Uint64 // links refused because the table of receive sequences was full
	recvRefused      atomic.Uint64 // times a peer was told that a message was not delivered
	RecvDropDead     atomic.Uint64 // messages queued on a socket that closed
	recvDropOverrun  atomic.Uint64 // messages beyond the hard bound of a receive buffer
	recvPaused       atomic.Uint64 // times a link was paused for a message without room
	recvMisplaced    atomic.Uint64 // runs of messages by another queue than their application's
	RecvWaited       atomic.Uint64 // messages for which an application's ring or arena had no room at once
	RecvDelivered    atomic.Uint64 // messages taken by the application
	recvQueued       atomic.Uint64 // messages put on a socket's queue
	SendQueueFull    atomic.Uint64 // sends that met a full send buffer or budget
	congUpdateQueued atomic.Uint64 // changes of our map, times connections
	CongSendError    atomic.Uint64 // non-blocking sends refused for congestion
	CongSendBlocked  atomic.Uint64 // sends that waited for congestion to end
	sendTooLong      atomic.Uint64 // messages that were refused because they are too long for their peer
	SendNotAllowed   atomic.Uint64 // messages to peers that are not allowed, other than those that conn counts
	sendAgain        atomic.Uint64 // operations that did not begin, after refusals of others of their sockets
	sendRDMA         atomic.Uint64 // RDMA operations begun
	sendRDMABytes    atomic.Uint64 // bytes of memory that operations were to write
	recvRDMABytes    atomic.Uint64 // bytes of memory that operations were to read
	UserRefused      atomic.Uint64 // requests of applications beyond the share of their user
}

// operated counts an operation that was begun.
func (c *counters) operated(op *Operation) {
	c.sendRDMA.Add(uint64(len(op.Core.List)))
	for _, t := range op.Core.List {
		n := 0
		for _, b := range t.Local {
			n += len(b)
		}
		switch t.Kind {
		case transport.OpWrite:
			c.sendRDMABytes.Add(uint64(n))
		case transport.OpRead:
			c.recvRDMABytes.Add(uint64(n))
		}
	}
}

// countersLocked are those of a connection.
func (p *Peer) countersLocked() conn.Counters {
	c := p.Core.Counters()
	c.SendExpired += p.expired
	return c
}

// List is the counter report: Linux's counters in Linux's order
// (net/rds/stats.c), zero where the thing does not exist here, then ours, then
// the transport's.
func (n *Node) List() []transport.Counter {
	n.Tally()
	n.Mu.RLock()
	t := n.endedCounters // read under the same lock as the peers: none counts twice, and none is missed
	peers := slices.Collect(maps.Values(n.Peers))
	n.Mu.RUnlock()
	for _, p := range peers {
		p.Lock()
		t.Add(p.countersLocked())
		p.Unlock()
	}
	c := &n.Counters
	out := []transport.Counter{
		{Name: "conn_reset", Value: t.ConnReset},
		{Name: "recv_drop_bad_checksum"},
		{Name: "recv_drop_old_seq", Value: c.recvDropOld.Load()},
		{Name: "recv_drop_no_sock", Value: c.recvDropNoSock.Load()},
		{Name: "recv_drop_dead_sock", Value: c.RecvDropDead.Load()},
		{Name: "recv_deliver_raced"},
		{Name: "recv_delivered", Value: c.RecvDelivered.Load()},
		{Name: "recv_queued", Value: c.recvQueued.Load()},
		{Name: "recv_immediate_retry"},
		{Name: "recv_delayed_retry"},
		{Name: "recv_ack_required"},
		{Name: "recv_rdma_bytes", Value: c.recvRDMABytes.Load()},
		{Name: "recv_ping", Value: t.RecvPing},
		{Name: "send_queue_empty"},
		{Name: "send_queue_full", Value: c.SendQueueFull.Load()},
		{Name: "send_lock_contention"},
		{Name: "send_lock_queue_raced"},
		{Name: "send_immediate_retry"},
		{Name: "send_delayed_retry"},
		{Name: "send_drop_acked"},
		{Name: "send_ack_required"},
		{Name: "send_queued", Value: t.SendQueued},
		{Name: "send_rdma", Value: c.sendRDMA.Load()},
		{Name: "send_rdma_bytes", Value: c.sendRDMABytes.Load()},
		{Name: "send_pong", Value: t.SendPong},
		{Name: "page_remainder_hit"},
		{Name: "page_remainder_miss"},
		{Name: "copy_to_user"},
		{Name: "copy_from_user"},
		{Name: "cong_update_queued", Value: c.congUpdateQueued.Load()},
		{Name: "cong_update_received", Value: t.CongUpdateReceived},
		{Name: "cong_send_error", Value: t.CongSendError + c.CongSendError.Load()},
		{Name: "cong_send_blocked", Value: c.CongSendBlocked.Load()},
		{Name: "recv_bytes_added_to_sock"},
		{Name: "recv_bytes_freed_fromsock"},
		{Name: "send_stuck_rm"},
		{Name: "send_retransmitted", Value: t.Retransmitted},
		{Name: "send_drop_generation", Value: t.DroppedFlush},
		{Name: "send_pong_dropped", Value: t.PongsDropped},
		{Name: "recv_drop_overrun", Value: c.recvDropOverrun.Load()},
		{Name: "recv_drop_too_long", Value: c.recvDropTooLong.Load()},
		{Name: "recv_paused", Value: c.recvPaused.Load()},
		{Name: "recv_misplaced", Value: c.recvMisplaced.Load()},
		{Name: "recv_waited", Value: c.RecvWaited.Load()},
		{Name: "recv_refused", Value: c.recvRefused.Load()},
		{Name: "peers_ended", Value: c.peersEnded.Load()},
		{Name: "strangers_refused", Value: c.strangersRefused.Load()},
		{Name: "sequences_full", Value: c.sequencesFull.Load()},
		{Name: "send_held", Value: t.Held},
		{Name: "send_refused", Value: t.SendRefused},
		{Name: "send_expired", Value: t.SendExpired},
		{Name: "send_too_long", Value: t.SendTooLong + c.sendTooLong.Load()},
		{Name: "send_again", Value: c.sendAgain.Load()},
		{Name: "send_not_allowed", Value: t.SendBarred + c.SendNotAllowed.Load()},
		{Name: "conn_refused", Value: t.LinksRefused},
		{Name: "conn_not_allowed", Value: n.rejections.sum()},
		{Name: "log_left_out", Value: n.LogLimit.Left()},
		{Name: "peer_generations", Value: t.Generations},
		{Name: "user_refused", Value: c.UserRefused.Load()},
		{Name: "reports_made", Value: n.reports.count()},
	}
	for _, t := range n.wires {
		out = append(out, t.Stats()...)
	}
	return out
}

// mapNews tells sockets that a congestion map has arrived.
func (n *Node) mapNews() {
	defer n.mapGen.Add(1) // last: whoever sees the map counted gets no news of that map later
	n.Server().MapNews()
	n.Mu.RLock()
	defer n.Mu.RUnlock()
	if !n.monitored.Load() {
		return
	}
	for s := range n.socks {
		s.CongestionNews()
	}
}

// Tally counts what applications say in their cells. It precedes a look at the counters.
func (n *Node) Tally() {
	for _, s := range n.Sockets() {
		s.Owner.Tally()
	}
}

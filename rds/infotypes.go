package rds

import (
	"net/netip"
	"time"

	"github.com/rds-go/rds/conn"
	"github.com/rds-go/rds/transport"
)

// Info is a snapshot of a node, what rds-info shows of a kernel.
type Info struct {
	Provider    string              `json:"provider"`
	Addresses   []netip.Addr        `json:"addresses,omitempty"` // that a node listens on
	Counters    []transport.Counter `json:"counters"`
	Sockets     []SocketInfo        `json:"sockets"`
	Connections []ConnectionInfo    `json:"connections"`
	SendQueue   []QueuedInfo        `json:"send_queue"`
	Retransmit  []QueuedInfo        `json:"retransmit_queue"`
	Receive     []QueuedInfo        `json:"receive_queue"`
	TCP         []TCPInfo           `json:"tcp_connections"`
	XRC         []XRCInfo           `json:"xrc_connections"`
	Sessions    []SessionInfo       `json:"sessions,omitempty"` // of a Service
	Waits       []WaitInfo          `json:"waits,omitempty"`    // who waits, for what and since when
	Time        time.Time           `json:"time,omitzero"`      // of the snapshot
}

// SessionInfo describes an application attached to a Service.
type SessionInfo struct {
	ID           uint64    `json:"id"`
	PID          int       `json:"pid"`
	UID          uint32    `json:"uid"`
	GID          uint32    `json:"gid"`
	Command      string    `json:"command"`
	Since        time.Time `json:"since"`
	Sockets      int       `json:"sockets"`
	SendQueued   int       `json:"send_queued"`   // bytes of memory queued or unacknowledged
	SendBudget   int       `json:"send_budget"`   // their bound
	ReceiveArena int       `json:"receive_arena"` // bytes of shared memory for what is received
	ReceiveLent  int       `json:"receive_lent"`  // of them in use
	Waiting      int       `json:"waiting"`       // messages received that wait for room there
	Queue        uint32    `json:"queue"`         // number of its receive queue on XRC; 0: it has none of its own
	Backlog      int       `json:"backlog"`       // bytes of memory of what waits
	NotReady     bool      `json:"not_ready"`     // peers are to keep what they have for it
	SentMessages uint64    `json:"sent_messages"` // accepted from the application
	SentBytes    uint64    `json:"sent_bytes"`    // their payload
	RecvMessages uint64    `json:"recv_messages"` // taken by the application
	RecvBytes    uint64    `json:"recv_bytes"`    // their payload
	Stalled      uint64    `json:"stalled"`       // times it had to wait for its turn on a connection

	CongestionBlocked uint64 `json:"cong_send_blocked"` // sends that waited for congestion to end
	CongestionErrors  uint64 `json:"cong_send_error"`   // sends refused for congestion
	QueueFull         uint64 `json:"send_queue_full"`   // sends that met a full send buffer, ring or arena
}

// SocketInfo is one line of rds-info -k.
type SocketInfo struct {
	Bound        netip.AddrPort `json:"bound"`
	Connected    netip.AddrPort `json:"connected"`
	SendBuffer   int            `json:"send_buffer"`
	ReceiveBuf   int            `json:"receive_buffer"`
	SendQueued   int            `json:"send_queued"`    // payload bytes queued or unacknowledged
	RecvQueued   int            `json:"receive_queued"` // payload bytes waiting to be received
	Congested    bool           `json:"congested"`
	RecvMessages int            `json:"receive_messages"`
	Inode        uint64         `json:"inode"`
	PID          int            `json:"pid,omitempty"`     // of the application that attached, and its
	UID          uint32         `json:"uid,omitempty"`     // user
	Command      string         `json:"command,omitempty"` // and name
}

// ConnectionInfo is one line of rds-info -n, with its paths.
type ConnectionInfo struct {
	Local      netip.Addr      `json:"local"`
	Remote     netip.Addr      `json:"remote"`
	TOS        uint8           `json:"tos"`
	Transport  string          `json:"transport"` // "xrc", "tcp" or, within a node, "loop"; empty while that is not known
	NextTX     uint64          `json:"next_tx"`   // of path 0
	NextRX     uint64          `json:"next_rx"`   // of path 0
	Sending    bool            `json:"sending"`
	Connecting bool            `json:"connecting"`
	Connected  bool            `json:"connected"`
	Paths      int             `json:"paths"`      // agreed on; 0 before the handshake
	Generation uint32          `json:"generation"` // the peer's
	Queued     int             `json:"queued"`     // bytes of memory for queued messages
	Path       []conn.PathInfo `json:"path"`
	TCP        []PathTCP       `json:"tcp_info,omitempty"` // of the paths that have a TCP connection
}

// QueuedInfo is one line of rds-info -s, -t or -r.
type QueuedInfo struct {
	Local    netip.AddrPort `json:"local"`
	Remote   netip.AddrPort `json:"remote"`
	TOS      uint8          `json:"tos"`
	Sequence uint64         `json:"sequence"`
	Bytes    int            `json:"bytes"`
}

// TCPInfo is one line of rds-info -T: a connection of RDS over TCP.
type TCPInfo struct {
	Local            netip.AddrPort `json:"local"`
	Remote           netip.AddrPort `json:"remote"`
	Path             int            `json:"path"`
	HeaderRemaining  uint64         `json:"header_remaining"`
	PayloadRemaining uint64         `json:"payload_remaining"`
	SentNext         uint64         `json:"sent_next"`    // stream offset of the last message's first byte
	ExpectedUna      uint64         `json:"expected_una"` // one past its last byte
	SeenUna          uint64         `json:"seen_una"`     // acknowledged as last seen
}

// XRCInfo is one connection of RDS on XRC, what rds-info -I shows of InfiniBand.
type XRCInfo struct {
	Local      netip.AddrPort `json:"local"`
	Remote     netip.AddrPort `json:"remote"`
	Path       int            `json:"path"`
	TOS        uint8          `json:"tos"`
	CRC        bool           `json:"crc"`        // segments have a CRC besides TCP's checksum
	Operations int            `json:"operations"` // requests for the peer's memory under way
	Written    uint64         `json:"written"`    // bytes of messages written
	Acked      uint64         `json:"acked"`      // of them taken by the peer's RDS
}

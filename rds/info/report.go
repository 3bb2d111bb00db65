package info

import (
	"net/netip"
	"time"

	"github.com/rds-go/rds/conn"
	"github.com/rds-go/rds/transport"
	"github.com/rds-go/rds/xrc/objects"
)

// Report is a snapshot of a node, what rds-info shows of a kernel.
type Report struct {
	Provider    string              `json:"provider"`
	Addresses   []netip.Addr        `json:"addresses,omitempty"` // addresses that a node listens on
	Counters    []transport.Counter `json:"counters"`
	Sockets     []Socket            `json:"sockets"`
	Connections []Connection        `json:"connections"`
	SendQueue   []Queued            `json:"send_queue"`
	Retransmit  []Queued            `json:"retransmit_queue"`
	Receive     []Queued            `json:"receive_queue"`
	TCP         []TCP               `json:"tcp_connections"`
	XRC         []XRC               `json:"xrc_connections"`
	Sessions    []Session           `json:"sessions,omitempty"`    // applications attached to a Service
	Memory      *Memory             `json:"memory,omitempty"`      // memory regions; nil without a transport that carries RDMA
	Admission   *Admission          `json:"admission,omitempty"`   // nil: the node has no allow-list and never rejected anybody, and no filter is known
	Peers       *Peers              `json:"peers,omitempty"`       // sizes of the tables of peers
	Users       []User              `json:"users,omitempty"`       // what users have of their shares
	LeftOut     string              `json:"left_out,omitempty"`    // what this report leaves out; empty: nothing
	Waits       []Wait              `json:"waits,omitempty"`       // messages that wait, for what and since when
	Time        time.Time           `json:"time,omitzero"`         // when the snapshot was made
	Objects     *objects.Objects    `json:"xrc_objects,omitempty"` // objects of XRC, if InfoObjects was asked for; nil: the node does not speak XRC
}

// InfoPart names a part of Info that only reports have that are asked for it, because the part
// may be large.
type InfoPart string

// InfoObjects is Report.Objects: XRC sessions, domains, targets, initiators, shared receive queues
// and registrations. Of each kind 131,072 are listed at most.
const InfoObjects InfoPart = "xrc_objects"

// Peers is how many peers a node knows.
type Peers struct {
	Peers        int `json:"peers"`         // peers with a link, or that somebody here talks to
	Strangers    int `json:"strangers"`     // peers that have proved nothing
	MaxStrangers int `json:"max_strangers"` // bound of Strangers
	Sequences    int `json:"sequences"`     // entries of the table of receive sequences
	MaxSequences int `json:"max_sequences"` // entries, and strangers that might need one, beyond which new strangers are refused
	SlotsTold    int `json:"slots_told"`    // slots of the table of applications whose peers have ended and that applications may know
}

// Session describes an application attached to a Service.
type Session struct {
	ID           uint64    `json:"id"`
	PID          int       `json:"pid"`
	UID          uint32    `json:"uid"`
	GID          uint32    `json:"gid"`
	Command      string    `json:"command"`
	Since        time.Time `json:"since"`
	Sockets      int       `json:"sockets"`
	SendQueued   int       `json:"send_queued"`   // bytes of memory queued or unacknowledged
	SendBudget   int       `json:"send_budget"`   // bound of SendQueued
	ReceiveArena int       `json:"receive_arena"` // bytes of shared memory for what is received
	ReceiveLent  int       `json:"receive_lent"`  // bytes of the receive arena in use
	Waiting      int       `json:"waiting"`       // messages received that wait for room on the ring or in the receive arena
	Queue        uint32    `json:"queue"`         // number of the application's receive queue on XRC; 0: it has none of its own
	Backlog      int       `json:"backlog"`       // bytes of memory of messages received and not yet handed over
	NotReady     bool      `json:"not_ready"`     // peers hold back messages for the application
	SentMessages uint64    `json:"sent_messages"` // messages accepted from the application
	SentBytes    uint64    `json:"sent_bytes"`    // payload bytes of SentMessages
	RecvMessages uint64    `json:"recv_messages"` // messages taken by the application
	RecvBytes    uint64    `json:"recv_bytes"`    // payload bytes of RecvMessages
	Stalled      uint64    `json:"stalled"`       // times the application had to wait for its turn on a connection

	CongestionBlocked uint64 `json:"cong_send_blocked"` // sends that waited for congestion to end
	CongestionErrors  uint64 `json:"cong_send_error"`   // sends refused for congestion
	QueueFull         uint64 `json:"send_queue_full"`   // sends that met a full send buffer, ring or arena
}

// Socket is one line of rds-info -k.
type Socket struct {
	Bound        netip.AddrPort `json:"bound"`
	Connected    netip.AddrPort `json:"connected"`
	SendBuffer   int            `json:"send_buffer"`
	ReceiveBuf   int            `json:"receive_buffer"`
	SendQueued   int            `json:"send_queued"`    // payload bytes queued or unacknowledged
	RecvQueued   int            `json:"receive_queued"` // payload bytes waiting to be received
	Congested    bool           `json:"congested"`
	RecvMessages int            `json:"receive_messages"`
	Inode        uint64         `json:"inode"`
	PID          int            `json:"pid,omitempty"`     // process id of the application that attached
	UID          uint32         `json:"uid,omitempty"`     // user id of the application
	Command      string         `json:"command,omitempty"` // name of the application's program

	Whose Whose `json:"-"`
}

// Connection is one line of rds-info -n, with its paths.
type Connection struct {
	Local      netip.Addr      `json:"local"`
	Remote     netip.Addr      `json:"remote"`
	TOS        uint8           `json:"tos"`
	Transport  string          `json:"transport"` // "xrc", "tcp" or, within a node, "loop"; empty while that is not known
	CRC        bool            `json:"crc"`       // every segment of path 0 has a CRC besides TCP's checksum
	NextTX     uint64          `json:"next_tx"`   // next sequence number sent on path 0
	NextRX     uint64          `json:"next_rx"`   // next sequence number expected on path 0
	Sending    bool            `json:"sending"`
	Connecting bool            `json:"connecting"`
	Connected  bool            `json:"connected"`
	Paths      int             `json:"paths"`      // number of paths agreed on; 0 before the handshake
	Generation uint32          `json:"generation"` // the peer's generation
	Queued     int             `json:"queued"`     // bytes of memory for queued messages
	Path       []conn.PathInfo `json:"path"`
	TCP        []PathTCP       `json:"tcp_info,omitempty"` // TCP_INFO of the paths that have a TCP connection

	Users []uint32 `json:"-"` // users whose applications use the connection
}

// Queued is one line of rds-info -s, -t or -r.
type Queued struct {
	Local    netip.AddrPort `json:"local"`
	Remote   netip.AddrPort `json:"remote"`
	TOS      uint8          `json:"tos"`
	Sequence uint64         `json:"sequence"`
	Bytes    int            `json:"bytes"`

	Whose Whose `json:"-"`
}

// TCP is one line of rds-info -T: a connection of RDS over TCP.
type TCP struct {
	Local            netip.AddrPort `json:"local"`
	Remote           netip.AddrPort `json:"remote"`
	Path             int            `json:"path"`
	HeaderRemaining  uint64         `json:"header_remaining"`
	PayloadRemaining uint64         `json:"payload_remaining"`
	SentNext         uint64         `json:"sent_next"`    // stream offset of the first byte of the last message
	ExpectedUna      uint64         `json:"expected_una"` // stream offset one past the last byte of the last message
	SeenUna          uint64         `json:"seen_una"`     // stream offset up to which the peer's TCP has acknowledged
}

// XRC is one connection of RDS on XRC, what rds-info -I shows of InfiniBand.
type XRC struct {
	Local      netip.AddrPort `json:"local"`
	Remote     netip.AddrPort `json:"remote"`
	Path       int            `json:"path"`
	TOS        uint8          `json:"tos"`
	CRC        bool           `json:"crc"`        // segments have a CRC besides TCP's checksum
	Operations int            `json:"operations"` // requests for the peer's memory under way
	Written    uint64         `json:"written"`    // bytes of messages written
	Acked      uint64         `json:"acked"`      // bytes of messages taken by the peer's RDS
}

// Names of providers, for Open and the environment variable RDS_PROVIDER.
const (
	ProviderNode   = "node"
	ProviderDaemon = "rdsd"
	ProviderKernel = "kernel"
)

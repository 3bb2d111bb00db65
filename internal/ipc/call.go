package ipc

import (
	"net/netip"
	"time"
)

// Hello is the application's first message. The daemon answers with Welcome.
type Hello struct {
	Protocol string   `json:"protocol"` // "rds"
	Version  int      `json:"version"`
	Features []string `json:"features,omitempty"`
	Secret   []byte   `json:"secret,omitempty"` // proves to the next daemon that the application is the one which had its ports
}

// Protocol is what a Hello must name.
const Protocol = "rds"

// Features of a Hello and its Welcome.
const (
	FeatureRDMA    = "rdma"    // the daemon's connections may carry operations
	FeatureChoice  = "choice"  // CallAdmit is there, and the table says which transport serves a peer
	FeatureXRC     = "xrc"     // with FeatureChoice: the daemon has the XRC transport
	FeatureTCP     = "tcp"     // with FeatureChoice: the daemon has the TCP transport
	FeatureAgain   = "again"   // the application submits to the next daemon what this one has left
	FeatureSpill   = "spill"   // completions that find the ring full are spilled
	FeatureMoves   = "moves"   // the session goes on in the next daemon: a Reply with ID 0 brings its table
	FeatureExpires = "expires" // messages may have a time limit: AboutExpires
	FeatureObjects = "objects" // CallXRC: the application may have objects of XRC
	FeatureRegions = "regions" // with FeatureRDMA: OpExpose and OpConceal
	FeatureSlots   = "slots"   // the application reads a sender's slot before it gives the entry back, and compares Table.Slot with what it remembers
)

// Welcome answers a Hello: either with the reason of a refusal, or with four
// descriptors: the segment, the table, the daemon's bell and the application's
// ear.
type Welcome struct {
	Version  int      `json:"version"`
	Features []string `json:"features,omitempty"` // features that both sides have
	Error    string   `json:"error,omitempty"`
	Errno    int      `json:"errno,omitempty"`
	Session  uint64   `json:"session,omitempty"`

	// Defaults of new sockets.
	SendBuffer    int           `json:"send_buffer,omitempty"`
	ReceiveBuffer int           `json:"receive_buffer,omitempty"`
	Linger        time.Duration `json:"linger,omitempty"`

	// SendBudget is the memory that what is submitted and not settled may have, each
	// message counting 64 bytes besides its payload; 0: the daemon does not say.
	SendBudget int `json:"send_budget,omitempty"`
}

// WelcomeFiles is the number of descriptors that come with a Welcome.
const WelcomeFiles = 4

// Calls of an application. Each is answered by a Reply with its ID, not
// necessarily in order.
const (
	CallBind    = "bind"    // Addr: a socket; Reply.Socket and Reply.Addr
	CallClose   = "close"   // Socket, Linger: ends it; Reply.Messages and Reply.Bytes were dropped
	CallConnect = "connect" // Socket, Addr: the connected address, for reports
	CallOption  = "option"  // Socket, Option, Value
	CallCancel  = "cancel"  // Socket, Addr
	CallResolve = "resolve" // Local, Remote: the slot of a peer; Reply.Peer
	CallInfo    = "info"    // Option: a report, in parts; Option names what it has besides
	CallReach   = "reach"   // Socket, Peer, Wait: whether the connection carries operations
	CallExpose  = "expose"  // Socket, Offset, Length, Flags, Remote: a region; Reply.Cookie
	CallConceal = "conceal" // Socket, Cookie, Flags: ends a region
	CallXRC     = "xrc"     // XRC: something about objects of XRC; Reply.XRC
	CallAdmit   = "admit"   // Socket, Peer, Option: whether a transport serves the peer, which the call decides if it is not known
)

// Options of CallOption.
const (
	OptionSendBuffer    = "send_buffer"
	OptionReceiveBuffer = "receive_buffer"
	OptionRecvErr       = "recverr"
	OptionTOS           = "tos"
	OptionMonitor       = "cong_monitor"
)

// Request is a call.
type Request struct {
	ID     uint64         `json:"id"`
	Op     string         `json:"op"`
	Socket uint32         `json:"socket,omitempty"`
	Addr   netip.AddrPort `json:"addr,omitzero"`
	Local  netip.Addr     `json:"local,omitzero"`
	Remote netip.Addr     `json:"remote,omitzero"`
	Option string         `json:"option,omitempty"`
	Value  int64          `json:"value,omitempty"`
	Linger time.Duration  `json:"linger,omitempty"`
	Peer   uint32         `json:"peer,omitempty"`
	Offset uint32         `json:"offset,omitempty"`
	Length uint32         `json:"length,omitempty"`
	Flags  uint32         `json:"flags,omitempty"`
	Cookie uint64         `json:"cookie,omitempty"`
	Wait   bool           `json:"wait,omitempty"`
	XRC    *XRCCall       `json:"xrc,omitempty"`
}

// Reply answers a Request. Errno 0 with an Error is an error without number.
type Reply struct {
	ID       uint64         `json:"id"`
	Error    string         `json:"error,omitempty"`
	Errno    int            `json:"errno,omitempty"`
	Socket   uint32         `json:"socket,omitempty"`
	Addr     netip.AddrPort `json:"addr,omitzero"`
	Peer     uint32         `json:"peer,omitempty"`
	Cookie   uint64         `json:"cookie,omitempty"`
	Messages int            `json:"messages,omitempty"`
	Bytes    int            `json:"bytes,omitempty"`
	Data     []byte         `json:"data,omitempty"`
	More     bool           `json:"more,omitempty"` // another Reply with this ID follows
	XRC      *XRCReply      `json:"xrc,omitempty"`
}

// maxCall is the largest message that an application sends, in bytes, maxFrame
// the largest that the daemon sends; DataPart is how much of
// Reply.Data goes into one.
const (
	maxCall  = 4 << 10
	maxFrame = 64 << 10
	DataPart = 32 << 10
)

package info

import (
	"net/netip"
	"time"
)

// Wait says that messages or senders wait: who, for what, and since when. Addresses and
// ports that do not matter are zero.
type Wait struct {
	Cause    string         `json:"cause"` // one of CauseUnreachable and the other causes
	Since    time.Time      `json:"since"`
	Local    netip.AddrPort `json:"local"`             // the socket that waits
	Remote   netip.AddrPort `json:"remote"`            // the peer and its port that the socket waits for
	Path     int            `json:"path"`              // path of the connection
	PID      int            `json:"pid,omitempty"`     // process id of the application whose socket waits
	Command  string         `json:"command,omitempty"` // name of the application whose socket waits
	Messages int            `json:"messages"`          // messages that wait
	Bytes    int            `json:"bytes"`             // payload bytes that wait
	Senders  int            `json:"senders"`           // blocked calls
	Error    string         `json:"error,omitempty"`   // error of the last attempt to connect
	Tries    int            `json:"tries,omitempty"`   // attempts to connect that failed in a row
	NextTry  time.Time      `json:"next_try,omitzero"`
	Last     time.Time      `json:"last,omitzero"`   // refused message
	Owner    string         `json:"owner,omitempty"` // name of the application on this host that has the port waited for
	OwnerPID int            `json:"owner_pid,omitempty"`
	Detail   string         `json:"detail,omitempty"` // more that is known about the wait
	Hint     string         `json:"hint,omitempty"`   // what an operator can do

	Whose  Whose `json:"-"` // the socket that waits
	Holder Whose `json:"-"` // the application of Owner
}

// Causes of a Wait, as its Cause has them.
const (
	// CauseUnreachable: the path has no connection to the peer.
	CauseUnreachable = "unreachable"
	// CauseHandshake: the peer has accepted the connection and its RDS has not answered on it.
	CauseHandshake = "handshake"
	// CauseCongested: the peer has marked the port congested.
	CauseCongested = "congested"
	// CauseHeld: the application that has the port on the peer takes nothing, on XRC.
	CauseHeld = "held"
	// CauseSendBuffer: the socket's send buffer is full.
	CauseSendBuffer = "send_buffer"
	// CauseBudget: the budget of the peer, or of the application, is used up.
	CauseBudget = "budget"
	// CauseMemory: the application's submission ring or send arena is full.
	CauseMemory = "memory"
	// CauseFates: the application has not read the fates of its earlier messages.
	CauseFates = "fates"
	// CauseWindow: the peer's host takes or acknowledges nothing of what was written.
	CauseWindow = "window"
	// CauseReceiver: an application of this host does not take what has come for it.
	CauseReceiver = "receiver"
	// CausePaused: the path is not read, because the next message there has no room in the
	// socket. What comes behind it for other sockets waits, too.
	CausePaused = "paused"
	// CauseRefused: nobody is bound to the port, and the peer has refused messages for it
	// within the last 10 minutes. Nothing waits.
	CauseRefused = "refused"
	// CauseFallenBack: the peer is served over TCP although XRC is preferred. Nothing waits.
	CauseFallenBack = "fallen_back"
)

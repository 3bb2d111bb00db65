package conn

import "github.com/rds-go/rds/internal/wire"

// LinkID names a link between the owner and the core. The owner chooses it,
// never 0 and never one used before on the same Conn.
type LinkID uint64

// ActionKind says what an Action asks for.
type ActionKind uint8

// What the core may ask its owner to do.
const (
	// Dial: connect path Path; answer with Dialed or DialFailed.
	Dial ActionKind = iota + 1
	// CancelDial: give up the dial of Path under way; answer with DialFailed
	// or, when it is too late for that, Dialed.
	CancelDial
	// Start: link Link now carries path Path: begin receiving on it.
	Start
	// CloseLink: end link Link, draining what the peer still sends. That of a
	// path answers with LinkClosed, also if the owner has not come to start it.
	CloseLink
	// Transmit: path Path has something to write: Fill, write, Wrote.
	Transmit
	// WakeAll: what senders wait for besides their own send buffer may have
	// changed: a congestion map arrived, or the budget has room again.
	WakeAll
)

var actionNames = [...]string{Dial: "dial", CancelDial: "cancel-dial", Start: "start", CloseLink: "close", Transmit: "transmit", WakeAll: "wake-all"}

func (k ActionKind) String() string { return actionNames[k] }

// Action is one thing to do, after the owner's lock is released.
type Action struct {
	Kind ActionKind
	Path int
	Link LinkID
}

// Fate is the end of one message whose sender asked to be told.
type Fate struct {
	Account *Account
	Token   uint64
	Status  Status
	Op      *Operation // operation of the message, nil if it had none
}

// TakeActions appends what is to be done to buf and forgets it.
func (c *Conn) TakeActions(buf []Action) []Action {
	buf = append(buf, c.actions...)
	c.actions = c.actions[:0]
	return buf
}

// HasOutput tells whether TakeActions, TakeFreed or TakeFates have something.
func (c *Conn) HasOutput() bool {
	return len(c.actions) > 0 || len(c.freed) > 0 || len(c.fates) > 0
}

// TakeFreed appends the accounts that were full and have room again.
func (c *Conn) TakeFreed(buf []*Account) []*Account {
	buf = append(buf, c.freed...)
	clear(c.freed)
	c.freed = c.freed[:0]
	return buf
}

// TakeFates appends the fates to report.
func (c *Conn) TakeFates(buf []Fate) []Fate {
	buf = append(buf, c.fates...)
	clear(c.fates)
	c.fates = c.fates[:0]
	return buf
}

func (c *Conn) act(a Action) {
	if a.Kind == Transmit || a.Kind == WakeAll {
		for _, b := range c.actions {
			if b == a {
				return
			}
		}
	}
	c.actions = append(c.actions, a)
}

// IsControl tells whether a message is for the connection, not for a socket:
// HandleControl takes it. h has passed Inbound.Accept unless it is a map.
func (c *Conn) IsControl(h *wire.Header) bool {
	return h.IsCongestion() || h.Dport == wire.PortHost && (!c.cfg.IgnorePings || h.Sport == wire.PortProbe) || h.Dport == wire.PortProbe && h.Sport == wire.PortHost
}

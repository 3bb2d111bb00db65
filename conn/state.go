package conn

import (
	"errors"
	"fmt"
)

// State is the state of a path, with the values of Linux (net/rds/rds.h,
// RDS_CONN_*).
type State uint8

// The states of a path.
const (
	Down          State = iota // no link; may be claimed by a dial or an inbound link
	Connecting                 // a dial is under way
	Disconnecting              // the link is draining towards its end
	Up                         // the link carries messages
	Resetting                  // the link is draining, and its successor is already here
	Error                      // the link failed; its end has not been reported yet
)

var stateNames = [...]string{"down", "connecting", "disconnecting", "up", "resetting", "error"}

func (s State) String() string {
	if int(s) < len(stateNames) {
		return stateNames[s]
	}
	return fmt.Sprintf("state(%d)", uint8(s))
}

// transitions is the whole table: from a state to the states it may go to.
//
//	        dial                link opened
//	down ─────────▶ connecting ─────────────▶ up ──────┐ local close
//	 ▲  ╲               │                     ▲ │ ╲     ▼
//	 │   ╲ inbound      │ dial failed         │ │  ╲  disconnecting
//	 │    ╲─────────────┼─────────────────────┘ │   ╲    │    │ inbound
//	 │                  │                       │    ╲   │    ▼
//	 ├──────────────────┘        write failed   ▼     ▶ resetting
//	 │                                        error      │
//	 └───────────── link's end reported ◀───────┴────────┘
var transitions = [...][]State{
	Down:          {Connecting, Up},
	Connecting:    {Down, Up},
	Up:            {Down, Disconnecting, Resetting, Error},
	Disconnecting: {Down, Resetting},
	Resetting:     {Down},
	Error:         {Down, Resetting},
}

// ErrTransition is returned for a change of state the table does not have.
var ErrTransition = errors.New("conn: no such state transition")

// to moves the path to state s if the table allows it.
func (p *path) to(s State) error {
	for _, ok := range transitions[p.state] {
		if ok == s {
			p.state = s
			return nil
		}
	}
	return ErrTransition
}

// must is to for the transitions this package has just checked itself.
func (p *path) must(s State) {
	if err := p.to(s); err != nil {
		panic(fmt.Sprintf("conn: path %d: %v to %v: %v", p.index, p.state, s, err))
	}
}

package objects

import (
	"fmt"
	"slices"
)

// State is that of a queue pair, with the values of ibv_qp_state.
//
//	RESET ──▶ INIT ──▶ RTR ──▶ RTS ◀──▶ SQD        any ──▶ RESET
//	                                               any but RESET ──▶ ERR
//
// A target works from RTR on; RTS gives it nothing more. SQD is an initiator
// that starts no more of what was posted.
type State uint8

// The states. StateSQE is never entered by these types of queue pairs,
// StateUnknown is that of a handle that was not queried yet.
const (
	StateReset State = iota
	StateInit
	StateRTR
	StateRTS
	StateSQD
	StateSQE
	StateError
	StateUnknown

	states = int(StateError) + 1
)

var stateNames = [...]string{"reset", "init", "rtr", "rts", "sqd", "sqe", "error", "unknown"}

func (s State) String() string {
	if int(s) < len(stateNames) {
		return stateNames[s]
	}
	return fmt.Sprintf("state-%d", uint8(s))
}

// MarshalText returns the name.
func (s State) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText takes a name that MarshalText returned.
func (s *State) UnmarshalText(text []byte) error {
	i := slices.Index(stateNames[:], string(text))
	if i < 0 {
		return fmt.Errorf("xrc: no state %q", text)
	}
	*s = State(i)
	return nil
}

// Type is that of a queue pair, with the values of ibv_qp_type.
type Type uint8

// The types.
const (
	TypeInitiator Type = 9
	TypeTarget    Type = 10
)

// rule is a transition that there is: the attributes it must be given and those
// it may be given besides. Index 0 is for initiators, 1 for targets.
type rule struct {
	exists             bool
	required, optional [2]Mask
}

func of(t Type) int {
	if t == TypeTarget {
		return 1
	}
	return 0
}

// What several transitions take.
const (
	initMask   = MaskAccess
	rtrMask    = MaskAV | MaskPathMTU | MaskDestQPN
	rtsMask    = MaskTimeout
	liveMask   = MaskCurState | MaskAccess
	sqdMask    = MaskAV | MaskTimeout | MaskAccess
	responding = MaskMaxDestRdAtomic | MaskMinRNRTimer
	initiating = MaskMaxRdAtomic | MaskRetryCount | MaskRNRRetry
)

func both(m Mask) [2]Mask { return [2]Mask{m, m} }

// rules are the transitions, as drivers/infiniband/core/verbs.c of Linux 6.1 has
// them for XRC, without the attributes that mean nothing over TCP. Those to RESET and ERR take nothing but the state.
var rules = func() (t [states][states]rule) {
	for from := range t {
		t[from][StateReset].exists = true
		if from != int(StateReset) {
			t[from][StateError].exists = true
		}
	}
	live := [2]Mask{liveMask, liveMask | MaskMinRNRTimer}
	t[StateReset][StateInit] = rule{exists: true, required: both(initMask)}
	t[StateInit][StateInit] = rule{exists: true, optional: both(initMask)}
	t[StateInit][StateRTR] = rule{exists: true, required: [2]Mask{rtrMask, rtrMask | responding}, optional: both(MaskAccess)}
	t[StateRTR][StateRTS] = rule{exists: true, required: [2]Mask{rtsMask | initiating, rtsMask}, optional: live}
	t[StateRTS][StateRTS] = rule{exists: true, optional: live}
	t[StateRTS][StateSQD] = rule{exists: true, optional: both(MaskSQDNotify)}
	t[StateSQD][StateRTS] = rule{exists: true, optional: live}
	t[StateSQD][StateSQD] = rule{exists: true, optional: [2]Mask{sqdMask | initiating, sqdMask | responding}}
	return t
}()

// strip takes away, without a word, what the type has no use for, so that one
// mask does for both ends.
func strip(t Type, m Mask) Mask {
	if t == TypeTarget {
		return m &^ initiating
	}
	return m &^ responding
}

// transition checks a change of state and what it is given.
func transition(t Type, from, to State, m Mask) error {
	if to > StateError {
		return fieldError("Attr.State", to)
	}
	r := &rules[from][to]
	if !r.exists {
		return ErrState
	}
	required, optional := r.required[of(t)], r.optional[of(t)]
	if m&required != required || m&^(required|optional|MaskState) != 0 {
		return ErrAttribute
	}
	return nil
}

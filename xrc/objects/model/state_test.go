package model

import (
	"fmt"
	"strings"
)

const (
	slots      = 2
	initiators = 2
	sessions   = 3 // the most
	window     = 2 // frames in a direction, the most
)

// life of a target.
type life uint8

const (
	free life = iota
	live
	failed    // in error, everyone registered is to hear of it
	tombstone // reaped: the number is taken, the rest is gone
)

// target is a target number of the daemon.
type target struct {
	life      life
	gen       uint8
	ini       uint8 // initiator of the target
	iniGen    uint8
	iniInc    uint8 // incarnation of the other daemon
	executed  uint8 // messages, which is the number that Resume compares
	suspended bool
}

// hold is what a session has to do with a target.
type hold uint8

const (
	stranger   hold = iota
	registered      // registered, and all is well as far as the session can know
	waiting         // there is an event in its queue
	aware           // the session knows that the target is in error
	twice           // the session knows, and there is an event in its queue
)

// phase of an initiator.
type phase uint8

const (
	closed phase = iota
	connecting
	up
	suspended
	broken
)

type initiator struct {
	phase phase
	gen   uint8
	asked bool // the request of this phase is on its way, on this connection
	slot  uint8
	tgt   uint8 // generation of the target
	dInc  uint8 // incarnation of its daemon
	sent  uint8 // messages, on this connection or before
	acked uint8

	executed uint8 // what really happened to its messages
}

type frameKind uint8

const (
	none frameKind = iota
	askTarget
	askResume
	data
	gone // the initiator is closed
	hasTarget
	hasResumed
	refused // no such target
	ack
)

var frameNames = [...]string{
	askTarget: "request of initiator", askResume: "resume of initiator", data: "message of initiator", gone: "end of initiator",
	hasTarget: "target for initiator", hasResumed: "resumed, to initiator", refused: "refusal to initiator", ack: "ack to initiator",
}

// frame is on the connection. arg is the first message that is not acknowledged,
// the number of a message, or the number of messages executed.
type frame struct {
	kind           frameKind
	ini, gen       uint8
	slot, tgt, arg uint8
}

// queue is a direction of the connection.
type queue [window]frame

// room tells whether there are fewer than n frames.
func (q *queue) room(n int) bool { return q[n-1].kind == none }

func (q *queue) put(f frame) {
	for i := range q {
		if q[i].kind == none {
			q[i] = f
			return
		}
	}
	panic("no room")
}

func (q *queue) take() frame {
	f := q[0]
	copy(q[:], q[1:])
	q[window-1] = frame{}
	return f
}

// state is everything, comparable.
type state struct {
	connected  bool
	out, back  queue // from the initiators' host, and to it
	dInc, iInc uint8 // incarnations of the targets' and the initiators' daemon
	nextGen    uint8 // next generation of targets
	targets    [slots]target
	inis       [initiators]initiator
	sessions   [sessions][slots]hold
	reap       struct{ slot, gen uint8 } // what the reaper is about to do

	doomed uint8 // only in a variant: targets that will be destroyed, a bit for each
}

// holders is how many sessions are registered with a target.
func (s *state) holders(t int) (n int) {
	for i := range s.sessions {
		if s.sessions[i][t] != stranger {
			n++
		}
	}
	return n
}

// empty tells whether nothing is left of anything.
func (s *state) empty() bool {
	for t := range s.targets {
		if s.targets[t].life != free || s.holders(t) > 0 {
			return false
		}
	}
	for i := range s.inis {
		if s.inis[i].phase != closed {
			return false
		}
	}
	return true
}

// wrong says which property the state violates.
func (s *state) wrong() string {
	for t := range s.targets {
		tgt := &s.targets[t]
		if n := s.holders(t); (tgt.life == free) != (n == 0) {
			return fmt.Sprintf("target %d is %v and has %d registrations", t, tgt.life, n)
		}
		for i := range s.sessions {
			h := s.sessions[i][t]
			switch {
			case tgt.life == live && h > registered:
				return fmt.Sprintf("session %d is told of an error of live target %d", i, t)
			case h == twice:
				return fmt.Sprintf("session %d hears twice of the error of target %d", i, t)
			case tgt.life > live && h == registered:
				return fmt.Sprintf("session %d will never hear of the error of target %d", i, t)
			}
		}
		for o := range t {
			other := &s.targets[o]
			if tgt.life == live && other.life == live && tgt.ini == other.ini && tgt.iniGen == other.iniGen && tgt.iniInc == other.iniInc {
				return fmt.Sprintf("initiator %d has two targets", tgt.ini)
			}
		}
	}
	for i := range s.inis {
		if n := &s.inis[i]; n.acked > n.executed {
			return fmt.Sprintf("initiator %d believes %d messages done, %d are", i, n.acked, n.executed)
		}
	}
	return ""
}

func (l life) String() string { return [...]string{"free", "live", "failed", "tombstone"}[l] }

func (p phase) String() string {
	return [...]string{"closed", "connecting", "up", "suspended", "broken"}[p]
}

func (h hold) String() string { return [...]string{"-", "registered", "waiting", "aware", "twice"}[h] }

func (s state) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "connected %v, incarnations %d %d", s.connected, s.dInc, s.iInc)
	for i, t := range s.targets {
		fmt.Fprintf(&b, "; target %d.%d %v", i, t.gen, t.life)
		if t.life == live {
			fmt.Fprintf(&b, " of %d.%d.%d, %d executed, suspended %v", t.ini, t.iniInc, t.iniGen, t.executed, t.suspended)
		}
	}
	for i, n := range s.inis {
		fmt.Fprintf(&b, "; initiator %d.%d %v", i, n.gen, n.phase)
		if n.phase >= up {
			fmt.Fprintf(&b, " with %d.%d, %d sent, %d acked, %d executed", n.slot, n.tgt, n.sent, n.acked, n.executed)
		}
	}
	fmt.Fprintf(&b, "; sessions %v", s.sessions)
	return b.String()
}

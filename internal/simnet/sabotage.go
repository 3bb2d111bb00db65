package simnet

import "github.com/rds-go/rds/internal/wire"

// Sabotage is a way to break the rules in the harness. A checker that does not
// notice is worth nothing.
type Sabotage uint8

// Ways to break the rules.
const (
	None             Sabotage = iota
	ForgetFlag                // the RETRANSMITTED flag is lost in transit
	FlagNew                   // new messages arrive flagged and with an old number
	DeliverOld                // messages that the sequence rule drops are delivered
	LoseMessages              // messages vanish between link and socket
	AckAhead                  // a link says acknowledged of bytes that were only written
	IgnoreMaps                // congestion maps are not taken
	LeakLinks                 // the end of a link is not reported
	RedialAtOnce              // time runs 1,000 times faster for the back-off
	Corrupt                   // a byte of a payload changes
	Misroute                  // messages arrive at another port
	ForgetMessages            // the account of a socket is charged twice
	ForgetGeneration          // probes do not state the generation
	ScribbleBatch             // bytes that Fill showed change before they are written
	RepeatOperations          // an operation that was begun is shown again
	IgnoreHolds               // the core is not told of held ports
	CutPaused                 // the end of a paused link is reported before the messages that the link has brought are taken
	ForgetRefusals            // a refused message that comes again is not refused again
	ForgetLimits              // time limits are not given to the core
	HurryLimits               // time limits are over at once
	ExpireWritten             // messages that succeed are reported as expired
	SkipSurvey                // a process that stops does not ask its peers before it ends its links
	CancelAbandoned           // messages that a stopping process gives up are canceled
	ForgetLengths             // hosts do not say how long messages may be
	ForgetSequences           // the receive sequence of a generation is forgotten when another one is stated
	sabotages
)

var sabotageNames = [...]string{"None", "ForgetFlag", "FlagNew", "DeliverOld", "LoseMessages", "AckAhead", "IgnoreMaps",
	"LeakLinks", "RedialAtOnce", "Corrupt", "Misroute", "ForgetMessages", "ForgetGeneration", "ScribbleBatch", "RepeatOperations", "IgnoreHolds", "CutPaused", "ForgetRefusals",
	"ForgetLimits", "HurryLimits", "ExpireWritten", "SkipSurvey", "CancelAbandoned", "ForgetLengths", "ForgetSequences"}

func (s Sabotage) String() string { return sabotageNames[s] }

// rigged tells whether to break the rule in question now.
func (s *Sim) rigged(what Sabotage, p float64) bool {
	return s.cfg.Sabotage == what && s.chance(p)
}

// rigHeader changes a header that arrives.
func (s *Sim) rigHeader(h *wire.Header) {
	switch {
	case s.cfg.Sabotage == None || h.IsCongestion():
	case s.rigged(ForgetFlag, 1):
		h.Flags &^= wire.FlagRetransmitted
	case h.Sport > wire.PortProbe && s.rigged(FlagNew, 0.05):
		h.Flags, h.Sequence = wire.FlagRetransmitted, h.Sequence-1
	case h.Dport > wire.PortProbe && s.rigged(Misroute, 0.05):
		h.Dport ^= 1
	case s.rigged(ForgetGeneration, 1):
		clear(h.Extensions[3:])
	}
}

package bench

import (
	"fmt"

	"github.com/rds-go/rds/rds"
)

// Bounds of a Stopped work.
const (
	maxPairs = 128 // pairs of applications, each with the shared memory of two arenas
	// leastStopped is how many sockets an application needs for their receive buffers
	// to hold more than its arena and what may wait in the daemon: with fewer it is
	// congestion that stops senders, and its queue stays ready.
	leastStopped = (rds.DefaultReceiveArena+rds.DefaultReceiveBacklog)/rds.DefaultBuffer + 1
)

// Standstill is what it costs that one application is stopped while others stream on
// the same connection. Ratios are of the rates of all pairs but its own, to the rate in
// the same round with all running.
type Standstill struct {
	Lowest  float64 `json:"lowest_ratio"` // lowest of the rounds, while the stopped application's queue was not ready
	Highest float64 `json:"highest_ratio"`
	Filling float64 `json:"filling_ratio"` // median: in as long a time from the stop on, in which its memory fills

	Slowest       float64 `json:"slowest_pair"`             // median: the slowest of the other pairs, as part of their mean
	SlowestActive float64 `json:"slowest_pair_all_running"` // slowest_pair with all applications running

	Rounds    int    `json:"rounds"`            // each round has a stop, until the application's queue is not ready, and the arrival of all that was kept
	Queue     uint32 `json:"queue"`             // number of the stopped application's queue
	Backlog   int    `json:"backlog_bytes"`     // most that waited for the stopped application in its daemon
	Grown     int    `json:"backlog_grown"`     // most that backlog_bytes grew by in the measured time
	Congested int    `json:"congested_sockets"` // most congested sockets of the stopped application
	Held      uint64 `json:"send_held"`         // messages that the client's daemon had queued and kept, in all rounds
	Overrun   uint64 `json:"recv_drop_overrun"` // messages that the server's daemon dropped; others than 0 fail the run
	Total     uint64 `json:"messages"`          // messages of all pairs in all rounds: all were sent, and arrived in order

	// Physical memory of the server's daemon: its own, and the shared memory of all its
	// applications in so far as it was ever used.
	Private footprint `json:"private"`
	Shared  footprint `json:"shared"`
	Arena   int       `json:"receive_arena_bytes"` // bytes that an application shares for what it receives, most of all that it shares
}

// footprint is memory in bytes.
type footprint struct {
	Before int64 `json:"before"` // before the first stop
	Peak   int64 `json:"peak"`   // while the application was stopped
	After  int64 `json:"after"`  // at the end of the run
}

// validateStopped checks what is of this mode alone.
func (o *Options) validateStopped(check func(ok bool, format string, args ...any)) {
	check(o.Processes >= 2 && o.Processes <= maxPairs, "--pairs is 2 to %d, not %d", maxPairs, o.Processes)
	check(o.Sockets >= leastStopped && o.Sockets <= rds.DefaultMaxSockets, "--sockets is %d to %d, not %d: receive buffers that hold more than an application's arena",
		leastStopped, rds.DefaultMaxSockets, o.Sockets)
	check(o.wire() != rds.WireTCP, "it is on XRC that an application has a queue: --wire tcp has none")
	check(o.Pin != PinSplit, "--pin is none or same, for all processes")
	for _, n := range o.Sizes {
		check(n >= numberEnd && n <= rds.MaxMessage, "messages have %d bytes to 1m, not %d", numberEnd, n)
	}
}

// standstillSentence says what the others lose, and what the daemon holds.
func (row *Row) standstillSentence() string {
	s := row.Standstill
	if s == nil {
		return ""
	}
	mib := func(n int64) string { return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20)) }
	return fmt.Sprintf("%s: with one application stopped the %d others have %.3f of the rate that they have with all running (%.3f to %.3f in %d rounds; %.3f while its memory filled), "+
		"the slowest of them %.2f of their mean (%.2f with all running); of the stopped one queue %d not ready with %s in rdsd, %d of %d sockets congested, %d messages kept by the sender's rdsd; "+
		"rdsd's own memory at most %s, before %s, after %s, and shared with all applications %s; %d dropped, and all %d messages arrived in order",
		row.Title, row.Work.Processes-1, row.OfActive, s.Lowest, s.Highest, s.Rounds, s.Filling,
		s.Slowest, s.SlowestActive, s.Queue, mib(int64(s.Backlog)), s.Congested, row.Work.Sockets, s.Held,
		mib(s.Private.Peak), mib(s.Private.Before), mib(s.Private.After), mib(s.Shared.Peak), s.Overrun, s.Total)
}

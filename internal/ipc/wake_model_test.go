//go:build !live

package ipc

import (
	"fmt"
	"strings"
	"testing"
)

// A model of two sides that work, sleep and wake each other, small enough to
// be walked through in all interleavings. Side 0 is the producer of a ring,
// side 1 its consumer. Both run the same program, for both wait for the other's
// index: the consumer for entries, the producer for room (as with WantSpace,
// WantCompletions and Tell).
//
// A step is one operation that others can see: one atomic operation, or one
// system call. Which side takes the next step is open, as is how much a side
// does before it publishes and how much a wait takes out of the bell.

const (
	modelEntries = 6 // moved in all
	modelSlots   = 2 // slots of the ring
	modelRings   = 2 // rings that a bell holds before it drops further ones
)

type modelPC uint8

const (
	pcLook    modelPC = iota // load the other's index
	pcWork                   // put or take, as much as is possible or less
	pcPublish                // store our index
	pcLoad                   // load the other's flag
	pcSwap                   // swap it with 0
	pcRing                   // ring its bell
	pcSet                    // set our flag
	pcRecheck                // load the other's index again
	pcClear                  // take our flag back
	pcWait                   // wait at our ear
	pcDrop                   // only in a variant: throw away old rings
	pcUnset                  // only in a variant: the ringer clears the flag last
	pcDone
)

// modelState is everything, comparable.
type modelState struct {
	index [2]uint8 // published: tail, head
	flag  [2]bool  // the sleeper's flags
	rings [2]uint8 // in the sleeper's bell
	pc    [2]modelPC
	own   [2]uint8 // index, not yet published
	seen  [2]uint8 // index of the other side, when it was looked at last
	knows [2]bool  // only in variants: the flag was set when looked at
}

// due is how many entries side i can put or take, as far as it knows.
func (s *modelState) due(i int) uint8 {
	if i == 0 {
		return min(modelSlots-(s.own[0]-s.seen[0]), modelEntries-s.own[0])
	}
	return s.seen[1] - s.own[1]
}

// variant changes the program, to see that the walk notices.
type variant struct {
	name         string
	setAfter     bool // the flag is set after the second look
	noRecheck    bool // there is no second look
	flagFirst    bool // the flag is looked at before the index is published
	clearLast    bool // the ringer clears the flag after ringing
	dropRings    bool // old rings are thrown away before a wait
	clearOnWake  bool // correct, too: a side clears its flag when it wakes
	skipClearing bool // correct, too: the flag stays set after the second look found work
}

// next returns the states after the possible steps of side i.
func (v *variant) next(s modelState, i int) []modelState {
	o := 1 - i
	at := func(pc modelPC) []modelState { s.pc[i] = pc; return []modelState{s} }
	switch s.pc[i] {
	case pcLook:
		s.seen[i] = s.index[o]
		switch {
		case s.own[i] == modelEntries:
			return at(pcDone)
		case s.due(i) > 0:
			return at(pcWork)
		case v.setAfter:
			return at(pcRecheck)
		}
		return at(pcSet)
	case pcWork:
		var out []modelState
		n := s.due(i)
		for range n {
			s.own[i]++
			out = append(out, at(pcPublish)...)
			if v.flagFirst {
				out[len(out)-1].pc[i] = pcLoad
			}
		}
		return out
	case pcPublish:
		s.index[i] = s.own[i]
		switch {
		case !v.flagFirst:
			return at(pcLoad)
		case s.knows[i]:
			return at(pcSwap)
		}
		return at(pcLook)
	case pcLoad:
		s.knows[i] = s.flag[o]
		switch {
		case v.flagFirst:
			return at(pcPublish)
		case !s.flag[o]:
			return at(pcLook)
		case v.clearLast:
			return at(pcRing)
		}
		return at(pcSwap)
	case pcSwap:
		was := s.flag[o]
		s.flag[o] = false
		if !was {
			return at(pcLook)
		}
		return at(pcRing)
	case pcRing:
		s.rings[o] = min(s.rings[o]+1, modelRings)
		if v.clearLast {
			return at(pcUnset)
		}
		return at(pcLook)
	}
	return v.sleep(s, i)
}

// sleep is next on the way into sleep and out of it.
func (v *variant) sleep(s modelState, i int) []modelState {
	o := 1 - i
	at := func(pc modelPC) []modelState { s.pc[i] = pc; return []modelState{s} }
	switch s.pc[i] {
	case pcUnset:
		s.flag[o] = false
		return at(pcLook)
	case pcSet:
		s.flag[i] = true
		switch {
		case v.setAfter, v.noRecheck:
			return at(pcWait)
		}
		return at(pcRecheck)
	case pcRecheck:
		s.seen[i] = s.index[o]
		switch {
		case s.due(i) > 0 && (v.skipClearing || v.setAfter):
			return at(pcWork)
		case s.due(i) > 0:
			return at(pcClear)
		case v.setAfter:
			return at(pcSet)
		case v.dropRings:
			return at(pcDrop)
		}
		return at(pcWait)
	case pcDrop:
		s.rings[i] = 0
		return at(pcWait)
	case pcClear:
		s.flag[i] = false
		return at(pcLook)
	case pcWait:
		if s.rings[i] == 0 {
			return nil
		}
		var out []modelState
		for s.rings[i] > 0 { // a read takes some, or all
			s.rings[i]--
			if v.clearOnWake {
				out = append(out, at(pcClear)...)
			} else {
				out = append(out, at(pcLook)...)
			}
			s.pc[i] = pcWait
		}
		return out
	}
	return nil
}

func (s modelState) String() string {
	names := []string{"look", "work", "publish", "load", "swap", "ring", "set", "recheck", "clear", "wait", "drop", "unset", "done"}
	return fmt.Sprintf("producer at %s (%d put, %d published, head seen %d, flag %v, %d rings), consumer at %s (%d taken, %d published, tail seen %d, flag %v, %d rings)",
		names[s.pc[0]], s.own[0], s.index[0], s.seen[0], s.flag[0], s.rings[0],
		names[s.pc[1]], s.own[1], s.index[1], s.seen[1], s.flag[1], s.rings[1])
}

// walk visits every state that can be reached. It returns how many there are,
// and the way to the first one found from which nothing leads to the end.
func (v *variant) walk() (states, sleeps int, stuck []modelState) {
	from := map[modelState]modelState{}
	back := map[modelState][]modelState{} // who leads here
	var start modelState
	from[start] = start
	queue := []modelState{start}
	var ends []modelState
	path := func(s modelState) (p []modelState) {
		for ; s != start; s = from[s] {
			p = append([]modelState{s}, p...)
		}
		return p
	}
	for len(queue) > 0 {
		s := queue[0]
		queue = queue[1:]
		if s.pc[0] == pcWait || s.pc[1] == pcWait {
			sleeps++
		}
		out := append(v.next(s, 0), v.next(s, 1)...)
		if len(out) == 0 {
			if s.pc != [2]modelPC{pcDone, pcDone} {
				return len(from), sleeps, path(s)
			}
			ends = append(ends, s)
		}
		for _, n := range out {
			if n.index[0]-n.index[1] > modelSlots {
				return len(from), sleeps, path(s)
			}
			back[n] = append(back[n], s)
			if _, known := from[n]; !known {
				from[n] = s
				queue = append(queue, n)
			}
		}
	}
	// Nobody goes round in circles for ever either: from everywhere there is a
	// way to the end.
	good := map[modelState]bool{}
	for len(ends) > 0 {
		s := ends[len(ends)-1]
		ends = ends[:len(ends)-1]
		if !good[s] {
			good[s] = true
			ends = append(ends, back[s]...)
		}
	}
	for s := range from {
		if !good[s] {
			return len(from), sleeps, path(s)
		}
	}
	return len(from), sleeps, nil
}

func TestNoWakeUpIsLost(t *testing.T) {
	t.Parallel()
	for _, v := range []variant{
		{name: "as it is"},
		{name: "the sleeper clears its flag when it wakes", clearOnWake: true},
		{name: "the sleeper leaves its flag up", skipClearing: true},
	} {
		states, sleeps, stuck := v.walk()
		if stuck != nil {
			t.Errorf("%s: stuck after\n%s", v.name, story(stuck))
		}
		if states < 10_000 || sleeps < states/20 {
			t.Errorf("%s: only %d states, somebody waits in %d of them", v.name, states, sleeps)
		}
		t.Logf("%s: %d states, somebody waits in %d of them", v.name, states, sleeps)
	}
}

// TestTheWalkFindsLostWakeUps breaks the protocol in ways that look harmless,
// to show that TestNoWakeUpIsLost could fail.
func TestTheWalkFindsLostWakeUps(t *testing.T) {
	t.Parallel()
	for _, v := range []variant{
		{name: "the flag is set after the second look", setAfter: true},
		{name: "no second look", noRecheck: true},
		{name: "the flag is looked at before the index is published", flagFirst: true},
		{name: "the ringer clears the flag after ringing", clearLast: true},
		{name: "old rings are thrown away before waiting", dropRings: true},
	} {
		_, _, stuck := v.walk()
		if stuck == nil {
			t.Errorf("%s: not noticed", v.name)
			continue
		}
		t.Logf("%s:\n%s", v.name, story(stuck[max(0, len(stuck)-4):]))
	}
}

func story(path []modelState) string {
	var b strings.Builder
	for _, s := range path {
		fmt.Fprintf(&b, "\t%v\n", s)
	}
	return b.String()
}

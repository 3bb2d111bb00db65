package conn

import (
	"errors"
	"testing"
)

// Every pair of states: the table of net/rds/threads.c as this package has it.
func TestTransitions(t *testing.T) {
	t.Parallel()
	legal := map[[2]State]bool{
		{Down, Connecting}: true, {Down, Up}: true,
		{Connecting, Down}: true, {Connecting, Up}: true,
		{Up, Down}: true, {Up, Disconnecting}: true, {Up, Resetting}: true, {Up, Error}: true,
		{Disconnecting, Down}: true, {Disconnecting, Resetting}: true,
		{Resetting, Down}: true,
		{Error, Down}:     true, {Error, Resetting}: true,
	}
	for from := Down; from <= Error; from++ {
		for to := Down; to <= Error; to++ {
			p := path{state: from}
			err := p.to(to)
			switch {
			case legal[[2]State{from, to}] && (err != nil || p.state != to):
				t.Errorf("%v to %v: %v, state %v", from, to, err, p.state)
			case !legal[[2]State{from, to}] && (!errors.Is(err, ErrTransition) || p.state != from):
				t.Errorf("%v to %v: %v, state %v", from, to, err, p.state)
			}
		}
	}
}

func TestMustPanics(t *testing.T) {
	t.Parallel()
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	p := path{state: Resetting}
	p.must(Up)
}

// The values are those of Linux and what rds-info prints.
func TestStateNames(t *testing.T) {
	t.Parallel()
	for s, want := range []string{"down", "connecting", "disconnecting", "up", "resetting", "error", "state(6)"} {
		if got := State(s).String(); got != want {
			t.Errorf("%d is %q", s, got)
		}
	}
	for k := Dial; k <= WakeAll; k++ {
		if k.String() == "" {
			t.Errorf("action %d has no name", k)
		}
	}
}

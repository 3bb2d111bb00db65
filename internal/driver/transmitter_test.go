package driver

import (
	"testing"

	"github.com/rds-go/rds/internal/invariants"
)

// A transmitter goes through its phases as the table says: what may follow what is all here.
func TestTransmitterSteps(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		steps []step
		end   phase
	}{
		{"a single message", []step{stepWrite, stepDone}, idle},
		{"a stream that the flusher writes", []step{stepLeave, stepWrite, stepDone}, idle},
		{"more came while the flusher wrote", []step{stepLeave, stepWrite, stepDone, stepLeave, stepPause}, pausing},
		{"a sender writes while the flusher pauses", []step{stepLeave, stepPause, stepWrite, stepDone}, idle},
		{"nobody did", []step{stepLeave, stepPause, stepTurn, stepWrite, stepDone}, idle},
		{"what is appended during the pause is left", []step{stepLeave, stepPause, stepLeave}, pausing},
		{"a link that gets full", []step{stepWrite, stepWrite, stepShort}, full},
		{"nobody writes to it", []step{stepWrite, stepShort, stepLeave}, full},
		{"it has room again", []step{stepWrite, stepShort, stepRoom}, idle},
		{"it says so before its writer has heard", []step{stepWrite, stepRoom}, roomy},
		{"and the writer tries again", []step{stepWrite, stepRoom, stepWrite, stepShort}, full},
		{"or has nothing more", []step{stepWrite, stepRoom, stepDone}, idle},
		{"room is no news while messages collect", []step{stepLeave, stepRoom}, collecting},
		{"a link is lost with messages left to the flusher", []step{stepLeave, stepLink, stepDone}, full},
		{"and in its pause", []step{stepLeave, stepPause, stepLink, stepTurn}, full},
		{"the next one has started", []step{stepLink, stepRoom, stepWrite, stepDone}, idle},
	} {
		var tx transmitter
		for _, s := range c.steps {
			tx.to(s)
		}
		if tx.phase != c.end {
			t.Errorf("%s: %v, want %v", c.name, tx.phase, c.end)
		}
	}
}

// What cannot happen is not in the table, and found where invariants are checked.
func TestTransmitterStepsThatCannotBe(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		phase phase
		step  step
	}{{writing, stepLeave}, {roomy, stepShort}, {full, stepWrite}, {idle, stepShort}, {writing, stepPause}} {
		tx := transmitter{phase: c.phase}
		func() {
			defer func() {
				if (recover() != nil) != invariants.Enabled {
					t.Errorf("%v while %v is not found", c.step, c.phase)
				}
			}()
			tx.to(c.step)
		}()
		if tx.phase != c.phase {
			t.Errorf("%v while %v leads to %v", c.step, c.phase, tx.phase)
		}
	}
}

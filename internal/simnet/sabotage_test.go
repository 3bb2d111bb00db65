package simnet

import (
	"errors"
	"strings"
	"testing"
)

// Each rule that is broken on purpose must be reported, and as what it is.
func TestChecksNoticeSabotage(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		how  Sabotage
		sc   Scenario
		want string
	}{
		{ForgetFlag, Scenario{}, "delivered twice"},
		{FlagNew, Scenario{}, "never delivered"},
		{DeliverOld, Scenario{}, "delivered twice"},
		{LoseMessages, Scenario{Calm: true}, "never delivered"},
		{AckAhead, Scenario{}, "never delivered"},
		{IgnoreMaps, Scenario{Calm: true}, "believes congested"},
		{IgnoreMaps, Scenario{Calm: true}, "its port is congested"},
		{LeakLinks, Scenario{}, "never told"},
		{RedialAtOnce, Scenario{Bad: true}, "times in a second"},
		{Corrupt, Scenario{Calm: true}, "damaged"},
		{Misroute, Scenario{Calm: true}, "delivered to"},
		{ForgetMessages, Scenario{Calm: true}, "left in the account"},
		{ForgetGeneration, Scenario{Faults: 20}, ""},
		{ScribbleBatch, Scenario{Calm: true}, "changed before Wrote"},
		{RepeatOperations, Scenario{Operations: true}, "begun twice"},
		{CutPaused, Scenario{Faults: 20}, "never delivered"},
		{ForgetRefusals, Scenario{Refusals: true}, "nobody has got it"},
		{ForgetLimits, Scenario{Limits: true, Holds: true}, "its time is over"},
		{HurryLimits, Scenario{Limits: true, Holds: true}, "before its time"},
		{ExpireWritten, Scenario{Limits: true, Holds: true}, "it was written"},
		{SkipSurvey, Scenario{Calm: true, Stops: true}, "was delivered 2 times"},
		{CancelAbandoned, Scenario{Stops: true}, "canceled by nobody"},
		{ForgetLengths, Scenario{Lengths: true}, "thrown away"},
		{ForgetSequences, Scenario{Impostors: true}, "delivered twice"},
		{IgnoreHolds, Scenario{Holds: true}, "its port takes nothing"},
	} {
		t.Run(c.how.String()+" "+c.want, func(t *testing.T) {
			t.Parallel()
			for seed := uint64(1); seed <= 400; seed++ {
				_, err := Run(Config{Seed: seed, Scenario: c.sc, Sabotage: c.how})
				var v *Violation
				if errors.As(err, &v) && strings.Contains(v.Error(), c.want) {
					t.Logf("seed %d: %s", seed, v.Broken[0])
					return
				}
			}
			t.Error("nobody noticed")
		})
	}
}

// The same seed gives the same run, to the last line of the trace.
func TestSameSeedSameRun(t *testing.T) {
	t.Parallel()
	var traces [2]strings.Builder
	var counts [2]Counts
	for i := range traces {
		var err error
		if counts[i], err = Run(Config{Seed: 7, Scenario: Scenario{Paths: []int{8}, Faults: 20}, Trace: &traces[i]}); err != nil {
			t.Fatal(err)
		}
	}
	if counts[0] != counts[1] || traces[0].String() != traces[1].String() {
		t.Error("two runs of one seed differ")
	}
	if traces[0].Len() == 0 {
		t.Error("no trace")
	}
}

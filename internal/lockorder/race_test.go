//go:build invariants && amd64 && race && live

package lockorder

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

const racesEnv = "RDS_TEST_RACES"

type racing struct{ mu Mutex[racing] }

func init() { ranks["lockorder.racing.mu"] = 1 }

// Two goroutines that have taken locks of their own, one after the other, have no order by
// that: the race detector reports what they both write. The test does so in a process of its own.
func TestChecksHideNoRace(t *testing.T) {
	t.Parallel()
	if os.Getenv(racesEnv) != "" {
		raceBehindLocks()
		return
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestChecksHideNoRace$")
	cmd.Env = append(os.Environ(), racesEnv+"=1")
	out, err := cmd.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "WARNING: DATA RACE") {
		t.Errorf("no race is reported (%v):\n%s", err, out)
	}
}

func raceBehindLocks() {
	var a, b racing
	x := 0
	turn := make(chan struct{}) // orders the goroutines; the race detector does not see it
	done := make(chan struct{})
	a.mu.Lock()
	a.mu.Unlock()
	go func() {
		defer close(done)
		a.mu.Lock()
		a.mu.Unlock()
		x = 1
		raceDisable()
		turn <- struct{}{}
		raceEnable()
	}()
	raceDisable()
	<-turn
	raceEnable()
	b.mu.Lock()
	b.mu.Unlock()
	x++
	<-done
}

//go:build invariants && amd64 && race

package lockorder

import "runtime"

// Between raceDisable and raceEnable the race detector does not see what synchronises the
// goroutine with others.
func raceDisable() { runtime.RaceDisable() }
func raceEnable()  { runtime.RaceEnable() }

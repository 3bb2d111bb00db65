// Package invariants says whether checks that cost time are compiled in: they
// are under the build tags invariants and race.
//
// Code asks Enabled in an if statement; where it is false the compiler leaves
// the whole statement out.
package invariants

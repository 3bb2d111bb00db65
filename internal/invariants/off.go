//go:build !invariants && !race

// Package invariants says whether checks that cost time are compiled in: they
// are under the build tags invariants and race.
package invariants

// Enabled is true when checks that cost time are compiled in.
const Enabled = false

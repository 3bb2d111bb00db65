package rdstest

import (
	"sync"
	"testing"
	"testing/synctest"

	"github.com/rds-go/rds/internal/memnet"
)

// networks are those of tests in bubbles, by their testing.TB.
var networks sync.Map

// Bubble runs a test in a bubble of testing/synctest, with a network in memory.
func Bubble(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		networks.Store(t, memnet.New(memnet.Options{}))
		defer networks.Delete(t)
		f(t)
	})
}

// NetworkOf is the network in memory of a test in a Bubble.
func NetworkOf(t testing.TB) *memnet.Network {
	n, _ := networks.Load(t)
	return n.(*memnet.Network)
}

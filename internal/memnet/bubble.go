package memnet

import (
	"sync"
	"testing"
	"testing/synctest"
)

// networks are those of tests in bubbles, by their testing.TB.
var networks sync.Map

// Bubble runs a test in a bubble of testing/synctest: time is virtual, and Of returns a network
// for the transports of the test.
//
// Whatever does not wait for a timer takes no time there. So a test that interrupts something at
// a random time has a network with a latency.
func Bubble(t *testing.T, o Options, f func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		networks.Store(t, New(o))
		defer networks.Delete(t)
		f(t)
	})
}

// Of is the network of a test in a Bubble, nil for other tests.
func Of(t testing.TB) *Network {
	n, _ := networks.Load(t)
	m, _ := n.(*Network)
	return m
}

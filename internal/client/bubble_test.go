//go:build live

package client

import (
	"testing"
	"testing/synctest"
)

// where makes the lab of a test.
type where func(t *testing.T, test func(t *testing.T, l *lab))

// bubble runs a test with a time of its own, in a lab in memory.
func bubble(t *testing.T, test func(t *testing.T, l *lab)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(t, newLoopLab(t)) })
}

// overTCP runs a test in a lab whose hosts reach each other over TCP.
func overTCP(t *testing.T, test func(t *testing.T, l *lab)) { t.Helper(); test(t, newLab(t)) }

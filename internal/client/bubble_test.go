//go:build live

package client

import "testing"

// where makes the lab of a test, which runs beside others.
type where func(t *testing.T, test func(t *testing.T, l *lab))

// overTCP runs a test in a lab whose hosts reach each other over TCP.
func overTCP(t *testing.T, test func(t *testing.T, l *lab)) {
	t.Helper()
	t.Parallel()
	test(t, newLab(t))
}

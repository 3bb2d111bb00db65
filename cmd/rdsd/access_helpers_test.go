package main

import (
	"testing"
)

// serving is a plan with these settings.
func serving(t *testing.T, text string) plan {
	t.Helper()
	s := defaults()
	s.Control, s.Socket = "/run/c.sock", "/run/a.sock"
	if err := s.load(write(t, "listen = ['10.0.0.1']\n"+text)); err != nil {
		t.Fatal(err)
	}
	p, err := s.plan()
	if err != nil {
		t.Fatal(err)
	}
	return p
}

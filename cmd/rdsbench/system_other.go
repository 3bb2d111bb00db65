//go:build !linux

package main

import (
	"errors"

	"github.com/rds-go/rds/internal/bench"
)

type pinner struct{}

func newPinner() *pinner { return &pinner{} }

// pin is known on Linux only.
func (*pinner) pin(p bench.Pin, _ bool) error {
	if p == bench.PinNone {
		return nil
	}
	return errors.New("--pin is not supported on this system")
}

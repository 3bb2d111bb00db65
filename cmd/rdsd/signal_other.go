//go:build !unix

package main

import (
	"os"
	"syscall"
)

// upgradeSignal is a signal that never comes.
var upgradeSignal os.Signal = syscall.Signal(-1)

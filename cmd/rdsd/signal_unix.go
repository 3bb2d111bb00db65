//go:build unix

package main

import (
	"os"
	"syscall"
)

// upgradeSignal has the daemon start its successor.
var upgradeSignal os.Signal = syscall.SIGUSR2

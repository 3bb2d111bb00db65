package gnetloop

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// errReserved refuses a connection that would take one of the descriptors that are left to
// others. It is EMFILE.
var errReserved = fmt.Errorf("the descriptors that are left are not for peers: %w", unix.EMFILE)

// Of the descriptors that the process may have, connections to peers leave the last ones to
// the rest of it: a quarter, at most reserveMost. Whoever can connect could otherwise keep
// applications from attaching, and files from being opened. The Go runtime raises the soft
// limit to the hard one when a program starts.
const (
	reservePart = 4
	reserveMost = 1024
)

// halfOpenPart is the part of the descriptors for peers that the half-open connections of an
// engine may be: each has two, and for a moment three. So with few descriptors there are
// some left for connections that are set up.
const halfOpenPart = 8

// descriptorBound is the lowest descriptor that is not for peers. The kernel gives the lowest
// that is free, so one at the bound or above tells that all below are in use.
func descriptorBound() int {
	var l unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &l); err != nil {
		return 1 << 30
	}
	n := int(min(l.Cur, 1<<30))
	return n - min(n/reservePart, reserveMost)
}

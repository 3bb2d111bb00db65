//go:build !linux

package ebpf

import "time"

// Fault makes faults.
type Fault struct{}

// FaultRule is a fault that is being made.
type FaultRule struct{}

func probeFault() error { return notHere }
func probeAbort() error { return notHere }

// NewFault is for Linux.
func NewFault(FaultOptions) (*Fault, error) { return nil, faultPackets.err(notHere) }

// Drop is for Linux.
func (*Fault) Drop(FaultMatch, FaultLimits) (*FaultRule, error) {
	return nil, faultPackets.err(notHere)
}

// Duplicate is for Linux.
func (*Fault) Duplicate(FaultMatch, FaultLimits) (*FaultRule, error) {
	return nil, faultPackets.err(notHere)
}

// Corrupt is for Linux.
func (*Fault) Corrupt(FaultMatch, FaultLimits) (*FaultRule, error) {
	return nil, faultPackets.err(notHere)
}

// Blackhole is for Linux.
func (*Fault) Blackhole(FaultMatch, time.Duration) (*FaultRule, error) {
	return nil, faultPackets.err(notHere)
}

// Delay is for Linux.
func (*Fault) Delay(FaultMatch, FaultLimits, time.Duration) (*FaultRule, error) {
	return nil, faultDelay.err(notHere)
}

// Abort is for Linux.
func (*Fault) Abort(FaultMatch, int) (int, error) { return 0, faultAbort.err(notHere) }

// Close is for Linux.
func (*Fault) Close() error { return nil }

// Counts is for Linux.
func (*FaultRule) Counts() (FaultCounts, error) { return FaultCounts{}, faultPackets.err(notHere) }

// Ended is for Linux.
func (*FaultRule) Ended() bool { return true }

// Stop is for Linux.
func (*FaultRule) Stop() (FaultCounts, error) { return FaultCounts{}, faultPackets.err(notHere) }

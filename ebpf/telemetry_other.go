//go:build !linux

package ebpf

import "time"

// Telemetry measures TCP connections.
type Telemetry struct{}

// LoadTelemetry is for Linux.
func LoadTelemetry(TelemetryOptions) (*Telemetry, error) {
	return nil, telemetryConnections.err(notHere)
}

// OpenTelemetry is for Linux.
func OpenTelemetry(string) (*Telemetry, error) { return nil, telemetryConnections.err(notHere) }

// UnloadTelemetry is for Linux.
func UnloadTelemetry(string) error { return telemetryConnections.err(notHere) }

// Snapshot is for Linux.
func (*Telemetry) Snapshot() ([]Connection, error) { return nil, telemetryConnections.err(notHere) }

// SnapshotLocal is for Linux.
func (*Telemetry) SnapshotLocal() ([]Connection, error) {
	return nil, telemetryConnections.err(notHere)
}

// Drops is for Linux.
func (*Telemetry) Drops() ([]Drop, error) { return nil, telemetryDrops.err(notHere) }

// Features is for Linux.
func (*Telemetry) Features() []FeatureSupport { return nil }

// Options is for Linux.
func (*Telemetry) Options() TelemetryOptions { return TelemetryOptions{} }

// Outdated is for Linux.
func (*Telemetry) Outdated() bool { return false }

// Since is for Linux.
func (*Telemetry) Since() time.Time { return time.Time{} }

// Close is for Linux.
func (*Telemetry) Close() error { return nil }

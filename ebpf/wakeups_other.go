//go:build !linux

package ebpf

// Wakeups counts how threads are woken. It is for Linux only.
type Wakeups struct{}

// NewWakeups fails: its error Is ErrNotSupported.
func NewWakeups([]int) (*Wakeups, error) {
	f := elsewhere("wake-ups of threads")
	return nil, f.err(f.probe())
}

// Report is not called.
func (w *Wakeups) Report() (WakeupsReport, error) { return WakeupsReport{}, notHere }

// Close is not called.
func (w *Wakeups) Close() error { return nil }

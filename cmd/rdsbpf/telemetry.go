package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rds-go/rds/ebpf"
)

// loadTelemetry has the kernel measure connections. What measures the same already goes on, unless
// it is of another version, or of a time when a part could not be loaded.
func loadTelemetry(l *loadOptions) (string, error) {
	o := ebpf.TelemetryOptions{Dir: l.dir, Ports: l.portsOr(l.config.ports()), Group: l.gid}
	t, err := ebpf.OpenTelemetry(l.dir)
	if err == nil {
		if old := t.Options(); !slices.Equal(old.Ports, o.Ports) || old.Group != o.Group || t.Outdated() {
			t.Close()
			t = nil
		}
	}
	if t == nil {
		if t, err = ebpf.LoadTelemetry(o); err != nil {
			return "", err
		}
	}
	defer t.Close()
	return strings.Join(measured(t), "; "), nil
}

// telemetryReport is the status of telemetry as JSON.
type telemetryReport struct {
	Since   time.Time         `json:"since"`
	Ports   []uint16          `json:"ports"`
	Missing map[string]string `json:"missing,omitempty"` // parts that are not loaded, and why
}

// telemetryStatus is the status of the feature.
func telemetryStatus(dir string) (any, []string, error) {
	t, err := ebpf.OpenTelemetry(dir)
	if err != nil {
		return nil, nil, err
	}
	defer t.Close()
	r := telemetryReport{Since: t.Since(), Ports: t.Options().Ports}
	for _, f := range t.Features() {
		if f.Err != nil {
			if r.Missing == nil {
				r.Missing = make(map[string]string)
			}
			r.Missing[f.Name] = f.Err.Error()
		}
	}
	return r, measured(t), nil
}

// measured is such as "TCP ports 16385 and 18634, since 2026-01-02T15:04:05Z", and a line for
// each part that is missing.
func measured(t *ebpf.Telemetry) []string {
	var ports []string
	for _, p := range t.Options().Ports {
		ports = append(ports, fmt.Sprint(p))
	}
	lines := []string{fmt.Sprintf("TCP ports %s, since %s", strings.Join(ports, " and "), t.Since().UTC().Format(time.RFC3339))}
	for _, f := range t.Features() {
		if f.Err != nil {
			lines = append(lines, "not measured: "+f.Err.Error())
		}
	}
	return lines
}

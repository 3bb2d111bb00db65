package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/rds-go/rds/ebpf"
)

// handoverDir is where the handover is pinned below the directory of all features, where
// handover.pins does not say another place.
func handoverDir(dir string) string { return filepath.Join(dir, "handover") }

// loadHandover loads the handover, or finds it loaded.
func loadHandover(l *loadOptions) (string, error) {
	dir := l.config.Handover.Pins
	above := filepath.Dir(dir)
	_, absent := os.Stat(above)
	if err := os.MkdirAll(above, 0o755); err != nil {
		return "", err
	}
	h, err := ebpf.LoadHandover(ebpf.HandoverOptions{
		Dir: dir, Ports: l.portsOr(l.config.ports()), Netns: l.netns, Owner: l.uid, Group: l.groupID,
		Keep: !l.named,
	})
	if err != nil {
		if absent != nil {
			_ = os.Remove(above)
		}
		return "", err
	}
	defer h.Close()
	s, err := h.Status()
	return handoverLine(s) + ", in " + dir, err
}

func unloadHandover(dir string) error {
	err := ebpf.UnloadHandover(dir)
	_ = os.Remove(filepath.Dir(dir)) // unless other features are in it
	return err
}

func handoverLine(s ebpf.HandoverStatus) string {
	return fmt.Sprintf("ports %v, %d listening sockets with %d prefixes", s.Ports, s.Listeners, s.Prefixes)
}

// handoverReport is the status of the handover as JSON.
type handoverReport struct {
	ebpf.HandoverStatus
	Registered []ebpf.HandoverPrefix `json:"registered"`
}

func handoverStatus(dir string) (any, []string, error) {
	h, err := ebpf.OpenHandover(dir)
	if err != nil {
		return nil, nil, err
	}
	defer h.Close()
	s, err := h.Status()
	if err != nil {
		return nil, nil, err
	}
	all, err := h.Prefixes()
	return handoverReport{s, all}, []string{
		handoverLine(s),
		fmt.Sprintf("%d prefixes of sockets that were closed; %d look-ups handed over, %d for a closed socket", s.Vacant, s.Handed, s.Missed),
	}, err
}

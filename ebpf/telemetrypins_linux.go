package ebpf

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/cilium/ebpf"

	"github.com/rds-go/rds/ebpf/internal/bpf"
)

// about is the text of the map telemetry_about.
type about struct {
	Record int         `json:"record"` // size of a connection in the list
	Loaded time.Time   `json:"loaded"`
	Ports  []uint16    `json:"ports"`
	Group  int         `json:"group"`
	Tags   string      `json:"tags"` // digest of the programs
	Parts  []aboutPart `json:"parts"`
}

type aboutPart struct {
	Name string `json:"name"`
	Text string `json:"text,omitempty"` // why the part is not there; without the part's name
	Kind string `json:"kind,omitempty"` // "supported" if the kernel does not have it, "permitted"
}

const (
	notSupported = "supported"
	notPermitted = "permitted"
)

// pin pins what is attached. Only the list of connections can be read, only as a file: a link
// that can be opened can be detached.
func (t *Telemetry) pin(o *TelemetryOptions) error {
	tags, err := telemetryTags()
	if err != nil {
		return err
	}
	a := about{Record: recordSize, Loaded: t.loaded, Ports: o.Ports, Group: o.Group, Tags: tags}
	for _, f := range t.features {
		p := aboutPart{Name: f.Name}
		if e := (*Error)(nil); errors.As(f.Err, &e) {
			p.Text = e.Err.Error()
			switch {
			case errors.Is(f.Err, ErrNotSupported):
				p.Kind = notSupported
			case errors.Is(f.Err, ErrPermission):
				p.Kind = notPermitted
			}
		}
		a.Parts = append(a.Parts, p)
	}
	text, err := json.Marshal(a)
	if err != nil {
		return err
	}
	m := t.maps[bpf.TelemetryMapTelemetryAbout]
	value := make([]byte, m.ValueSize())
	if copy(value, text) < len(text) {
		return fmt.Errorf("%d octets about what is loaded, at most %d", len(text), len(value))
	}
	if err := m.Put(uint32(0), value); err != nil {
		return err
	}
	dir, made, err := makePins(o.Dir)
	if err != nil {
		return err
	}
	defer dir.Close() // gives the lock back
	_, err = removeTelemetry(o.Dir)
	if err == nil {
		err = t.pinAll(o)
	}
	if err != nil {
		_, _ = removeTelemetry(o.Dir)
		if made {
			_ = os.Remove(o.Dir)
		}
	}
	return err
}

func (t *Telemetry) pinAll(o *TelemetryOptions) error {
	for name, l := range t.links {
		mode := os.FileMode(0)
		if name == bpf.TelemetryProgTelemetryConnections {
			mode = 0o440
		}
		if err := pinAs(o.Dir, name, l, mode, o.Group); err != nil {
			return err
		}
	}
	for _, name := range []string{bpf.TelemetryMapTelemetryDrops, bpf.TelemetryMapTelemetryAbout} {
		if err := pinAs(o.Dir, name, t.maps[name], 0o440, o.Group); err != nil {
			return err
		}
	}
	return nil
}

// telemetryTags is a digest of all programs of this package's telemetry.
func telemetryTags() (string, error) {
	spec, err := bpf.LoadTelemetry()
	if err != nil {
		return "", err
	}
	var tags []string
	for name, p := range spec.Programs {
		//lint:ignore SA1019 The tag is compared with the tags of other loads only, never with the kernel's.
		tag, err := p.Tag()
		if err != nil {
			return "", err
		}
		tags = append(tags, name+" "+tag)
	}
	slices.Sort(tags)
	return strings.Join(tags, ", "), nil
}

// pinAs pins an object for a group to use. The pins are nobody's: an owner may change a pin's
// mode, so root without capabilities could make a link's pin one that can be opened.
func pinAs(dir, name string, object interface{ Pin(string) error }, mode os.FileMode, group int) error {
	path := filepath.Join(dir, name)
	if err := object.Pin(path); err != nil {
		return fmt.Errorf("pin %s: %w", path, err)
	}
	if err := os.Chown(path, noUID, group); err != nil {
		return err
	}
	return os.Chmod(path, mode)
}

// OpenTelemetry opens what LoadTelemetry has pinned in a directory. It takes no capability, but
// the permission to read there. Without pins the error Is os.ErrNotExist.
func OpenTelemetry(dir string) (*Telemetry, error) {
	t, err := openTelemetry(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil, &Error{Feature: "telemetry", Err: fmt.Errorf("no pins in %s: %w", dir, os.ErrNotExist)}
	}
	if errors.Is(err, os.ErrPermission) {
		return nil, &Error{Feature: "telemetry", Capabilities: "to be of the group that may read " + dir, Err: ErrPermission}
	}
	if err != nil {
		return nil, &Error{Feature: "telemetry", Err: err}
	}
	return t, nil
}

func openTelemetry(dir string) (*Telemetry, error) {
	readOnly := &ebpf.LoadPinOptions{ReadOnly: true}
	m, err := ebpf.LoadPinnedMap(filepath.Join(dir, bpf.TelemetryMapTelemetryAbout), readOnly)
	if err != nil {
		return nil, err
	}
	defer m.Close()
	text, err := m.LookupBytes(uint32(0))
	if err != nil {
		return nil, err
	}
	var a about
	if err := json.Unmarshal([]byte(strings.TrimRight(string(text), "\x00")), &a); err != nil {
		return nil, err
	}
	if a.Record != recordSize {
		return nil, errors.New("another version has loaded telemetry: load it again")
	}
	o := TelemetryOptions{Dir: dir, Ports: a.Ports, Group: a.Group}
	t := &Telemetry{loaded: a.Loaded, options: o, tags: a.Tags, maps: make(map[string]*ebpf.Map)}
	for _, part := range telemetryParts {
		f := part.feature
		s := FeatureSupport{Name: f.name, Kernel: f.kernel, Capabilities: f.capabilities}
		for _, p := range a.Parts {
			if p.Name == f.name && p.Text != "" {
				s.Err = &Error{Feature: f.name, Kernel: f.kernel, Capabilities: f.capabilities, Err: p.err()}
			}
		}
		t.features = append(t.features, s)
		if f == telemetryDrops && s.Err == nil {
			if t.drops, err = ebpf.LoadPinnedMap(filepath.Join(dir, bpf.TelemetryMapTelemetryDrops), readOnly); err != nil {
				return nil, err
			}
			t.maps[bpf.TelemetryMapTelemetryDrops] = t.drops
		}
	}
	// A file of the BPF file system that is read runs the iterator in the reader's namespace.
	t.connections = func() (io.ReadCloser, error) {
		return os.Open(filepath.Join(dir, bpf.TelemetryProgTelemetryConnections))
	}
	return t, nil
}

func (p *aboutPart) err() error {
	switch p.Kind {
	case notSupported:
		if p.Text == ErrNotSupported.Error() {
			return ErrNotSupported
		}
		if text, ok := strings.CutPrefix(p.Text, ErrNotSupported.Error()+": "); ok {
			return fmt.Errorf("%w: %s", ErrNotSupported, text)
		}
		return reason(p.Text)
	case notPermitted:
		return ErrPermission
	}
	return errors.New(p.Text)
}

// UnloadTelemetry removes what LoadTelemetry has pinned in a directory, and the directory if it
// is empty then. The programs stop when nobody has them open any more. If nothing is there, the
// error Is os.ErrNotExist.
func UnloadTelemetry(dir string) error {
	there, err := unloadTelemetry(dir)
	switch {
	case errors.Is(err, os.ErrNotExist), err == nil && !there:
		return &Error{Feature: "telemetry", Err: fmt.Errorf("no pins in %s: %w", dir, os.ErrNotExist)}
	case err != nil:
		return &Error{Feature: "telemetry", Capabilities: "CAP_DAC_OVERRIDE", Err: classify(err)}
	}
	return nil
}

func unloadTelemetry(path string) (there bool, err error) {
	dir, err := lockPins(path)
	if err != nil {
		return false, err
	}
	defer dir.Close() // gives the lock back
	if there, err = removeTelemetry(path); err != nil || !there {
		return there, err
	}
	_ = os.Remove(path) // fails if other features have pins in the directory
	return true, nil
}

// removeTelemetry removes the pins, by the process that has the directory's lock. The text about
// them goes first: without it OpenTelemetry finds nothing.
func removeTelemetry(dir string) (there bool, err error) {
	names := []string{bpf.TelemetryMapTelemetryAbout, bpf.TelemetryMapTelemetryDrops}
	for _, part := range telemetryParts {
		names = append(names, part.programs...)
	}
	for _, name := range names {
		switch err := os.Remove(filepath.Join(dir, name)); {
		case err == nil:
			there = true
		case !errors.Is(err, os.ErrNotExist):
			return there, err
		}
	}
	return there, nil
}

// Outdated tells whether what is pinned should be loaded anew: its programs are those of another
// version of this package, or a part is missing that can be loaded now. Counts begin anew then.
func (t *Telemetry) Outdated() bool {
	if tags, err := telemetryTags(); err == nil && tags != t.tags {
		return true
	}
	for i, f := range t.features {
		if f.Err != nil && telemetryParts[i].probe() == nil {
			return true
		}
	}
	return false
}

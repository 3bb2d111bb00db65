package ebpf

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"
)

// The directory of a pinned handover has:
//
//	rds_prefixes, rds_listeners, rds_handed   maps; the owner's and the group's
//	rds_filter                                a map of programs; root's, mode 0600
//	rds_handover                              a map; root's, mode 0444
//	lock/                                     empty; flock'ed by those who register
//	links/handover_lookup                     nobody's, mode 0, as those of an admission

// loadPinnedHandover loads a handover into a directory, for the network namespace of the
// calling thread. keep is HandoverOptions.Keep.
func loadPinnedHandover(dir string, keep bool, conf handoverConfig) (_ *Handover, err error) {
	d, made, err := makePins(dir)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	defer func() {
		if err != nil && made {
			_ = os.Remove(dir)
		}
	}()
	old, err := openPinnedHandover(dir)
	switch {
	case errors.Is(err, os.ErrNotExist):
		// What is there without a configuration is of a load or unload that was cut short.
		if err := removeHandover(dir); err != nil {
			return nil, err
		}
	case err != nil:
		return nil, err
	default:
		defer old.Close()
	}
	if old != nil && keep {
		if conf, err = old.keep(conf); err != nil {
			return nil, fmt.Errorf("%s: %w", dir, err)
		}
	}
	path := filepath.Join(dir, linksDir, handoverProgram)
	attached := handoverLink(path, conf.Netns)
	if attached != nil {
		defer attached.Close()
	}
	if old != nil && old.conf.same(conf) && attached != nil {
		return openPinnedHandover(dir)
	}
	if old != nil {
		if old.maps[mapFilter], err = ebpf.LoadPinnedMap(filepath.Join(dir, mapFilter), nil); err != nil {
			delete(old.maps, mapFilter)
			return nil, err
		}
	}
	var handed map[string]*ebpf.Map
	if old != nil && old.conf.sameNetns(&conf) {
		handed = make(map[string]*ebpf.Map)
		for _, name := range []string{mapPrefixes, mapListeners, mapHanded, mapFilter} {
			handed[name] = old.maps[name]
		}
	}
	h, program, err := newHandover(conf, handed)
	if errors.Is(err, ebpf.ErrMapIncompatible) { // the pinned maps are those of another version of this package
		h, program, err = newHandover(conf, nil)
	}
	if err != nil {
		return nil, err
	}
	defer program.Close()
	defer func() {
		if err != nil {
			h.Close()
		}
		if err != nil && old == nil {
			_ = removeHandover(dir)
		}
	}()
	if err := h.pinParts(dir); err != nil {
		return nil, err
	}
	if attached != nil {
		if err = h.fillSlot(program); err == nil {
			err = attached.Update(program)
		}
	} else {
		err = h.pinLink(path, program)
	}
	if err != nil {
		return nil, err
	}
	raw, err := json.Marshal(conf)
	if err != nil {
		return nil, err
	}
	if err := h.maps[mapHandover].Put(uint32(0), append(raw, make([]byte, handoverConfigMax-len(raw))...)); err != nil {
		return nil, err
	}
	return h, pinMap(h.maps[mapHandover], filepath.Join(dir, mapHandover), 0, 0o444)
}

// pinParts pins the maps for the owner and the group, and makes the directories.
func (h *Handover) pinParts(dir string) (err error) {
	for _, name := range []string{mapPrefixes, mapListeners, mapHanded} {
		path := filepath.Join(dir, name)
		if err := pinMap(h.maps[name], path, 0, 0o600); err != nil {
			return err
		}
		if err := h.conf.give(path, 0o600, 0o060); err != nil {
			return err
		}
	}
	if err := pinMap(h.maps[mapFilter], filepath.Join(dir, mapFilter), noUID, 0); err != nil {
		return err
	}
	lock, links := filepath.Join(dir, lockDir), filepath.Join(dir, linksDir)
	for _, path := range []string{lock, links} {
		if err := os.Mkdir(path, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
			return err
		}
	}
	if err := h.conf.give(lock, 0o500, 0o050); err != nil {
		return err
	}
	if err := own(links, noUID, 0); err != nil {
		return err
	}
	h.lock, err = os.Open(lock)
	return err
}

// give lets the owner use a file, and the group if there is one.
func (c *handoverConfig) give(path string, owner, group os.FileMode) error {
	if err := os.Chown(path, c.Owner, c.Group); err != nil {
		return err
	}
	if c.Group != 0 {
		owner |= group
	}
	return os.Chmod(path, owner)
}

// pinLink attaches the program to the network namespace of the calling thread, and pins the
// link in the place of what is there.
func (h *Handover) pinLink(path string, program *ebpf.Program) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	l, err := attachLookup(program, h.fillSlot)
	if err != nil {
		return err
	}
	defer l.Close()
	if err := l.Pin(path); err != nil {
		return err
	}
	return own(path, noUID, 0)
}

// same tells whether a handover with one of the configurations does what the other one says.
func (c handoverConfig) same(d handoverConfig) bool {
	return slices.Equal(c.Ports, d.Ports) && c.Cookie == d.Cookie && c.Netns == d.Netns && c.Owner == d.Owner && c.Group == d.Group && c.Tag == d.Tag
}

// keep returns the configuration that takes the place of a pinned handover's, as
// HandoverOptions.Keep says.
func (h *Handover) keep(conf handoverConfig) (handoverConfig, error) {
	here := h.conf.sameNetns(&conf)
	if here && !slices.ContainsFunc(conf.Ports, func(p uint16) bool { return !slices.Contains(h.conf.Ports, p) }) {
		conf.Ports, conf.Owner, conf.Group = h.conf.Ports, h.conf.Owner, h.conf.Group
		return conf, nil
	}
	switch s, err := h.Status(); {
	case err != nil:
		return conf, err
	case s.Listeners > 0 && !here:
		return conf, fmt.Errorf("the handover is in use in another network namespace: %w", unix.EBUSY)
	case s.Listeners > 0:
		return conf, fmt.Errorf("the handover is in use with ports %v, not %v: %w", h.conf.Ports, conf.Ports, unix.EBUSY)
	}
	return conf, nil
}

// handoverLink is the link pinned at a path if it is attached to a network namespace; nil if
// there is none.
func handoverLink(path string, netns uint32) link.Link {
	l, err := link.LoadPinnedLink(path, nil)
	if err != nil {
		return nil
	}
	if info, err := l.Info(); err == nil && info.NetNs() != nil && info.NetNs().NetnsInode == netns {
		return l
	}
	l.Close()
	return nil
}

// openPinnedHandover opens the maps of a pinned handover.
func openPinnedHandover(dir string) (_ *Handover, err error) {
	h := &Handover{maps: make(map[string]*ebpf.Map)}
	defer func() {
		if err != nil {
			h.Close()
		}
	}()
	conf, err := ebpf.LoadPinnedMap(filepath.Join(dir, mapHandover), &ebpf.LoadPinOptions{ReadOnly: true})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	h.maps[mapHandover] = conf
	raw := make([]byte, handoverConfigMax)
	if err := conf.Lookup(uint32(0), raw); err != nil {
		return nil, err
	}
	if err := json.Unmarshal(bytes.TrimRight(raw, "\x00"), &h.conf); err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Join(dir, mapHandover), err)
	}
	for _, name := range []string{mapPrefixes, mapListeners, mapHanded} {
		if h.maps[name], err = ebpf.LoadPinnedMap(filepath.Join(dir, name), nil); err != nil {
			delete(h.maps, name)
			return nil, err
		}
	}
	h.lock, err = os.Open(filepath.Join(dir, lockDir))
	return h, err
}

// unloadPinnedHandover takes out the handover of a directory and removes its pins.
func unloadPinnedHandover(dir string) error {
	d, err := lockPins(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	if _, err := os.Lstat(filepath.Join(dir, mapHandover)); err != nil {
		return err
	}
	if err := removeHandover(dir); err != nil {
		return err
	}
	return os.Remove(dir)
}

// removeHandover removes all pins but the directory, the configuration last: after a failure
// unload finds what is left.
func removeHandover(dir string) error {
	path := filepath.Join(dir, linksDir, handoverProgram)
	l, err := link.LoadPinnedLink(path, nil)
	if err == nil {
		err = l.Detach()
		l.Close()
	}
	if err != nil && !errors.Is(err, link.ErrNotSupported) && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	for _, name := range []string{filepath.Join(linksDir, handoverProgram), linksDir, lockDir, mapPrefixes, mapListeners, mapHanded, mapFilter, mapHandover} {
		if err := os.Remove(filepath.Join(dir, name)); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	return nil
}

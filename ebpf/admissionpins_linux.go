package ebpf

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"
)

// The directory of a pinned filter has:
//
//	rds_list, rds_state, rds_refused, rds_totals   maps; the owner's, mode 0600
//	rds_config                                     a map; root's, mode 0444
//	lock/                                          empty; the owner's, mode 0500: flock'ed by those who change the list
//	links/                                         nobody's, mode 0: only CAP_DAC_OVERRIDE gets in
//
// To detach a link takes no capability, but a descriptor of it, which its pin gives to those who
// may open the pin. So links belong to a uid that no process has: neither root without
// capabilities nor the owner of the list may open them.
const (
	lockDir  = "lock"
	linksDir = "links"

	noUID     = -16   // 4294967280, of no process: distributions leave the uids above 2^31 alone
	configMax = 16384 // struct config of admission.bpf.c
)

// loadPinned loads a filter into a directory, or opens the one that is there.
func loadPinned(o AdmissionOptions, conf admissionConfig, kind hookKind) (_ *Admission, err error) {
	dir, made, err := makePins(o.Dir)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	old, err := openPinned(o.Dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	if old == nil {
		// Links without a configuration are of a LoadAdmission or UnloadAdmission that was cut short.
		if err := removeLinks(o.Dir, nil); err != nil && !errors.Is(err, os.ErrNotExist) {
			return nil, err
		}
		defer func() {
			if err == nil {
				return
			}
			if removePinned(o.Dir) != nil && made {
				_ = os.Remove(o.Dir)
			}
		}()
	} else if old.conf.same(conf) && linksAttached(o.Dir, old.conf.Hooks) {
		return old, nil
	}
	return replacePinned(o, conf, kind, old)
}

// same tells whether a filter with one of the configurations does what the other one says.
func (c admissionConfig) same(d admissionConfig) bool {
	return c.Deny == d.Deny && c.Owner == d.Owner && c.Ether == d.Ether && slices.Equal(c.Ports, d.Ports) && maps.Equal(c.Tags, d.Tags) &&
		slices.EqualFunc(c.Hooks, d.Hooks, func(a, b hook) bool { return a.place == b.place })
}

// linksAttached tells whether there are links of all hooks, and each is where it should be.
func linksAttached(dir string, hooks []hook) bool {
	for _, h := range hooks {
		l, err := link.LoadPinnedLink(filepath.Join(dir, linksDir, h.pin()), nil)
		if err != nil {
			return false
		}
		attached := h.attached(l)
		l.Close()
		if !attached {
			return false
		}
	}
	return true
}

// sharedMaps are the maps that a filter hands on to the one that takes its place.
var sharedMaps = []string{mapList, mapState, mapRefused, mapTotals}

// openPinned opens the maps of a pinned filter.
func openPinned(dir string) (_ *Admission, err error) {
	a := &Admission{maps: make(map[string]*ebpf.Map)}
	defer func() {
		if err != nil {
			a.Close()
		}
	}()
	conf, err := ebpf.LoadPinnedMap(filepath.Join(dir, mapConfig), &ebpf.LoadPinOptions{ReadOnly: true})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	a.maps[mapConfig] = conf
	raw := make([]byte, configMax)
	if err := conf.Lookup(uint32(0), raw); err != nil {
		return nil, err
	}
	if err := json.Unmarshal(bytes.TrimRight(raw, "\x00"), &a.conf); err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Join(dir, mapConfig), err)
	}
	for _, name := range sharedMaps {
		if a.maps[name], err = ebpf.LoadPinnedMap(filepath.Join(dir, name), nil); err != nil {
			delete(a.maps, name)
			return nil, err
		}
	}
	a.lock, err = os.Open(filepath.Join(dir, lockDir))
	return a, err
}

// replacePinned loads a filter and pins it. It takes the maps of the old one, if there is one,
// and closes that. Hooks that the old one has too get the new program; the others of the old
// one are detached when all of the new one are attached.
func replacePinned(o AdmissionOptions, conf admissionConfig, kind hookKind, old *Admission) (_ *Admission, err error) {
	list := o.Allow
	var handed map[string]*ebpf.Map
	var oldHooks []hook
	if old != nil {
		defer old.Close()
		oldHooks = old.conf.Hooks
		if list, err = old.Allow(); err != nil {
			return nil, err
		}
		handed = make(map[string]*ebpf.Map)
		for _, name := range sharedMaps {
			handed[name] = old.maps[name]
		}
	}
	a, program, err := newAdmission(conf, kind, handed)
	if errors.Is(err, ebpf.ErrMapIncompatible) { // the pinned maps are those of another version of this package
		handed = nil
		a, program, err = newAdmission(conf, kind, nil)
	}
	if err != nil {
		return nil, err
	}
	defer program.Close()
	defer func() {
		if err != nil {
			a.Close()
		}
	}()
	if handed == nil {
		if err := inNetns(o.Netns, func() error { return a.Set(list) }); err != nil {
			return nil, err
		}
	}
	for _, name := range sharedMaps {
		if err := pinMap(a.maps[name], filepath.Join(o.Dir, name), o.Owner, 0o600); err != nil {
			return nil, err
		}
	}
	for _, d := range []struct {
		name  string
		owner int
		mode  os.FileMode
	}{{lockDir, o.Owner, 0o500}, {linksDir, noUID, 0}} {
		path := filepath.Join(o.Dir, d.name)
		if err := os.Mkdir(path, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
			return nil, err
		}
		if err := own(path, d.owner, d.mode); err != nil {
			return nil, err
		}
	}
	if a.lock, err = os.Open(filepath.Join(o.Dir, lockDir)); err != nil {
		return nil, err
	}
	if handed != nil && !slices.EqualFunc(oldHooks, conf.Hooks, func(a, b hook) bool { return a.Kind == b.Kind && a.Netns == b.Netns }) {
		// What is the host's own is not what it was.
		if err := inNetns(o.Netns, a.setAgain); err != nil {
			return nil, err
		}
	}
	if err := a.pinLinks(o, program, oldHooks); err != nil {
		return nil, err
	}
	raw, err := json.Marshal(a.conf)
	if err != nil {
		return nil, err
	}
	if len(raw) > configMax {
		return nil, fmt.Errorf("too many interfaces: %d", len(a.conf.Hooks))
	}
	if err := a.maps[mapConfig].Put(uint32(0), append(raw, make([]byte, configMax-len(raw))...)); err != nil {
		return nil, err
	}
	if err := pinMap(a.maps[mapConfig], filepath.Join(o.Dir, mapConfig), 0, 0o444); err != nil {
		return nil, err
	}
	return a, removeLinks(o.Dir, a.conf.Hooks)
}

// pinLinks attaches the program to all hooks and pins the links; old are the hooks that the
// links pinned so far are at. After an error no link is pinned that was not before.
func (a *Admission) pinLinks(o AdmissionOptions, program *ebpf.Program, old []hook) (err error) {
	var pinned []string
	var update []link.Link
	defer func() {
		for _, l := range update {
			l.Close()
		}
		for _, path := range pinned {
			if err != nil {
				_ = os.Remove(path)
			}
		}
	}()
	for i := range a.conf.Hooks {
		h := &a.conf.Hooks[i]
		path := filepath.Join(o.Dir, linksDir, h.pin())
		switch l, err := link.LoadPinnedLink(path, nil); {
		case err == nil && h.attached(l):
			h.Generic = slices.ContainsFunc(old, func(o hook) bool { return o.place == h.place && o.Generic })
			update = append(update, l)
			continue
		case err == nil: // what it was attached to is gone
			l.Close()
			if err := os.Remove(path); err != nil {
				return err
			}
		case !errors.Is(err, os.ErrNotExist):
			return err
		}
		l, err := h.attach(o.Netns, program)
		if err != nil {
			return err
		}
		err = l.Pin(path)
		l.Close()
		if err != nil {
			return err
		}
		pinned = append(pinned, path)
		if err := own(path, noUID, 0); err != nil {
			return err
		}
	}
	if len(update) > 0 && a.conf.Hooks[0].Kind == hookLookup {
		if err := inNetns(o.Netns, func() error { return fillHandoverSlots(program) }); err != nil {
			return err
		}
	}
	for _, l := range update {
		if err := l.Update(program); err != nil {
			return err
		}
	}
	return nil
}

// removeLinks detaches the links but those of some hooks.
func removeLinks(dir string, but []hook) error {
	entries, err := os.ReadDir(filepath.Join(dir, linksDir))
	if err != nil {
		return err
	}
	for _, e := range entries {
		if slices.ContainsFunc(but, func(h hook) bool { return h.pin() == e.Name() }) {
			continue
		}
		path := filepath.Join(dir, linksDir, e.Name())
		l, err := link.LoadPinnedLink(path, nil)
		if err != nil {
			return err
		}
		err = errors.Join(leaveHandovers(l), l.Detach())
		l.Close()
		if err != nil && !errors.Is(err, link.ErrNotSupported) { // removing the pin detaches it then
			return err
		}
		if err := os.Remove(path); err != nil {
			return err
		}
	}
	return nil
}

// pinMap pins a map in the place of what is there, for an owner.
func pinMap(m *ebpf.Map, path string, owner int, mode os.FileMode) error {
	fresh := path + "_new" // names of pins have no dots
	if err := os.Remove(fresh); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if err := m.Pin(fresh); err != nil {
		return err
	}
	if err := own(fresh, owner, mode); err != nil {
		return err
	}
	return os.Rename(fresh, path)
}

func own(path string, owner int, mode os.FileMode) error {
	if err := os.Chown(path, owner, 0); err != nil {
		return err
	}
	return os.Chmod(path, mode)
}

// unloadPinned takes out the filter of a directory and removes its pins.
func unloadPinned(dir string) error {
	d, err := lockPins(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return removePinned(dir)
}

// removePinned is unloadPinned of the process that has the directory's lock. It also removes what
// there is of a filter that was loaded half.
func removePinned(dir string) error {
	there := false
	remove := func(name string) error {
		err := os.Remove(filepath.Join(dir, name))
		if errors.Is(err, os.ErrNotExist) {
			return nil
		}
		there = true
		return err
	}
	if err := removeLinks(dir, nil); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	for _, name := range append([]string{mapConfig, linksDir, lockDir}, sharedMaps...) {
		if err := remove(name); err != nil {
			return err
		}
		if err := remove(name + "_new"); err != nil {
			return err
		}
	}
	if !there {
		return fmt.Errorf("%s: no filter: %w", dir, os.ErrNotExist)
	}
	if err := os.Remove(dir); err != nil && !errors.Is(err, unix.ENOTEMPTY) {
		return err
	}
	return nil
}

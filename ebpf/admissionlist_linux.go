package ebpf

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"runtime"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// admissionState is struct state of admission.bpf.c.
type admissionState struct {
	Generation uint32 // generation of the list that counts; 0: everybody may connect
	Last       uint32 // the generation of the last list that was set, also if that was empty
	Prefixes   uint32 // length of the list that counts
	Writing    uint32 // not 0: a process is replacing the list, or died while it did
}

// maxGeneration is the largest generation that fits the tag of a key.
const maxGeneration = 1<<31 - 1

// locked calls f while nobody else changes the list.
func (a *Admission) locked(f func() error) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.maps == nil {
		return fmt.Errorf("admission: %w", os.ErrClosed)
	}
	if a.lock != nil {
		unlock, err := exclude(a.lock)
		if err != nil {
			return fmt.Errorf("admission: another process is changing the list: %w", err)
		}
		defer unlock()
	}
	if err := f(); err != nil {
		return pinsFeature.err(err)
	}
	return nil
}

// Values of the map rds_list.
const (
	valueListed = 0
	valueOwn    = 1 // an address of this host
)

// maxOwn is OWN_MAX of admission.bpf.c.
const maxOwn = 4096

// listEntries is what the map rds_list has in it of one generation.
type listEntries struct {
	generation  uint32
	listed, own []listKey
}

// setLocked writes the new list, makes it the one that counts, and deletes the old one. What a
// process left behind that died in between is deleted first.
func (a *Admission) setLocked(keys []listKey) error {
	s, err := a.stateLocked()
	if err != nil {
		return err
	}
	old, rest := a.written, []listKey(nil)
	if old == nil || old.generation != s.Last || s.Writing != 0 {
		if old, rest, err = a.keysLocked(s); err != nil {
			return err
		}
	}
	a.written = nil
	if err := a.deleteKeys(rest); err != nil {
		return err
	}
	next := &listEntries{generation: s.Last%maxGeneration + 1, listed: keys}
	if next.own, err = a.ownKeys(old.own); err != nil {
		return err
	}
	for _, keys := range [][]listKey{next.listed, next.own} {
		for i := range keys {
			keys[i].setGeneration(next.generation)
		}
	}
	s.Writing = 1
	if err := a.putState(s); err != nil {
		return err
	}
	s = admissionState{Last: next.generation, Prefixes: uint32(len(keys)), Writing: 1}
	if len(keys) > 0 {
		s.Generation = next.generation
	}
	// A prefix that is an own address as well counts as listed: it is written last.
	err = a.insertKeys(next.own, valueOwn)
	if err == nil {
		err = a.insertKeys(next.listed, valueListed)
	}
	if err == nil {
		err = a.putState(s)
	}
	if err != nil {
		return errors.Join(err, a.deleteKeys(next.own), a.deleteKeys(next.listed))
	}
	// The new list counts. What is left of the old one, if anything, the next process deletes
	// that changes the list.
	if a.deleteKeys(old.listed) == nil && a.deleteKeys(old.own) == nil {
		if s.Writing = 0; a.putState(s) == nil {
			a.written = next
		}
	}
	return nil
}

// setAgain sets the list that there is, and learns the host's own addresses anew.
func (a *Admission) setAgain() error {
	return a.locked(func() error {
		s, err := a.stateLocked()
		if err != nil {
			return err
		}
		last, _, err := a.keysLocked(s)
		if err != nil {
			return err
		}
		return a.setLocked(last.listed)
	})
}

func (a *Admission) stateLocked() (s admissionState, err error) {
	err = a.maps[mapState].Lookup(uint32(0), &s)
	return s, err
}

func (a *Admission) putState(s admissionState) error { return a.maps[mapState].Put(uint32(0), s) }

// keysLocked reads what there is of the last list that was set, and the rest, which a process
// left behind.
func (a *Admission) keysLocked(s admissionState) (last *listEntries, rest []listKey, err error) {
	last = &listEntries{generation: s.Last}
	err = batch(a.maps[mapList], func(k listKey, value uint8) {
		switch {
		case k.generation() != s.Last:
			rest = append(rest, k)
		case value == valueOwn:
			last.own = append(last.own, k)
		default:
			last.listed = append(last.listed, k)
		}
	})
	return last, rest, err
}

// ownKeys are the keys of the host's own addresses; old ones, if this thread is not in the
// filter's network namespace. Only sk_lookup sees connections with oneself.
func (a *Admission) ownKeys(old []listKey) ([]listKey, error) {
	if len(a.conf.Hooks) == 0 || a.conf.Hooks[0].Kind != hookLookup {
		return nil, nil
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if inode, err := netnsInode(); err != nil || inode != a.conf.Hooks[0].Netns {
		return old, nil
	}
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		return old, nil
	}
	var own []netip.Prefix
	for _, x := range addrs {
		if n, ok := x.(*net.IPNet); ok && len(own) < maxOwn {
			if ip, ok := netip.AddrFromSlice(n.IP); ok {
				own = append(own, netip.PrefixFrom(ip.Unmap(), ip.Unmap().BitLen()))
			}
		}
	}
	return listKeys(own)
}

// insertKeys adds keys, all in one call where the kernel has that (Linux 5.16).
func (a *Admission) insertKeys(keys []listKey, value uint8) error {
	if len(keys) == 0 {
		return nil
	}
	m := a.maps[mapList]
	_, err := m.BatchUpdate(keys, bytes.Repeat([]byte{value}, len(keys)), nil)
	if errors.Is(err, ebpf.ErrNotSupported) {
		for i := range keys {
			if err := m.Put(&keys[i], value); err != nil {
				return err
			}
		}
		return nil
	}
	return err
}

// deleteKeys deletes keys, and takes no offence at those that are not there.
func (a *Admission) deleteKeys(keys []listKey) error {
	m := a.maps[mapList]
	for len(keys) > 0 {
		n, err := m.BatchDelete(keys, nil)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, ebpf.ErrNotSupported):
			n = 0
			if err := m.Delete(&keys[0]); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
				return err
			}
		case !errors.Is(err, ebpf.ErrKeyNotExist):
			return err
		}
		keys = keys[n+1:]
	}
	return nil
}

// batch reads a map and calls f for each entry. Entries that come or go meanwhile may be
// missing.
func batch[K, V any](m *ebpf.Map, f func(K, V)) error {
	keys, values := make([]K, 4096), make([]V, 4096)
	for cursor := (ebpf.MapBatchCursor{}); ; {
		n, err := m.BatchLookup(&cursor, keys, values, nil)
		if errors.Is(err, ebpf.ErrNotSupported) {
			break
		}
		if err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
			return err
		}
		for i := range n {
			f(keys[i], values[i])
		}
		if err != nil {
			return nil
		}
	}
	var k K
	var v V
	entries := m.Iterate()
	for entries.Next(&k, &v) {
		f(k, v)
	}
	if err := entries.Err(); err != nil && !errors.Is(err, ebpf.ErrIterationAborted) {
		return err
	}
	return nil
}

// Status tells what the filter is, and what it has done since it was loaded.
func (a *Admission) Status() (AdmissionStatus, error) {
	s := AdmissionStatus{Deny: a.conf.Deny, Ports: a.conf.Ports}
	for _, h := range a.conf.Hooks {
		s.Hooks = append(s.Hooks, h.String())
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.maps == nil {
		return s, fmt.Errorf("admission: %w", os.ErrClosed)
	}
	state, err := a.stateLocked()
	if err != nil {
		return s, pinsFeature.err(err)
	}
	s.Prefixes = int(state.Prefixes)
	inode, err := netnsInode()
	if err != nil {
		return s, err
	}
	s.Here = len(a.conf.Hooks) > 0 && a.conf.Hooks[0].Netns == inode
	info, err := a.maps[mapState].Info()
	if err != nil {
		return s, pinsFeature.err(err)
	}
	id, _ := info.ID()
	s.Version = fmt.Sprintf("%d.%d", id, state.Last)
	var cpus []struct{ Passed, Refused uint64 } // struct totals of admission.bpf.c
	if err := a.maps[mapTotals].Lookup(uint32(0), &cpus); err != nil {
		return s, pinsFeature.err(err)
	}
	for _, c := range cpus {
		s.Passed += c.Passed
		s.Refused += c.Refused
	}
	return s, nil
}

// Counters are the strangers that were turned away lately, some 4,096 of them: further ones
// push out those that were not seen for the longest time. An address can be false: nobody has
// answered it.
func (a *Admission) Counters() (map[netip.Addr]Counts, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.maps == nil {
		return nil, fmt.Errorf("admission: %w", os.ErrClosed)
	}
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		return nil, err
	}
	now, mono := time.Now(), ts.Nano()
	out := make(map[netip.Addr]Counts)
	type refused struct{ Count, Last uint64 } // struct refused of admission.bpf.c
	err := batch(a.maps[mapRefused], func(k [16]byte, v refused) {
		out[netip.AddrFrom16(k).Unmap()] = Counts{Refused: v.Count, Last: now.Add(time.Duration(int64(v.Last) - mono))}
	})
	return out, pinsFeature.err(err)
}

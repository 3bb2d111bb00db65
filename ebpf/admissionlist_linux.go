package ebpf

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// admissionState is struct state of admission.bpf.c.
type admissionState struct {
	Generation uint32 // of the list that counts; 0: everybody may connect
	Last       uint32 // the last generation that was given away
	Prefixes   uint32 // length of the list that counts
}

// maxGeneration is the largest generation that fits the tag of a key.
const maxGeneration = 1<<31 - 1

// lockWait is how long Set waits for another process that is changing the list.
const lockWait = 5 * time.Second

// locked calls f while nobody else changes the list.
func (a *Admission) locked(f func() error) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.maps == nil {
		return fmt.Errorf("admission: %w", os.ErrClosed)
	}
	if a.lock != nil {
		fd := int(a.lock.Fd())
		for end := time.Now().Add(lockWait); ; time.Sleep(time.Millisecond) {
			err := unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB)
			if err == nil {
				break
			}
			if err != unix.EINTR && (err != unix.EWOULDBLOCK || time.Now().After(end)) {
				return fmt.Errorf("admission: another process is changing the list: %w", err)
			}
		}
		defer unix.Flock(fd, unix.LOCK_UN)
	}
	if err := f(); err != nil {
		return pinsFeature.err(err)
	}
	return nil
}

// setLocked writes the new list, makes it the one that counts, and deletes the old one. What a
// process left behind that died in between is deleted first.
func (a *Admission) setLocked(keys []listKey) error {
	var s admissionState
	all, err := a.keysLocked(&s)
	if err != nil {
		return err
	}
	var old, rest []listKey
	for _, k := range all {
		if k.generation() == s.Generation {
			old = append(old, k)
		} else {
			rest = append(rest, k)
		}
	}
	if err := a.deleteKeys(rest); err != nil {
		return err
	}
	next := admissionState{Generation: s.Last%maxGeneration + 1, Prefixes: uint32(len(keys))}
	next.Last = next.Generation
	for i := range keys {
		keys[i].setGeneration(next.Generation)
	}
	if err := a.insertKeys(keys); err != nil {
		return errors.Join(err, a.deleteKeys(keys))
	}
	if len(keys) == 0 {
		next.Generation = 0
	}
	if err := a.maps[mapState].Put(uint32(0), next); err != nil {
		return errors.Join(err, a.deleteKeys(keys))
	}
	return a.deleteKeys(old)
}

// keysLocked reads the state and all keys of the list's map, of whatever generation.
func (a *Admission) keysLocked(s *admissionState) ([]listKey, error) {
	if err := a.maps[mapState].Lookup(uint32(0), s); err != nil {
		return nil, err
	}
	return batch[listKey, uint8](a.maps[mapList], func(listKey, uint8) {})
}

// insertKeys adds keys, all in one call where the kernel has that (Linux 5.16).
func (a *Admission) insertKeys(keys []listKey) error {
	if len(keys) == 0 {
		return nil
	}
	m := a.maps[mapList]
	_, err := m.BatchUpdate(keys, make([]uint8, len(keys)), nil)
	if errors.Is(err, ebpf.ErrNotSupported) {
		for i := range keys {
			if err := m.Put(&keys[i], uint8(0)); err != nil {
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

// batch reads a map, calls f for each entry, and returns the keys. Entries that come or go
// meanwhile may be missing.
func batch[K, V any](m *ebpf.Map, f func(K, V)) ([]K, error) {
	var all []K
	keys, values := make([]K, 4096), make([]V, 4096)
	for cursor := (ebpf.MapBatchCursor{}); ; {
		n, err := m.BatchLookup(&cursor, keys, values, nil)
		if errors.Is(err, ebpf.ErrNotSupported) {
			break
		}
		if err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
			return nil, err
		}
		for i := range n {
			f(keys[i], values[i])
		}
		all = append(all, keys[:n]...)
		if err != nil {
			return all, nil
		}
	}
	var k K
	var v V
	entries := m.Iterate()
	for entries.Next(&k, &v) {
		f(k, v)
		all = append(all, k)
	}
	if err := entries.Err(); err != nil && !errors.Is(err, ebpf.ErrIterationAborted) {
		return nil, err
	}
	return all, nil
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
	var state admissionState
	if err := a.maps[mapState].Lookup(uint32(0), &state); err != nil {
		return s, pinsFeature.err(err)
	}
	s.Prefixes = int(state.Prefixes)
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
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		return nil, err
	}
	now, boot := time.Now(), ts.Nano()
	out := make(map[netip.Addr]Counts)
	type refused struct{ Count, Last uint64 } // struct refused of admission.bpf.c
	_, err := batch(a.maps[mapRefused], func(k [16]byte, v refused) {
		out[netip.AddrFrom16(k).Unmap()] = Counts{Refused: v.Count, Last: now.Add(time.Duration(int64(v.Last) - boot))}
	})
	return out, pinsFeature.err(err)
}

package ebpf

import (
	"errors"
	"os"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"
)

// In a network namespace all programs of sk_lookup run, in the order of attaching, and the
// choice of one beats the SK_DROP of another one. So a handover asks the program of an
// admission that refuses by a tail call, from the slot of the map rds_filter.

// filterHandoversHere puts the admission of the calling thread's network namespace, if there is
// one, into the slots of the handovers there, and empties the slots otherwise. It takes
// CAP_SYS_ADMIN if there are programs.
func filterHandoversHere() error {
	ns, err := os.Open("/proc/thread-self/ns/net")
	if err != nil {
		return err
	}
	defer ns.Close()
	attached, err := link.QueryPrograms(link.QueryOptions{Target: int(ns.Fd()), Attach: ebpf.AttachSkLookup})
	if err != nil {
		return err
	}
	var (
		filter *ebpf.Program
		slots  []*ebpf.Map
	)
	defer func() {
		filter.Close()
		for _, m := range slots {
			m.Close()
		}
	}()
	for _, a := range attached.Programs {
		p, err := ebpf.NewProgramFromID(a.ID)
		if errors.Is(err, os.ErrNotExist) { // it was unloaded meanwhile
			continue
		}
		if err != nil {
			return err
		}
		slot, err := filterSlot(p)
		switch {
		case err != nil:
			p.Close()
			return err
		case slot != nil:
			slots = append(slots, slot)
		case named(p, hookLookup.program()):
			filter.Close()
			filter = p
			continue
		}
		p.Close()
	}
	for _, slot := range slots {
		err := slot.Delete(uint32(0))
		if filter != nil {
			err = slot.Put(uint32(0), filter)
		}
		if err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
			return err
		}
	}
	return nil
}

// unfilterHandovers empties the slots, of all network namespaces, that have a program which is
// about to be unloaded.
func unfilterHandovers(unloaded ebpf.ProgramID) error {
	for id := ebpf.ProgramID(0); ; {
		next, err := ebpf.ProgramGetNextID(id)
		if errors.Is(err, os.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		id = next
		p, err := ebpf.NewProgramFromID(id)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		slot, err := filterSlot(p)
		p.Close()
		if err != nil {
			return err
		}
		if slot == nil {
			continue
		}
		var has uint32
		if slot.Lookup(uint32(0), &has) == nil && ebpf.ProgramID(has) == unloaded {
			err = slot.Delete(uint32(0))
		}
		slot.Close()
		if err != nil {
			return err
		}
	}
}

// leaveHandovers has no handover ask the program of an admission's link, which is about to be
// detached.
func leaveHandovers(l link.Link) error {
	info, err := l.Info()
	if err != nil || info.NetNs() == nil {
		return err
	}
	return unfilterHandovers(info.Program)
}

// named tells whether a program has a name, which the kernel cuts.
func named(p *ebpf.Program, name string) bool {
	info, err := p.Info()
	cut := name[:min(len(name), unix.BPF_OBJ_NAME_LEN-1)]
	return err == nil && (info.Name == name || info.Name == cut)
}

// filterSlot is the map rds_filter of the program of a handover; nil of other programs. The
// caller closes the map.
func filterSlot(p *ebpf.Program) (*ebpf.Map, error) {
	if p.Type() != ebpf.SkLookup || !named(p, handoverProgram) {
		return nil, nil
	}
	info, err := p.Info()
	if err != nil {
		return nil, err
	}
	ids, _ := info.MapIDs()
	for _, id := range ids {
		m, err := ebpf.NewMapFromID(id)
		if err != nil {
			return nil, err
		}
		if m.Type() == ebpf.ProgramArray {
			return m, nil
		}
		m.Close()
	}
	return nil, nil
}

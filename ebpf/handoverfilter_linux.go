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

// attachAdmission attaches the program of an admission to the network namespace of the calling
// thread.
func attachAdmission(program *ebpf.Program) (link.Link, error) {
	l, err := attachLookup(program, fillHandoverSlots)
	if err != nil {
		if info, e := program.Info(); e == nil {
			id, _ := info.ID()
			_ = unfilterHandovers(id)
		}
	}
	return l, err
}

// attachLookup attaches a program to the network namespace of the calling thread: that of an
// admission with fillHandoverSlots, that of a handover with fillSlot. The slots are filled before
// the program is attached, so that no stranger passes meanwhile, and once more afterwards, because
// another process may have loaded a handover, or the admission, meanwhile.
func attachLookup(program *ebpf.Program, fill func(*ebpf.Program) error) (link.Link, error) {
	ns, err := os.Open("/proc/thread-self/ns/net")
	if err != nil {
		return nil, err
	}
	defer ns.Close()
	if err := fill(program); err != nil {
		return nil, err
	}
	l, err := link.AttachNetNs(int(ns.Fd()), program)
	if err != nil {
		return nil, err
	}
	if err := fill(program); err != nil {
		l.Close()
		return nil, err
	}
	return l, nil
}

// fillHandoverSlots puts an admission into the slots of all handovers of the calling thread's
// network namespace.
func fillHandoverSlots(admission *ebpf.Program) error {
	return eachLookup(admission, func(other *ebpf.Program) error {
		slot, err := filterSlot(other)
		if slot == nil || err != nil {
			return err
		}
		defer slot.Close()
		return slot.Put(uint32(0), admission)
	})
}

// fillSlot puts the admission of the calling thread's network namespace, if there is one, into the
// slot of h, which has the program.
func (h *Handover) fillSlot(program *ebpf.Program) error {
	slot, asks := h.maps[mapFilter], false
	err := eachLookup(program, func(other *ebpf.Program) error {
		if !named(other, hookLookup.program()) {
			return nil
		}
		asks = true
		return slot.Put(uint32(0), other)
	})
	if err != nil || asks {
		return err
	}
	// What is in the slot is of an admission that ended with its process.
	if err := slot.Delete(uint32(0)); !errors.Is(err, ebpf.ErrKeyNotExist) {
		return err
	}
	return nil
}

// eachLookup calls f with the programs of sk_lookup of the calling thread's network namespace but
// one. It takes CAP_SYS_ADMIN if there are any.
func eachLookup(but *ebpf.Program, f func(*ebpf.Program) error) error {
	if !hasCapability(unix.CAP_NET_ADMIN) && !hasCapability(unix.CAP_SYS_ADMIN) {
		return ErrPermission // the library takes the query of programs to be missing then, and for ever
	}
	info, err := but.Info()
	if err != nil {
		return err
	}
	own, _ := info.ID()
	ns, err := os.Open("/proc/thread-self/ns/net")
	if err != nil {
		return err
	}
	defer ns.Close()
	attached, err := link.QueryPrograms(link.QueryOptions{Target: int(ns.Fd()), Attach: ebpf.AttachSkLookup})
	if err != nil {
		return err
	}
	for _, a := range attached.Programs {
		if a.ID == own {
			continue
		}
		p, err := ebpf.NewProgramFromID(a.ID)
		if errors.Is(err, os.ErrNotExist) { // the program was unloaded meanwhile
			continue
		}
		if err != nil {
			return err
		}
		err = f(p)
		p.Close()
		if err != nil {
			return err
		}
	}
	return nil
}

// unfilterHandovers empties the slots, of all network namespaces, that have a program which is
// about to be unloaded. Without CAP_SYS_ADMIN it does nothing: handovers go on asking the program.
func unfilterHandovers(unloaded ebpf.ProgramID) error {
	for id := ebpf.ProgramID(0); ; {
		next, err := ebpf.ProgramGetNextID(id)
		if errors.Is(err, os.ErrNotExist) || errors.Is(err, os.ErrPermission) {
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

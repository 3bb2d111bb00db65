package ebpf

import (
	"errors"
	"fmt"
	"net"
	"runtime"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"github.com/rds-go/rds/ebpf/internal/bpf"
)

// hookKind is a kind of place in the kernel where a filter's program runs.
type hookKind string

const (
	hookLookup hookKind = "sk_lookup"
	hookTCX    hookKind = "tcx"
	hookXDP    hookKind = "XDP"
)

// program is the program of admission.bpf.c for hooks of this kind.
func (k hookKind) program() string {
	switch k {
	case hookTCX:
		return bpf.AdmissionProgAdmissionTcx
	case hookXDP:
		return bpf.AdmissionProgAdmissionXdp
	}
	return bpf.AdmissionProgAdmissionLookup
}

// place is where a program is attached.
type place struct {
	Kind  hookKind `json:"kind"`
	Netns uint32   `json:"netns"`           // inode of the network namespace
	Index int      `json:"index,omitempty"` // index of the interface; 0 with sk_lookup
	Name  string   `json:"name,omitempty"`  // name of the interface
}

// pin is the name of the pin of a link at this place.
func (p place) pin() string { return fmt.Sprintf("%s-%d-%d", p.Kind, p.Netns, p.Index) }

// hook is a place with a program.
type hook struct {
	place
	Generic bool `json:"generic,omitempty"` // XDP that the kernel does for a driver that does not
}

// String is such as "sk_lookup", "tcx on eth0" or "XDP on eth0 (generic)".
func (h hook) String() string {
	switch {
	case h.Kind == hookLookup:
		return string(h.Kind)
	case h.Generic:
		return fmt.Sprintf("%s on %s (generic)", h.Kind, h.Name)
	}
	return fmt.Sprintf("%s on %s", h.Kind, h.Name)
}

// wantedHooks are the hooks that the options ask for, and whether all are of Ethernet.
func wantedHooks(o AdmissionOptions, kind hookKind) (hooks []hook, ether bool, err error) {
	ether = true
	err = inNetns(o.Netns, func() error {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		inode, err := netnsInode()
		if err != nil {
			return err
		}
		if kind == hookLookup {
			hooks = []hook{{place: place{Kind: kind, Netns: inode}}}
			return nil
		}
		var interfaces []net.Interface
		if o.Interfaces == nil {
			if interfaces, err = net.Interfaces(); err != nil {
				return err
			}
		}
		for _, name := range o.Interfaces {
			i, err := net.InterfaceByName(name)
			if err != nil {
				return fmt.Errorf("interface %s: %w", name, err)
			}
			interfaces = append(interfaces, *i)
		}
		for _, i := range interfaces {
			if i.Flags&net.FlagLoopback != 0 {
				continue
			}
			ether = ether && len(i.HardwareAddr) == 6
			if kind == hookXDP && !ether {
				return fmt.Errorf("%w: XDP on interface %s, which is no Ethernet", ErrNotSupported, i.Name)
			}
			hooks = append(hooks, hook{place: place{Kind: kind, Netns: inode, Index: i.Index, Name: i.Name}})
		}
		if len(hooks) == 0 {
			return errors.New("no interface but loopback")
		}
		return nil
	})
	return hooks, ether, err
}

// attach attaches the program. It sets whether XDP is generic.
func (h *hook) attach(netns string, program *ebpf.Program) (l link.Link, err error) {
	err = inNetns(netns, func() error {
		switch h.Kind {
		case hookLookup:
			l, err = attachAdmission(program)
			return err
		case hookTCX:
			l, err = link.AttachTCX(link.TCXOptions{Interface: h.Index, Program: program, Attach: ebpf.AttachTCXIngress})
		case hookXDP:
			l, err = link.AttachXDP(link.XDPOptions{Interface: h.Index, Program: program, Flags: link.XDPDriverMode})
			if err != nil && !errors.Is(err, ErrPermission) && !errors.Is(err, unix.EBUSY) {
				h.Generic = true
				l, err = link.AttachXDP(link.XDPOptions{Interface: h.Index, Program: program, Flags: link.XDPGenericMode})
			}
			if errors.Is(err, unix.EBUSY) || errors.Is(err, unix.EEXIST) {
				return fmt.Errorf("interface %s: another XDP program is there: %w", h.Name, err)
			}
		}
		if err != nil {
			return fmt.Errorf("interface %s: %w", h.Name, err)
		}
		return nil
	})
	return l, err
}

// attached tells whether a link is at the place: not, if the interface or the namespace is gone.
func (p place) attached(l link.Link) bool {
	info, err := l.Info()
	if err != nil {
		return false
	}
	switch p.Kind {
	case hookLookup:
		x := info.NetNs()
		return x != nil && x.NetnsInode == p.Netns
	case hookTCX:
		x := info.TCX()
		return x != nil && int(x.Ifindex) == p.Index
	default:
		x := info.XDP()
		return x != nil && int(x.Ifindex) == p.Index
	}
}

// probeAdmission loads and attaches a program in a network namespace of its own, where that is
// possible, else to the loopback interface. Without a list it lets everything through.
func probeAdmission(kind hookKind) error {
	return onMovingThread(func() error {
		_ = unix.Unshare(unix.CLONE_NEWNET)
		a, program, err := newAdmission(admissionConfig{}, kind, nil)
		if err != nil {
			return err
		}
		defer a.Close()
		defer program.Close()
		h := hook{place: place{Kind: kind, Index: 1, Name: "lo"}}
		l, err := h.attach("", program)
		if err != nil {
			return err
		}
		return l.Close()
	})
}

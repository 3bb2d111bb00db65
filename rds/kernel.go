package rds

import (
	"net/netip"

	"github.com/rds-go/rds/internal/kernel"
)

// Kernel is the provider whose sockets are the Linux kernel's own (AF_RDS).
type Kernel struct{ k *kernel.Kernel }

// OpenKernel returns the kernel provider, or an error that is ErrNoKernel where
// the kernel has no RDS.
func OpenKernel() (*Kernel, error) {
	k, err := kernel.Open()
	if err != nil {
		return nil, err
	}
	return &Kernel{k}, nil
}

// Bind makes a kernel socket bound to addr.
func (k *Kernel) Bind(addr netip.AddrPort) (*Socket, error) {
	s, err := k.k.Bind(addr)
	if err != nil {
		return nil, err
	}
	return &Socket{*s}, nil
}

// Info reports what rds-info reports.
func (k *Kernel) Info() (Info, error) { return k.k.Info() }

// Close does nothing: kernel sockets are closed one by one.
func (k *Kernel) Close() error { return k.k.Close() }

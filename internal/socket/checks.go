package socket

import (
	"context"
	"errors"
	"net/netip"
	"sync"
	"syscall"

	"github.com/rds-go/rds/internal/address"
	"github.com/rds-go/rds/internal/errno"
	"github.com/rds-go/rds/internal/ipc"
	"github.com/rds-go/rds/rds/config"
	"github.com/rds-go/rds/rds/datagram"
)

// The checks of an outgoing message are those of sendmsg, in its order
// (net/rds/send.c, rds_sendmsg).

// NeedsRDMA tells whether a message needs a transport with RDMA.
func NeedsRDMA(o *datagram.Outgoing) bool {
	return o.RDMA != nil || o.Atomic != nil || o.Map != nil || o.HasDest
}

// Says tells whether there is more to say of a message than its payload.
func Says(o *datagram.Outgoing) bool { return NeedsRDMA(o) || !o.Expires.IsZero() }

// Size is the length of a message's payload.
func Size(o *datagram.Outgoing) int {
	if o.Buffer != nil {
		return len(o.Buffer.Data)
	}
	return len(o.Data)
}

// SendWithin is send that waits no longer than the message may.
func SendWithin(ctx context.Context, ep Endpoint, o *datagram.Outgoing, block bool) error {
	if block && !o.Expires.IsZero() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, o.Expires)
		defer cancel()
	}
	return ep.Send(ctx, o, block)
}

// DefaultDestination is where a message without a destination goes.
func DefaultDestination(to netip.AddrPort, p *netip.AddrPort) (netip.AddrPort, error) {
	if p == nil || to.Addr().IsValid() {
		return to, datagram.ErrNotConnected
	}
	return *p, nil
}

func CheckDestination(local, to netip.Addr) error {
	switch {
	case !address.Unicast(to):
		return datagram.ErrInvalid
	case to.Is4() != local.Is4():
		return datagram.ErrNotSupported
	case to.Zone() != local.Zone() && to.IsLinkLocalUnicast():
		return datagram.ErrInvalid
	}
	return nil
}

func CheckMessage(o *datagram.Outgoing, fates *Fates, limit int) error {
	if o.Notify && fates.Full() {
		return datagram.ErrWouldBlock
	}
	if n := Size(o); n > config.MaxMessage || n > limit {
		return datagram.ErrMessageTooLong
	}
	return nil
}

// Accepted ends the caller's hold on a buffer that was sent; moved says that
// its reference has passed to the core.
func Accepted(o *datagram.Outgoing, moved bool) {
	if b := o.Buffer; b != nil {
		if !moved {
			b.Release()
		}
		*b = datagram.Message{}
	}
}

var ErrDestination error = &errno.Error{Text: "destination address required", Errno: syscall.EDESTADDRREQ}

func CheckConnect(local, a netip.Addr) error {
	switch {
	case !a.IsValid() || a.IsUnspecified():
		return ErrDestination
	case !address.Unicast(a):
		return datagram.ErrInvalid
	case a.Is4() != local.Is4():
		return datagram.ErrNotSupported
	}
	return nil
}

// CheckSpecial checks what a message says about memory (net/rds/send.c,
// rds_rm_size, and net/rds/rdma.c, rds_cmsg_rdma_args, rds_cmsg_atomic).
func CheckSpecial(o *datagram.Outgoing) error {
	offers := o.HasDest || o.Map != nil
	if (o.RDMA != nil || o.Atomic != nil) && offers || o.HasDest && o.Map != nil {
		return datagram.ErrInvalid
	}
	if r := o.RDMA; r != nil {
		switch {
		case len(r.Local) == 0:
			return datagram.ErrInvalid
		case len(r.Local) > ipc.MaxPieces:
			return datagram.ErrMessageTooLong
		}
		total := 0
		for _, b := range r.Local {
			if len(b) == 0 {
				return datagram.ErrInvalid
			}
			if total += len(b); total > config.MaxMessage {
				return datagram.ErrMessageTooLong
			}
		}
		if r.Offset+uint64(r.Cookie.Offset())+uint64(total) < r.Offset {
			return datagram.ErrInvalid
		}
	}
	if a := o.Atomic; a != nil {
		at := a.Offset + uint64(a.Cookie.Offset())
		if a.Kind > datagram.MaskedCompareSwap || at < a.Offset || at%8 != 0 {
			return datagram.ErrInvalid
		}
	}
	if m := o.Map; m != nil {
		return CheckMRFlags(m.Flags)
	}
	return nil
}

// MrFlags are all there are.
const MrFlags = datagram.MRReadWrite | datagram.MRInvalidate | datagram.MRUseOnce | datagram.MRReadOnly

func CheckMRFlags(f datagram.MRFlags) error {
	if f&^MrFlags != 0 || f&(datagram.MRReadWrite|datagram.MRReadOnly) == datagram.MRReadWrite|datagram.MRReadOnly {
		return datagram.ErrInvalid
	}
	return nil
}

// CloseAll closes sockets, which linger at the same time, and returns what they
// dropped.
func CloseAll[S interface{ Close() error }](socks []S) (total datagram.DroppedError) {
	var (
		wg sync.WaitGroup
		mu sync.Mutex
	)
	for _, s := range socks {
		wg.Go(func() {
			var d *datagram.DroppedError
			if errors.As(s.Close(), &d) {
				mu.Lock()
				total.Messages += d.Messages
				total.Bytes += d.Bytes
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	return total
}

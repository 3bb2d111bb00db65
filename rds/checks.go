package rds

import (
	"context"
	"errors"
	"net/netip"
	"sync"
	"syscall"

	"github.com/rds-go/rds/internal/errno"
)

// The checks of an outgoing message are those of sendmsg, in its order
// (net/rds/send.c, rds_sendmsg).

// needsRDMA tells whether a message needs a transport with RDMA.
func needsRDMA(o *Outgoing) bool {
	return o.RDMA != nil || o.Atomic != nil || o.Map != nil || o.HasDest
}

// says tells whether there is more to say of a message than its payload.
func says(o *Outgoing) bool { return needsRDMA(o) || !o.Expires.IsZero() }

// size is the length of a message's payload.
func size(o *Outgoing) int {
	if o.Buffer != nil {
		return len(o.Buffer.Data)
	}
	return len(o.Data)
}

// sendWithin is send that waits no longer than the message may.
func sendWithin(ctx context.Context, ep endpoint, o *Outgoing, block bool) error {
	if block && !o.Expires.IsZero() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, o.Expires)
		defer cancel()
	}
	return ep.send(ctx, o, block)
}

// defaultDestination is where a message without a destination goes.
func defaultDestination(to netip.AddrPort, p *netip.AddrPort) (netip.AddrPort, error) {
	if p == nil || to.Addr().IsValid() {
		return to, ErrNotConnected
	}
	return *p, nil
}

func checkDestination(local, to netip.Addr) error {
	switch {
	case !unicast(to):
		return ErrInvalid
	case to.Is4() != local.Is4():
		return ErrNotSupported
	case to.Zone() != local.Zone() && to.IsLinkLocalUnicast():
		return ErrInvalid
	}
	return nil
}

func checkMessage(o *Outgoing, fates *fateQueue, limit int) error {
	if o.Notify && fates.full() {
		return ErrWouldBlock
	}
	if n := size(o); n > MaxMessage || n > limit {
		return ErrMessageTooLong
	}
	return nil
}

// accepted ends the caller's hold on a buffer that was sent; moved says that
// its reference has passed to the core.
func accepted(o *Outgoing, moved bool) {
	if b := o.Buffer; b != nil {
		if !moved {
			b.Release()
		}
		*b = Message{}
	}
}

var errDestination error = &errno.Error{Text: "destination address required", Errno: syscall.EDESTADDRREQ}

func checkConnect(local, a netip.Addr) error {
	switch {
	case !a.IsValid() || a.IsUnspecified():
		return errDestination
	case !unicast(a):
		return ErrInvalid
	case a.Is4() != local.Is4():
		return ErrNotSupported
	}
	return nil
}

// maxPieces bounds RDMA.Local (UIO_MAXIOV).
const maxPieces = 1024

// checkSpecial checks what a message says about memory (net/rds/send.c,
// rds_rm_size, and net/rds/rdma.c, rds_cmsg_rdma_args, rds_cmsg_atomic).
func checkSpecial(o *Outgoing) error {
	offers := o.HasDest || o.Map != nil
	if (o.RDMA != nil || o.Atomic != nil) && offers || o.HasDest && o.Map != nil {
		return ErrInvalid
	}
	if r := o.RDMA; r != nil {
		switch {
		case len(r.Local) == 0:
			return ErrInvalid
		case len(r.Local) > maxPieces:
			return ErrMessageTooLong
		}
		total := 0
		for _, b := range r.Local {
			if len(b) == 0 {
				return ErrInvalid
			}
			if total += len(b); total > MaxMessage {
				return ErrMessageTooLong
			}
		}
		if r.Offset+uint64(r.Cookie.Offset())+uint64(total) < r.Offset {
			return ErrInvalid
		}
	}
	if a := o.Atomic; a != nil {
		at := a.Offset + uint64(a.Cookie.Offset())
		if a.Kind > MaskedCompareSwap || at < a.Offset || at%8 != 0 {
			return ErrInvalid
		}
	}
	if m := o.Map; m != nil {
		return checkMRFlags(m.Flags)
	}
	return nil
}

// mrFlags are all there are.
const mrFlags = MRReadWrite | MRInvalidate | MRUseOnce | MRReadOnly

func checkMRFlags(f MRFlags) error {
	if f&^mrFlags != 0 || f&(MRReadWrite|MRReadOnly) == MRReadWrite|MRReadOnly {
		return ErrInvalid
	}
	return nil
}

// closeAll closes sockets, which linger at the same time, and returns what they
// dropped.
func closeAll[S interface{ close() error }](socks []S) (total DroppedError) {
	var (
		wg sync.WaitGroup
		mu sync.Mutex
	)
	for _, s := range socks {
		wg.Go(func() {
			var d *DroppedError
			if errors.As(s.close(), &d) {
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

package client

import (
	"context"
	"net"
	"slices"

	"github.com/rds-go/rds/internal/ipc"
	"github.com/rds-go/rds/rds/config"
	"github.com/rds-go/rds/rds/datagram"
)

// SetTransport notes the wish, which counts for this daemon and for what comes
// after it.
func (s *Socket) SetTransport(w config.Wire) error {
	if s.Closed.Load() {
		return net.ErrClosed
	}
	if w != config.WireAuto {
		h, err := s.session(context.Background(), false)
		if err == nil {
			err = h.att.has(w)
		}
		if err != nil {
			return err
		}
	}
	s.only.Store(&w)
	return nil
}

// has tells whether the daemon has a transport, and lets applications choose it.
func (t *attachment) has(w config.Wire) error {
	switch {
	case !slices.Contains(t.welcome.Features, ipc.FeatureChoice):
		return datagram.ErrNotSupported
	case !slices.Contains(t.welcome.Features, string(w)):
		return datagram.ErrNoTransport
	}
	return nil
}

// admits tells whether this socket may send to a destination.
func (s *Socket) admits(ctx context.Context, h *half, d *destination) error {
	only := s.only.Load()
	if only == nil || *only == config.WireAuto {
		return nil
	}
	if err := h.att.has(*only); err != nil {
		return err
	}
	switch h.att.table.Server(int(d.peer)) {
	case ipc.ServerOf(string(*only)), ipc.ServerAny:
		return nil
	case ipc.ServerUnknown:
		if ctx.Err() != nil { // ctx bounds waiting for room
			ctx = context.Background()
		}
		_, err := h.tellWithin(ctx, ipc.Request{Op: ipc.CallAdmit, Peer: d.peer, Option: string(*only)})
		return err
	}
	return datagram.ErrNotSupported
}

package rds

import (
	"context"
	"net"
	"slices"

	"github.com/rds-go/rds/internal/ipc"
)

// setTransport notes the wish, which counts for this daemon and for what comes
// after it.
func (s *clientSocket) setTransport(w Wire) error {
	if s.closed.Load() {
		return net.ErrClosed
	}
	if w != WireAuto {
		h, err := s.session(context.Background(), false)
		if err == nil {
			err = h.t.has(w)
		}
		if err != nil {
			return err
		}
	}
	s.only.Store(&w)
	return nil
}

// has tells whether the daemon has a transport, and lets applications choose it.
func (t *attachment) has(w Wire) error {
	switch {
	case !slices.Contains(t.welcome.Features, ipc.FeatureChoice):
		return ErrNotSupported
	case !slices.Contains(t.welcome.Features, string(w)):
		return ErrNoTransport
	}
	return nil
}

// admits tells whether this socket may send to a destination.
func (s *clientSocket) admits(ctx context.Context, h *half, d *destination) error {
	only := s.only.Load()
	if only == nil || *only == WireAuto {
		return nil
	}
	if err := h.t.has(*only); err != nil {
		return err
	}
	switch h.t.table.Server(int(d.peer)) {
	case ipc.ServerOf(string(*only)), ipc.ServerAny:
		return nil
	case ipc.ServerUnknown:
		if ctx.Err() != nil { // ctx bounds waiting for room
			ctx = context.Background()
		}
		_, err := h.tellWithin(ctx, ipc.Request{Op: ipc.CallAdmit, Peer: d.peer, Option: string(*only)})
		return err
	}
	return ErrNotSupported
}

package gnetloop

import (
	"context"
	"net/netip"

	"github.com/rds-go/rds/transport"
)

// Network brings the sockets below a transport. Options.Network names one instead of the
// host's TCP: tests have a network in memory, which works in a bubble of testing/synctest.
type Network interface {
	// Open starts a stack. The options are good, and their defaults are filled in.
	Open(o Options) (Stack, error)
}

// Stack makes and drives connections. An Engine is one.
type Stack interface {
	Sockets
	// Dial is Engine.Dial.
	Dial(ctx context.Context, local, remote netip.AddrPort) (Stream, error)
	// Listen is Engine.Listen.
	Listen(local netip.AddrPort, accept func(Stream)) (StreamListener, error)
	// Stats returns the counters.
	Stats() Stats
	// Unlisten ends listening; connections go on.
	Unlisten()
	// Close is Engine.Close.
	Close() error
}

// StreamListener accepts connections until it or its stack is closed. A Listener is one.
type StreamListener interface {
	Addr() netip.AddrPort
	Close()
}

// Stream is one connection of a Stack. A Conn is one, and its methods say what those of
// others have to do.
type Stream interface {
	Start(h Handler) error
	Settled()
	Writev(bufs [][]byte) (int, error)
	Written() uint64
	Acked() uint64
	Wake()
	Pause()
	Resume()
	Close(mode transport.CloseMode)
	Here() bool
	LocalAddr() netip.AddrPort
	RemoteAddr() netip.AddrPort
	MSS() int
	TCPInfo() (transport.TCPInfo, bool)
}

// Open starts the stack that the options ask for: one of Options.Network, or an Engine.
func Open(o Options) (Stack, error) {
	if o.Network == nil {
		e, err := New(o)
		if err != nil {
			return nil, err
		}
		return engineStack{e}, nil
	}
	if err := o.Validate(); err != nil {
		return nil, err
	}
	return o.Network.Open(o.withDefaults())
}

// engineStack is an Engine as a Stack.
type engineStack struct{ *Engine }

func (s engineStack) Dial(ctx context.Context, local, remote netip.AddrPort) (Stream, error) {
	c, err := s.Engine.Dial(ctx, local, remote)
	if err != nil {
		return nil, err
	}
	return c, nil
}

func (s engineStack) Listen(local netip.AddrPort, accept func(Stream)) (StreamListener, error) {
	ln, err := s.Engine.Listen(local, func(c *Conn) { accept(c) })
	if err != nil {
		return nil, err
	}
	return ln, nil
}

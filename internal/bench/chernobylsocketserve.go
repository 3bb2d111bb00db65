package bench

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	"github.com/rds-go/rds/rds"
)

// serveChernobylSockets binds a socket for each of the client's, and exposes memory
// of each that the client's is to write to and read; the rogue's, which is the last,
// may only be read.
func serveChernobylSockets(p rds.Provider, ip netip.Addr, w *Work, fail func(error)) (*service, error) {
	v := &service{tally: newTally(), fail: fail}
	for i := range w.Workers + 1 {
		s, err := p.Bind(netip.AddrPortFrom(ip, 0))
		if err != nil {
			v.close()
			return nil, err
		}
		v.own(s)
		v.addrs = append(v.addrs, s.LocalAddrPort())
		flags := rds.MRReadWrite
		if i == w.Workers {
			flags = rds.MRReadOnly
		}
		m, err := s.AllocMemory(places * w.Size)
		var cookie rds.Cookie
		if err == nil {
			cookie, err = s.GetMR(m.B, flags)
		}
		if err != nil {
			v.close()
			return nil, err
		}
		mine := &written{worker: i, mem: m.B, size: w.Size}
		v.run(func() error { return mine.serveSocket(s, cookie, i == w.Workers, v.tally) })
	}
	return v, nil
}

// serveSocket gives the client its key, and checks and answers its messages.
func (w *written) serveSocket(s *rds.Socket, cookie rds.Cookie, rogue bool, t *tally) error {
	ctx := context.Background()
	for {
		m, err := s.Recv(ctx)
		if err != nil {
			return err
		}
		o := rds.Outgoing{To: m.From}
		switch {
		case len(m.Data) == 0:
			o.HasDest, o.Dest = true, cookie
		case rogue:
			err = errors.New("a message of the rogue was delivered, although its write had a bad key")
		default:
			if err = w.check(m.Data); err == nil {
				o.Data = m.Data
				t.add(1)
			}
		}
		if err == nil {
			err = s.SendMessage(ctx, &o)
		}
		m.Release()
		if err != nil {
			return fmt.Errorf("socket %d: %w", w.worker, err)
		}
	}
}

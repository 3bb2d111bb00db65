package peer

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"syscall"
	"time"
)

// pongTime is how long a ping waits for its pong before it is sent again.
const pongTime = 3 * time.Second

// ping sends an empty message to port 0 and waits for the empty one that comes
// back from there (net/rds/send.c, rds_send_pong). No pong comes when the
// pinged host thinks the pinging port congested: news that it no longer is may
// travel on another path and arrive after the ping. So it is sent again.
func (s *Server) ping(ctx context.Context, a PingArgs) (any, error) {
	socket, err := s.socket(a.Socket)
	if err != nil {
		return nil, err
	}
	host := netip.AddrPortFrom(a.To, 0)
	for again := false; ; again = true {
		start := time.Now()
		if err := socket.Send(ctx, host, nil); err != nil {
			return nil, err
		}
		err := s.pong(ctx, socket, host)
		switch {
		case err == nil && again: // the earlier ones may have been slow, not lost
			for err == nil {
				err = s.pong(ctx, socket, host)
			}
			if ctx.Err() == nil && !errors.Is(err, context.DeadlineExceeded) {
				return nil, err
			}
			fallthrough
		case err == nil:
			return PingResult{Microseconds: time.Since(start).Microseconds()}, nil
		case ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded):
			return nil, err
		}
	}
}

// pong receives one pong.
func (s *Server) pong(ctx context.Context, socket Socket, host netip.AddrPort) error {
	ctx, cancel := context.WithTimeout(ctx, pongTime)
	defer cancel()
	var b [8]byte
	n, from, err := socket.Recv(ctx, b[:])
	if err == nil && (n != 0 || from != host) {
		err = fmt.Errorf("pong of %d bytes from %v, want an empty one from %v", n, from, host)
	}
	return err
}

func (s *Server) send(ctx context.Context, t *task, a SendArgs) (any, error) {
	socket, err := s.socket(a.Socket)
	if err != nil {
		return nil, err
	}
	if a.Monitor {
		if err := socket.SetMonitor(true); err != nil {
			return nil, err
		}
		defer func() { _ = socket.SetMonitor(false) }()
	}
	var r SendResult
	g := newGenerator(a.Stream)
	for start := time.Now(); r.Messages < a.Stream.Count; {
		if err := pace(ctx, start, r.Messages, a.Rate); err != nil {
			return nil, err
		}
		if a.Try && a.PingEvery > 0 && r.Congested == 0 && r.Messages > 0 && r.Messages%a.PingEvery == 0 {
			if _, err := s.ping(ctx, PingArgs{Socket: a.Socket, To: a.To.Addr()}); err != nil {
				return nil, fmt.Errorf("ping after %d messages: %w", r.Messages, err)
			}
			r.Pings++
		}
		b := g.next()
		if err := sendOne(ctx, t, socket, a, b, &r); err != nil {
			return nil, fmt.Errorf("message %d of %d (%d bytes) to %v: %w", r.Messages, a.Stream.Count, len(b), a.To, err)
		}
		r.Messages++
		r.Bytes += int64(len(b))
		t.messages.Store(int64(r.Messages))
	}
	return r, nil
}

// pace waits until so many messages are due, or nearly: one timer a millisecond is enough.
func pace(ctx context.Context, start time.Time, messages, rate int) error {
	if rate == 0 {
		return nil
	}
	early := time.Until(start.Add(time.Duration(messages) * time.Second / time.Duration(rate)))
	if early < time.Millisecond {
		return nil
	}
	due := time.NewTimer(early)
	defer due.Stop()
	select {
	case <-due.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// sendOne sends one message. With Try it asks again and again while the send
// buffer is full, so that congestion is told from that: either may follow the other.
func sendOne(ctx context.Context, t *task, socket Socket, a SendArgs, b []byte, r *SendResult) error {
	if !a.Try {
		return socket.Send(ctx, a.To, b)
	}
	full := false
	for {
		err := socket.TrySend(a.To, b)
		switch {
		case errors.Is(err, syscall.EAGAIN):
			if !full {
				full = true
				r.Full++
			}
			select {
			case <-time.After(time.Millisecond):
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		case errors.Is(err, syscall.ENOBUFS):
			r.Congested++
			t.congested.Add(1)
			if !a.Monitor {
				return socket.Send(ctx, a.To, b)
			}
			if err := awaitNews(ctx, socket, a.To.Port()); err != nil { // any map counts as news: refusal is possible
				return err
			}
		default:
			return err
		}
	}
}

// awaitNews waits until the congestion monitor names a port.
func awaitNews(ctx context.Context, socket Socket, port uint16) error {
	for {
		bits, err := socket.RecvNews(ctx)
		if err != nil || bits&(1<<(port%64)) != 0 {
			return err
		}
	}
}

func (s *Server) recv(ctx context.Context, t *task, a RecvArgs) (any, error) {
	socket, err := s.socket(a.Socket)
	if err != nil {
		return nil, err
	}
	var r RecvResult
	g := newGenerator(a.Stream)
	check := g.check
	if a.AnyOrder {
		check = onceEach(a.Stream)
	}
	buf := make([]byte, MaxMessage+1) // a longer message shows
	for r.Messages < a.Stream.Count {
		n, from, err := socket.Recv(ctx, buf)
		if err != nil {
			return nil, fmt.Errorf("message %d of %d from %v: %w", r.Messages, a.Stream.Count, a.From, err)
		}
		if from != a.From {
			return nil, fmt.Errorf("message %d: from %v, want %v", r.Messages, from, a.From)
		}
		if err := check(buf[:n]); err != nil {
			return nil, err
		}
		r.Messages++
		r.Bytes += int64(n)
		t.messages.Store(int64(r.Messages))
	}
	return r, nil
}

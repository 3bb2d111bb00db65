package rdspeer

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	"github.com/rds-go/rds/rds"
	"github.com/rds-go/rds/test/interop/peer"
)

type stack struct{ provider rds.Provider }

// New returns the stack of a provider.
func New(p rds.Provider) peer.Stack { return stack{p} }

func (s stack) Bind(local netip.AddrPort, sendBuffer, receiveBuffer int) (peer.Socket, error) {
	sock, err := s.provider.Bind(local)
	if err != nil {
		return nil, err
	}
	if sendBuffer > 0 {
		err = sock.SetWriteBuffer(sendBuffer)
	}
	if receiveBuffer > 0 && err == nil {
		err = sock.SetReadBuffer(receiveBuffer)
	}
	if err != nil {
		_ = sock.Close()
		return nil, err
	}
	return socket{sock}, nil
}

func (s stack) Counters() (map[string]uint64, error) {
	info, err := s.provider.Info()
	m := make(map[string]uint64, len(info.Counters))
	for _, c := range info.Counters {
		m[c.Name] = c.Value
	}
	return m, err
}

func (s stack) State() (any, error) {
	info, err := s.provider.Info()
	info.SendQueue, info.Retransmit, info.Receive = first(info.SendQueue), first(info.Retransmit), first(info.Receive)
	return info, err
}

// first returns the head of a queue, enough to see what it waits for.
func first(list []rds.QueuedInfo) []rds.QueuedInfo { return list[:min(len(list), 20)] }

func (s stack) Links() ([]peer.Link, error) {
	info, err := s.provider.Info()
	links := make([]peer.Link, 0, len(info.TCP))
	for _, c := range info.TCP {
		links = append(links, peer.Link{Local: c.Local, Remote: c.Remote})
	}
	return links, err
}

// socket goes on when the daemon that its program is attached to is followed by another:
// what failed for that is done again.
type socket struct{ *rds.Socket }

func (s socket) Send(ctx context.Context, to netip.AddrPort, b []byte) error {
	for {
		if err := s.Socket.Send(ctx, to, b); !errors.Is(err, rds.ErrDaemonLost) || ctx.Err() != nil {
			return err
		}
	}
}

func (s socket) Recv(ctx context.Context, b []byte) (int, netip.AddrPort, error) {
	for {
		m, err := s.Socket.Recv(ctx)
		if errors.Is(err, rds.ErrDaemonLost) && ctx.Err() == nil {
			continue
		}
		if err != nil {
			return 0, netip.AddrPort{}, err
		}
		n, from, kind := copy(b, m.Data), m.From, m.Kind
		m.Release()
		if kind == rds.KindData {
			return n, from, nil
		}
	}
}

func (s socket) SetMonitor(on bool) error { return s.SetCongestionMonitor(on) }

func (s socket) RecvNews(ctx context.Context) (uint64, error) {
	m, err := s.Socket.Recv(ctx)
	if err != nil {
		return 0, err
	}
	defer m.Release()
	if m.Kind != rds.KindCongestion {
		return 0, fmt.Errorf("congestion news wanted, got %v", &m)
	}
	return m.Congestion, nil
}

package xrc

import (
	"context"
	"fmt"
	"net/netip"
	"syscall"
	"time"

	"github.com/rds-go/rds/xrc/objects"
)

// peerLocked finds or makes what is known of a pair of hosts, for a user. leaveLocked ends
// the use.
func (t *Transport) peerLocked(h hosts) *peer {
	p := t.peers[h]
	if p == nil {
		p = newPeer(t, h)
		t.peers[h] = p
	}
	p.users++
	return p
}

func (t *Transport) peer(h hosts) (*peer, error) {
	if !h.local.IsValid() || !h.remote.IsValid() || h.local == h.remote {
		return nil, fmt.Errorf("xrc: no connection from %v to %v: %w", h.local, h.remote, syscall.EADDRNOTAVAIL)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return nil, ErrClosed
	}
	return t.peerLocked(h), nil
}

func (t *Transport) leaveLocked(p *peer) {
	if p.users--; p.users == 0 {
		t.wake() // for forget
	}
}

func (t *Transport) leave(p *peer) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.leaveLocked(p)
}

// forget drops a peer that nothing is left of, and with the last of its addresses here what
// package rds/xrc/objects knows of the host.
func (t *Transport) forget(p *peer) {
	t.mu.Lock()
	if p.users > 0 || t.peers[p.hosts] != p || !p.idle() {
		t.mu.Unlock()
		return
	}
	paths := p.paths
	t.mu.Unlock()
	for _, x := range paths {
		if x != nil && !x.sweep() {
			return // waits for a connection, or its grace to end
		}
	}
	t.mu.Lock()
	if p.users > 0 || t.peers[p.hosts] != p || !p.idle() {
		t.mu.Unlock()
		return
	}
	delete(t.peers, p.hosts)
	last := true
	for h := range t.peers {
		last = last && h.remote != p.remote
	}
	if last {
		t.objects.Forget(p.remote) // with the lock, so that no link begins meanwhile
	}
	t.mu.Unlock()
}

func (t *Transport) peersLocked() []*peer {
	list := make([]*peer, 0, len(t.peers))
	for _, p := range t.peers {
		list = append(list, p)
	}
	return list
}

func (t *Transport) allPeers() []*peer {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.peersLocked()
}

// between names a pair of hosts. A local address that is not valid is the first one of
// Options.Addresses that fits.
func (t *Transport) between(local, remote netip.Addr) hosts {
	remote = remote.Unmap()
	if local = local.Unmap(); !local.IsValid() {
		for _, a := range t.opts.Addresses {
			if a.Is4() == remote.Is4() {
				return hosts{a, remote}
			}
		}
	}
	return hosts{local, remote}
}

// Resolve asks the transport at remote for the queue behind a service. It makes no connection
// and holds nothing there. A refusal is a *StatusError.
func (t *Transport) Resolve(ctx context.Context, local, remote netip.Addr, service uint64) (objects.Answer, error) {
	p, err := t.peer(t.between(local, remote))
	if err != nil {
		return objects.Answer{}, err
	}
	defer t.leave(p)
	return p.resolve(ctx, service)
}

// wake has maintain look at the time again.
func (t *Transport) wake() {
	select {
	case t.poke <- struct{}{}:
	default:
	}
}

// maintain does what time brings: the end of grace, questions whether queue pairs are alive,
// the end of what is known of peers.
func (t *Transport) maintain() {
	timer := time.NewTimer(t.opts.Interval)
	defer timer.Stop()
	round := t.now().Add(t.opts.Interval)
	for {
		select {
		case <-t.ctx.Done():
			return
		case <-t.poke:
		case <-timer.C:
		}
		now := t.now()
		next := t.objects.Expire(now)
		if at := t.watchAll(now); !at.IsZero() && (next.IsZero() || at.Before(next)) {
			next = at
		}
		ask := !now.Before(round)
		if ask {
			round = now.Add(t.opts.Interval)
		}
		for _, p := range t.allPeers() {
			p.sweep()
			if p.hurries() || ask {
				p.look(now)
			}
			t.forget(p)
		}
		at := round
		if !next.IsZero() && next.Before(at) {
			at = next
		}
		timer.Reset(max(at.Sub(now), time.Millisecond))
	}
}

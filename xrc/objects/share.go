package objects

import "net/netip"

// Shares bound what all sessions of one user have together, of what the daemon has but once. 0: nothing
// bounds it.
type Shares struct {
	Files   int // domains of files that they have made, each of which keeps a descriptor
	Targets int // targets that count against their limits
}

// share is what the sessions of a user have; under Device.mu. It is there as long as something counts.
type share struct {
	dev      *Device
	user     User
	sessions int
	files    int
	targets  int
}

// joinLocked counts a session of a user.
func (d *Device) joinLocked(u User) *share {
	h := d.shareLocked(&share{dev: d, user: u})
	h.sessions++
	return h
}

// shareLocked is what counts for the user of h, which may have been forgotten: h itself, or its successor.
func (d *Device) shareLocked(h *share) *share {
	if now := d.shares[h.user]; now != nil {
		return now
	}
	d.shares[h.user] = h
	return h
}

func (h *share) leaveLocked() {
	h.sessions--
	h.settleLocked()
}

// settleLocked forgets a user who has nothing.
func (h *share) settleLocked() {
	if h.sessions+h.files+h.targets == 0 {
		delete(h.dev.shares, h.user)
	}
}

// mayLocked tells whether a session may have one more of something, of which its user has n.
func (s *Session) mayLocked(n, most int) error {
	if most > 0 && n >= most && !s.unbound {
		return ErrShare
	}
	return nil
}

// countLocked counts n targets, 1 or -1, that the session has made for nobody, or for a peer's initiator.
func (s *Session) countLocked(n int, peer netip.Addr) {
	if n > 0 {
		s.share = s.dev.shareLocked(s.share)
	}
	s.used.Targets += n
	s.share.targets += n
	s.share.settleLocked()
	if !peer.IsValid() {
		return
	}
	if s.peers == nil {
		s.peers = make(map[netip.Addr]int)
	}
	if s.peers[peer] += n; s.peers[peer] == 0 {
		delete(s.peers, peer)
	}
}

// servesLocked tells whether one more target may be made for a host: no host has more of a session's than it
// leaves free, so that there is something for the next one.
func (s *Session) servesLocked(peer netip.Addr) bool {
	return s.peers[peer] < max(1, s.limits.Targets-s.used.Targets)
}

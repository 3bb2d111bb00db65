package mr

import (
	"time"

	"github.com/rds-go/rds/internal/lockorder"
)

// guard paces the look-ups of keys that a peer is not known to have, so that keys
// cannot be guessed: each look-up costs a token of the peer and one of the device.
// Readers take them in sections; the lock is a leaf and held for some instructions.
type guard struct {
	peer, all time.Duration // time in which a token grows, of a peer and of the device; 0: no pace

	mu lockorder.Mutex[guard]
	// Under mu. A peer whose bucket is full has no entry.
	began  time.Time
	device tokens
	peers  map[Peer]tokens
}

// tokens is a bucket that holds those of one second at most: the time at which it will
// be full, counted from guard.began.
type tokens time.Duration

const bucketDepth = time.Second

// take is the bucket with a token less, false if there is none.
func (t tokens) take(now, every time.Duration) (tokens, bool) {
	full := max(time.Duration(t), now) + every
	return tokens(full), full <= now+bucketDepth
}

// idlePeers is how many peers are kept before those with full buckets are looked for. No
// more than twice as many as the device has tokens a second are not full.
const idlePeers = 4096

func (g *guard) init(c *Config) {
	if c.PeerLookUps <= 0 || c.LookUps <= 0 {
		return
	}
	g.peer, g.all = time.Second/time.Duration(c.PeerLookUps), time.Second/time.Duration(c.LookUps)
	g.began, g.peers = time.Now(), make(map[Peer]tokens)
}

// off tells whether every look-up is free.
func (g *guard) off() bool { return g.peer == 0 }

// take takes a token of the peer's and one of the device's, or none.
func (g *guard) take(p Peer) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := time.Since(g.began)
	peer, ok := g.peers[p].take(now, g.peer)
	if !ok {
		return false
	}
	device, ok := g.device.take(now, g.all)
	if !ok {
		return false
	}
	if len(g.peers) >= idlePeers {
		for q, t := range g.peers {
			if time.Duration(t) <= now {
				delete(g.peers, q)
			}
		}
	}
	g.peers[p], g.device = peer, device
	return true
}

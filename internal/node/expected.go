package node

import "github.com/rds-go/rds/internal/statefile"

// A port that a socket of the predecessor had, and nobody has bound yet, is expected:
// peers hear that it is congested, and on XRC that it is full before they are granted
// anything. What comes for it nevertheless, because its sender does not look at that, is
// received by a keeper: a socket of nobody, whose queue the port's next owner takes over.
// It is bounded as any socket's. Nobody may come, and the daemon may be killed before, so
// that its sender is told at once that the fate is not known.

// expected tells whether a socket of the predecessor had the port and the one that is
// to follow it has not come yet.
func (l *Local) expected(port uint16) bool {
	if l.expecting.Load() == 0 {
		return false
	}
	l.Mu.Lock()
	defer l.Mu.Unlock()
	return l.expectedLocked(port)
}

func (l *Local) expectedLocked(port uint16) bool {
	_, ok := l.expect[port]
	return ok
}

func (l *Local) expectLocked(port uint16, had *statefile.Owner) {
	if l.expect == nil {
		l.expect = make(map[uint16]*statefile.Owner)
	}
	l.expect[port] = had
	l.expecting.Store(int32(len(l.expect)))
}

// meetLocked ends the wait for a port and returns how many were waited for.
func (l *Local) meetLocked(port uint16) int {
	if !l.expectedLocked(port) {
		return 0
	}
	delete(l.expect, port)
	delete(l.Keepers, port)
	l.expecting.Store(int32(len(l.expect)))
	return 1
}

// keeper is the socket that receives for an expected port, nil if the port is not
// expected.
func (l *Local) keeper(n *Node, port uint16) *Socket {
	if l.expecting.Load() == 0 {
		return l.lookup(port) // the port may have been bound a moment ago
	}
	l.Mu.Lock()
	defer l.Mu.Unlock()
	if !l.expectedLocked(port) {
		return l.lookup(port)
	}
	k := l.Keepers[port]
	if k == nil {
		k = newSocket(n, l)
		k.Port, k.keeps = port, true
		if l.Keepers == nil {
			l.Keepers = make(map[uint16]*Socket)
		}
		l.Keepers[port] = k
	}
	return k
}

// lockKeeper locks l.mu and, before it, the queue of the keeper of port, if there is one.
func (l *Local) lockKeeper(port uint16) *Socket {
	for {
		l.Mu.Lock()
		k := l.Keepers[port]
		if k == nil {
			return nil
		}
		l.Mu.Unlock()
		k.Queue.Mu.Lock()
		l.Mu.Lock()
		if l.Keepers[port] == k {
			return k
		}
		l.Mu.Unlock()
		k.Queue.Mu.Unlock()
	}
}

// inherit moves what a keeper, whose queue is locked, has received to s, which nobody
// can find yet. Receivers that have the keeper at hand look the port up again.
func (s *Socket) inherit(k *Socket) {
	k.Queue.RetireLocked()
	bytes, count := int64(0), int64(0)
	for _, it := range k.Queue.In {
		s.Queue.PushLocked(it)
		s.Owner.PlacedLocked(it.Buf)
		s.Owner.Heard(it.Peer)
		bytes += int64(it.Length)
		count++
	}
	s.Queue.InDest = k.Queue.InDest
	s.Queue.Bytes.Add(bytes)
	s.Queue.Count.Add(count)
	s.Owner.Received(bytes, count)
	k.Queue.In, k.Queue.InDest, k.Queue.Closed = nil, nil, true
	k.Closed.Store(true)
}

// giveUp ends the wait for all ports. It returns how many there were, and how many
// messages had come for them.
func (l *Local) giveUp() (ports, dropped int) {
	l.Mu.Lock()
	keepers := l.Keepers
	ports = len(l.expect)
	l.expect, l.Keepers = nil, nil
	l.expecting.Store(0)
	l.Mu.Unlock()
	for _, k := range keepers {
		k.Closed.Store(true)
		dropped += k.Queue.Drop()
		l.waiters.ended(k)
	}
	return ports, dropped
}

package rds

// A port that a socket of the predecessor had, and nobody has bound yet, is expected:
// peers hear that it is congested, and on XRC that it is full before they are granted
// anything. What comes for it nevertheless, because its sender does not look at that, is
// received by a keeper: a socket of nobody, whose queue the port's next owner takes over.
// It is bounded as any socket's. Nobody may come, and the daemon may be killed before, so
// that its sender is told at once that the fate is not known.

// expected tells whether a socket of the predecessor had the port and the one that is
// to follow it has not come yet.
func (l *localAddr) expected(port uint16) bool {
	if l.expecting.Load() == 0 {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.expectedLocked(port)
}

func (l *localAddr) expectedLocked(port uint16) bool {
	_, ok := l.expect[port]
	return ok
}

func (l *localAddr) expectLocked(port uint16) {
	if l.expect == nil {
		l.expect = make(map[uint16]struct{})
	}
	l.expect[port] = struct{}{}
	l.expecting.Store(int32(len(l.expect)))
}

// meetLocked ends the wait for a port and returns how many were waited for.
func (l *localAddr) meetLocked(port uint16) int {
	if !l.expectedLocked(port) {
		return 0
	}
	delete(l.expect, port)
	delete(l.keepers, port)
	l.expecting.Store(int32(len(l.expect)))
	return 1
}

// keeper is the socket that receives for an expected port, nil if the port is not
// expected.
func (l *localAddr) keeper(n *Node, port uint16) *nodeSocket {
	if l.expecting.Load() == 0 {
		return l.lookup(port) // the port may have been bound a moment ago
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.expectedLocked(port) {
		return l.lookup(port)
	}
	k := l.keepers[port]
	if k == nil {
		k = newNodeSocket(n, l)
		k.port, k.keeps = port, true
		if l.keepers == nil {
			l.keepers = make(map[uint16]*nodeSocket)
		}
		l.keepers[port] = k
	}
	return k
}

// lockKeeper locks l.mu and, before it, the queue of the keeper of port, if there is one.
func (l *localAddr) lockKeeper(port uint16) *nodeSocket {
	for {
		l.mu.Lock()
		k := l.keepers[port]
		if k == nil {
			return nil
		}
		l.mu.Unlock()
		k.q.mu.Lock()
		l.mu.Lock()
		if l.keepers[port] == k {
			return k
		}
		l.mu.Unlock()
		k.q.mu.Unlock()
	}
}

// inherit moves what a keeper, whose queue is locked, has received to s, which nobody
// can find yet. Receivers that have the keeper at hand look the port up again.
func (s *nodeSocket) inherit(k *nodeSocket) {
	k.q.retireLocked()
	bytes, count := int64(0), int64(0)
	for _, it := range k.q.in {
		s.q.pushLocked(it)
		s.owner.placedLocked(it.buf)
		s.owner.heard(it.peer)
		bytes += int64(it.length)
		count++
	}
	s.q.inDest = k.q.inDest
	s.q.bytes.Add(bytes)
	s.q.count.Add(count)
	s.owner.received(bytes, count)
	k.q.in, k.q.inDest, k.q.closed = nil, nil, true
	k.closed.Store(true)
}

// giveUp ends the wait for all ports. It returns how many there were, and how many
// messages had come for them.
func (l *localAddr) giveUp() (ports, dropped int) {
	l.mu.Lock()
	keepers := l.keepers
	ports = len(l.expect)
	l.expect, l.keepers = nil, nil
	l.expecting.Store(0)
	l.mu.Unlock()
	for _, k := range keepers {
		k.closed.Store(true)
		dropped += k.q.drop()
		l.waiters.ended(k)
	}
	return ports, dropped
}

package rds

import "sync"

// monitor is the state of RDS_CONG_MONITOR (net/rds/cong.c): bits of ports a
// send was refused for, and of those that may be free again.
type monitor struct {
	mu     sync.Mutex
	waited uint64
	notify uint64
}

// congestionNews tells the socket that a congestion map has arrived: over TCP
// any map counts as news for every port waited for (net/rds/tcp_recv.c,
// rds_tcp_cong_recv).
func (s *inbox) congestionNews() {
	m := s.monitor.Load()
	if m == nil {
		return
	}
	m.mu.Lock()
	m.notify |= m.waited
	m.waited = 0
	some := m.notify != 0
	m.mu.Unlock()
	if some {
		s.readers.wake(1)
	}
}

// takeNews returns and clears the bits to report.
func (s *inbox) takeNews(peek bool) uint64 {
	m := s.monitor.Load()
	if m == nil {
		return 0
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	bits := m.notify
	if !peek {
		m.notify = 0
	}
	return bits
}

// refused notes a non-blocking send that met congestion.
func (s *inbox) refused(port uint16) {
	if m := s.monitor.Load(); m != nil {
		m.mu.Lock()
		m.waited |= 1 << (port & 63)
		m.mu.Unlock()
	}
}

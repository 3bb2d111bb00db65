package socket

import "github.com/rds-go/rds/internal/lockorder"

// Monitor is the state of RDS_CONG_MONITOR (net/rds/cong.c): bits of ports a
// send was refused for, and of those that may be free again.
type Monitor struct {
	Mu     lockorder.Mutex[Monitor]
	waited uint64
	Notify uint64
}

// CongestionNews tells the socket that a congestion map has arrived: over TCP
// any map counts as news for every port waited for (net/rds/tcp_recv.c,
// rds_tcp_cong_recv).
func (s *Inbox) CongestionNews() {
	m := s.Monitor.Load()
	if m == nil {
		return
	}
	m.Mu.Lock()
	m.Notify |= m.waited
	m.waited = 0
	some := m.Notify != 0
	m.Mu.Unlock()
	if some {
		s.Readers.Wake(1)
	}
}

// takeNews returns and clears the bits to report.
func (s *Inbox) takeNews(peek bool) uint64 {
	m := s.Monitor.Load()
	if m == nil {
		return 0
	}
	m.Mu.Lock()
	defer m.Mu.Unlock()
	bits := m.Notify
	if !peek {
		m.Notify = 0
	}
	return bits
}

// Refused notes a non-blocking send that met congestion.
func (s *Inbox) Refused(port uint16) {
	if m := s.Monitor.Load(); m != nil {
		m.Mu.Lock()
		m.waited |= 1 << (port & 63)
		m.Mu.Unlock()
	}
}

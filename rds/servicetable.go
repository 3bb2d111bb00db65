package rds

import (
	"go.uber.org/zap"

	"github.com/rds-go/rds/internal/ipc"
	"github.com/rds-go/rds/internal/wire"
	"github.com/rds-go/rds/transport/choice"
)

// show puts a connection into the table.
func (s *Service) show(p *peer) {
	if p.index < ipc.MaxPeers {
		if err := s.table.SetPeer(int(p.index), p.local.addr, p.remote); err != nil {
			s.log.Warn("a peer that applications cannot reach", zap.Stringer("peer", p.remote), zap.Error(err))
			return
		}
		s.showDown(p)
	}
}

// shows tells whether the table has a connection: it has not ended, nor is there another
// one in its slot.
func (s *Service) shows(p *peer) bool { return p.index < ipc.MaxPeers && s.node.peerAt(p.index) == p }

// hide takes a connection that has ended out of the table.
func (s *Service) hide(p *peer) {
	if p.index < ipc.MaxPeers {
		s.table.ClearPeer(int(p.index))
	}
}

// slots are the generations of the slots of the table.
func (s *Service) slots() []uint32 {
	s.node.mu.RLock()
	defer s.node.mu.RUnlock()
	return s.table.Slots()
}

// showDown puts into the table whether there is no link to a peer, and whether there may
// be one. Of two calls at once
// the later one says what is.
func (s *Service) showDown(p *peer) {
	if s.shows(p) {
		p.sharesMu.Lock()
		s.table.SetDown(int(p.index), p.down.Load(), p.barred.Load())
		p.sharesMu.Unlock()
	}
}

// showMap puts what ports of a connection, which the caller has locked, take no
// messages into the table.
func (s *Service) showMap(p *peer) {
	if s.shows(p) {
		m := p.Core.RefusedPorts()
		if m == nil {
			m = new(wire.CongestionMap)
		}
		s.table.SetMap(int(p.index), m)
	}
}

// showCarriage puts what the links of a connection carry, which the caller has
// locked, into the table.
func (s *Service) showCarriage(p *peer) {
	if s.shows(p) {
		s.table.SetCarriage(int(p.index), [...]ipc.Carriage{undecided: ipc.CarriesUnknown, plain: ipc.CarriesMessages, operators: ipc.CarriesOperations}[p.carries])
	}
}

// retire takes the connection of a slot out whose number applications were told of.
func (s *Service) retire(slot uint32) { s.table.RetirePeer(int(slot)) }

// forget has sessions forget slots whose peers have ended.
func (s *Service) forget(ended *slotSet) {
	for _, x := range s.all() {
		x.forget(ended)
	}
}

// showServer puts what serves a peer into the table.
func (s *Service) showServer(p *peer) {
	if !s.shows(p) {
		return
	}
	s.serverMu.Lock() // serialises changes, so that the table shows the later one last
	defer s.serverMu.Unlock()
	server := ipc.ServerAny
	if c, ok := s.node.via(p.remote).(*choice.Transport); ok {
		server = ipc.ServerOf(c.Chosen(p.local.addr, p.remote))
	}
	s.table.SetServer(int(p.index), server)
}

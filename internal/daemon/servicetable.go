package daemon

import (
	"go.uber.org/zap"

	"github.com/rds-go/rds/internal/ipc"
	"github.com/rds-go/rds/internal/node"
	"github.com/rds-go/rds/internal/wire"
)

// Show puts a connection into the table.
func (s *Service) Show(p *node.Peer) {
	if p.Index < ipc.MaxPeers {
		if err := s.table.SetPeer(int(p.Index), p.Local.Addr, p.Remote); err != nil {
			s.log.Warn("a peer that applications cannot reach", zap.Stringer("peer", p.Remote), zap.Error(err))
			return
		}
		s.ShowDown(p)
	}
}

// shows tells whether the table has a connection: it has not ended, nor is there another
// one in its slot.
func (s *Service) shows(p *node.Peer) bool {
	return p.Index < ipc.MaxPeers && s.node.PeerAt(p.Index) == p
}

// Hide takes a connection that has ended out of the table.
func (s *Service) Hide(p *node.Peer) {
	if p.Index < ipc.MaxPeers {
		s.table.ClearPeer(int(p.Index))
	}
}

// slots are the generations of the slots of the table.
func (s *Service) slots() []uint32 {
	s.node.Mu.RLock()
	defer s.node.Mu.RUnlock()
	return s.table.Slots()
}

// ShowDown puts into the table whether there is no link to a peer, and whether there may
// be one. Of two calls at once
// the later one says what is.
func (s *Service) ShowDown(p *node.Peer) {
	if s.shows(p) {
		p.SharesMu.Lock()
		s.table.SetDown(int(p.Index), p.Down.Load(), p.Barred.Load())
		p.SharesMu.Unlock()
	}
}

// ShowMap puts what ports of a connection, which the caller has locked, take no
// messages into the table.
func (s *Service) ShowMap(p *node.Peer) {
	if s.shows(p) {
		m := p.Core.RefusedPorts()
		if m == nil {
			m = new(wire.CongestionMap)
		}
		s.table.SetMap(int(p.Index), m)
	}
}

// ShowLongest puts how long messages to a peer, whose connection the caller has locked, may be into
// the table.
func (s *Service) ShowLongest(p *node.Peer) {
	if s.shows(p) {
		s.table.SetLongest(int(p.Index), p.Core.Longest())
	}
}

// ShowCarriage puts what the links of a connection carry, which the caller has
// locked, into the table.
func (s *Service) ShowCarriage(p *node.Peer) {
	if s.shows(p) {
		s.table.SetCarriage(int(p.Index), [...]ipc.Carriage{node.Undecided: ipc.CarriesUnknown, node.Plain: ipc.CarriesMessages, node.Operators: ipc.CarriesOperations}[p.Carries])
	}
}

// Retire takes the connection of a slot out whose number applications were told of.
func (s *Service) Retire(slot uint32) { s.table.RetirePeer(int(slot)) }

// Forget has sessions forget slots whose peers have ended.
func (s *Service) Forget(ended *node.SlotSet) {
	for _, x := range s.all() {
		x.forget(ended)
	}
}

// ShowServer puts what serves a peer into the table.
func (s *Service) ShowServer(p *node.Peer) {
	if !s.shows(p) {
		return
	}
	s.serverMu.Lock() // serialises changes, so that the table shows the later one last
	defer s.serverMu.Unlock()
	server := ipc.ServerAny
	if c := s.node.Choosing(p.Remote); c != nil {
		server = ipc.ServerOf(c.Chosen(p.Local.Addr, p.Remote))
	}
	s.table.SetServer(int(p.Index), server)
}

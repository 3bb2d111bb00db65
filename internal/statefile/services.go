package statefile

import (
	"encoding/binary"
	"maps"
)

// HeldService is a service id of XRC that an owner has.
type HeldService struct {
	id    uint64
	slot  int
	owner *Owner
}

// Owner is whose the service id is.
func (h *HeldService) Owner() *Owner { return h.owner }

// maxServicesOfUser leaves room for the service ids of others.
const maxServicesOfUser = maxServices / 4

const serviceUsed = 1 << 63

// HoldService notes that an owner has a service id; nil: this process. What it returns is for
// FreeService, and is nil if the file has no room, or the user has more than a share of it.
func (s *File) HoldService(id uint64, o *Owner) *HeldService {
	s.mu.Lock()
	defer s.mu.Unlock()
	if o = s.ownerOrSelfLocked(o); o.slot < 0 {
		return nil
	}
	if before := s.services[id]; before != nil {
		s.freeServiceLocked(before)
	}
	of := 0
	for _, h := range s.services {
		if h.owner.UID == o.UID {
			of++
		}
	}
	if of >= maxServicesOfUser {
		return nil
	}
	slot := s.serviceSlots.take(func(slot int) bool { return s.roomLocked(offServices+slot*serviceSize, serviceSize) })
	if slot < 0 {
		return nil
	}
	h := &HeldService{id, slot, o}
	s.services[id] = h
	o.ports++
	s.storeLocked(offServices+slot*serviceSize, id)
	s.storeLocked(offServices+slot*serviceSize+8, serviceUsed|uint64(o.slot))
	return h
}

// FreeService notes that nobody has the service id any more, unless somebody has got it since.
func (s *File) FreeService(h *HeldService) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if h != nil && s.services[h.id] == h {
		s.freeServiceLocked(h)
	}
}

func (s *File) freeServiceLocked(h *HeldService) {
	delete(s.services, h.id)
	s.storeLocked(offServices+h.slot*serviceSize+8, 0)
	s.serviceSlots.give(h.slot)
	h.owner.ports--
	s.forgetOwnerLocked(h.owner)
}

// Services are the service ids that the file has.
func (s *File) Services() map[uint64]*HeldService {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.services)
}

func (s *File) readServicesLocked() error {
	b, err := s.readAt(offServices, maxServices*serviceSize)
	if err != nil {
		return err
	}
	for i := range maxServices {
		id, w := binary.NativeEndian.Uint64(b[i*serviceSize:]), binary.NativeEndian.Uint64(b[i*serviceSize+8:])
		if w&serviceUsed == 0 {
			continue
		}
		s.serviceSlots.skipTo(i)
		o := s.inSlots[int(w&0xffff)]
		if o == nil || s.services[id] != nil {
			s.serviceSlots.give(i)
			continue
		}
		s.services[id] = &HeldService{id, i, o}
		o.ports++
	}
	return s.provideLocked(offServices, s.serviceSlots.used*serviceSize)
}

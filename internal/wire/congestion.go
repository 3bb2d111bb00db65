package wire

// CongestionMapSize is the payload length of a congestion map: one bit for
// each of the 65,536 ports of the sender's address.
const CongestionMapSize = 8192

// CongestionMap has a bit for each port, set while the port is congested.
// Port p is bit p mod 8, counted from the least significant one, of byte p/8.
type CongestionMap [CongestionMapSize]byte

// Set marks port p congested and tells whether that changed anything.
func (m *CongestionMap) Set(p uint16) bool {
	old := m[p>>3]
	m[p>>3] = old | 1<<(p&7)
	return m[p>>3] != old
}

// Clear marks port p uncongested and tells whether that changed anything.
func (m *CongestionMap) Clear(p uint16) bool {
	old := m[p>>3]
	m[p>>3] = old &^ (1 << (p & 7))
	return m[p>>3] != old
}

// Congested tells whether port p is marked.
func (m *CongestionMap) Congested(p uint16) bool { return m[p>>3]&(1<<(p&7)) != 0 }

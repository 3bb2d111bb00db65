package iwarp

import (
	"github.com/rds-go/rds/transport/iwarp/rdmap"
)

// probe shows that the stream is alive and that all before was taken: it reads
// n bytes of the region.
func (p *raw) probe(m *MR, off, n int) []byte {
	p.t.Helper()
	p.send(p.read(rdmap.ReadRequest{SinkSTag: 9, SinkTO: 1 << 33, Size: uint32(n), SourceSTag: uint32(m.Key()), SourceTO: m.Base() + uint64(off)}))
	var b []byte
	for {
		s := p.segment(rdmap.OpReadResponse)
		if s.Tagged.STag != 9 || s.Tagged.TO != 1<<33+uint64(len(b)) {
			p.t.Fatalf("response to %+v after %d bytes", s.Tagged, len(b))
		}
		b = append(b, s.Payload...)
		if s.Tagged.Last {
			return b
		}
	}
}

package bench

import (
	"bytes"
	"context"
	"fmt"

	"github.com/rds-go/rds/rds"
)

// exposePlaces exposes the region of a server's socket, and another that is not
// to be written.
func (v *service) exposePlaces(s *rds.Socket, w *Work) ([]byte, error) {
	var keys turmoilKeys
	m, err := s.AllocMemory(w.regionBytes())
	if err != nil {
		return nil, err
	}
	if keys.Region, err = s.GetMR(m.B, rds.MRReadWrite); err != nil {
		return nil, err
	}
	ro, err := s.AllocMemory(w.regionBytes())
	if err != nil {
		return nil, err
	}
	if keys.ReadOnly, err = s.GetMR(ro.B, rds.MRReadOnly); err != nil {
		return nil, err
	}
	v.keys = append(v.keys, keys)
	v.words = append(v.words, m.B[w.sharedAt():])
	return m.B[:w.sharedAt()], nil
}

// turmoilRDS verifies messages, and what was written before each of them, and
// answers.
func turmoilRDS(s *rds.Socket, w *Work, places []byte, t *tally) error {
	v := newVerifier(s.LocalAddrPort(), kindRequest)
	v.gaps = w.Faults
	reply := make([]byte, w.Reply)
	want := make([]byte, w.placeSize())
	for {
		m, err := s.Recv(context.Background())
		if err != nil {
			return err
		}
		err = v.check(m.From, m.Data)
		if err == nil {
			n := unpackNote(stampOf(m.Data))
			if n.kind == turnBad || n.place >= w.places() || n.off+n.n > w.placeSize() {
				err = fmt.Errorf("verify: message from %v says %+v", m.From, n)
			} else if n.kind == turnWrite {
				fillPattern(want[:n.n], pattern(m.From, v.local, uint64(n.gen), kindWritten))
				if got := places[n.place*w.placeSize()+n.off:][:n.n]; !bytes.Equal(got, want[:n.n]) {
					err = fmt.Errorf("verify: %d bytes at %d of place %d are not what %v wrote before its message", n.n, n.off, n.place, m.From)
				}
			}
		}
		if err != nil {
			m.Release()
			return err
		}
		v.fill(reply, m.From, kindReply)
		copy(reply[numberEnd:stampEnd], m.Data[numberEnd:stampEnd])
		to := m.From
		m.Release()
		t.add(1)
		if err := s.Send(context.Background(), to, reply); err != nil {
			return err
		}
	}
}

package bench

import (
	"context"
	"errors"
	"fmt"

	"github.com/rds-go/rds/rds"
)

// Bounds of a Fetch.
const (
	fetchBlocks = 128 // blocks that the server has
	fetchBatch  = 32  // requests in a SendBatch: as many as have been answered
	fetchDepth  = 128 // outstanding requests
	fetchSize   = 8 << 10
)

// rdsFetcher fetches blocks by messages that offer memory. The server writes the
// block there and replies by the same message.
type rdsFetcher struct {
	fetches
	s    *rds.Socket
	mem  *rds.Memory // a ring: the n-th fetch has the n-th place modulo Depth
	keys []rds.Cookie
	out  []rds.Outgoing
	bufs [][stampEnd]byte
	ms   []rds.Message
}

func (c *cell) newRDSFetcher(l *loop) (_ port, _ func(), err error) {
	s, end, err := c.bind()
	if err != nil {
		return nil, nil, err
	}
	w := c.work
	r := &rdsFetcher{fetches: newFetches(l, c.work), s: s, out: make([]rds.Outgoing, w.Batch), bufs: make([][stampEnd]byte, w.Batch), ms: make([]rds.Message, w.Batch)}
	if r.mem, err = s.AllocMemory(w.Depth * w.Size); err != nil {
		end()
		return nil, nil, err
	}
	for i := range w.Depth {
		k, err := s.GetMR(r.place(uint64(i)), rds.MRReadWrite)
		if err != nil {
			end()
			return nil, nil, err
		}
		r.keys = append(r.keys, k)
	}
	for i := range r.out {
		r.out[i] = rds.Outgoing{To: c.addrs[0], Data: r.bufs[i][:], HasDest: true}
	}
	return r, func() { end(); r.mem.Release() }, nil // regions end with their socket
}

func (f *rdsFetcher) place(n uint64) []byte {
	return f.mem.B[int(n%uint64(f.w.Depth))*f.w.Size:][:f.w.Size:f.w.Size]
}

func (f *rdsFetcher) ask(n int, now int64) (int, error) {
	n = min(n, len(f.out))
	for i := range n {
		k := f.start(now)
		putNumber(f.bufs[i][:], block(f.w, k))
		f.out[i].Dest = f.keys[k%uint64(len(f.keys))]
	}
	_, err := f.s.SendBatch(context.Background(), f.out[:n])
	return n, err
}

func (f *rdsFetcher) answers() (int, error) {
	n, err := f.s.RecvBatch(context.Background(), f.ms)
	now := clock()
	for i := range f.ms[:n] {
		m := &f.ms[i]
		if got, want := numberOf(m.Data), block(f.w, f.ended); len(m.Data) != stampEnd || got != want {
			err = errors.Join(err, fmt.Errorf("reply for block %d came where %d was due", got, want))
		}
		if e := f.end(f.place(f.ended), now); e != nil {
			err = e
		}
		m.Release()
	}
	return n, err
}

// fetchedRDS is the server of a Fetch. Its blocks do not change, so it asks for no
// fates.
func fetchedRDS(s *rds.Socket, w *Work) error {
	blocks, err := s.AllocMemory(w.blocks() * w.Size)
	if err != nil {
		return err
	}
	fillBlocks(blocks.B, w.Size)
	defer blocks.Release()
	ops := make([]rds.RDMA, fetchDepth)
	pieces := make([][1][]byte, fetchDepth)
	return answer(s, fetchDepth, func(i int, m *rds.Message, out *rds.Outgoing) error {
		at := int(numberOf(m.Data)%uint64(w.blocks())) * w.Size
		pieces[i][0] = blocks.B[at:][:w.Size]
		ops[i] = rds.RDMA{Cookie: m.Dest, Local: pieces[i][:], Write: true}
		out.Data, out.RDMA = m.Data, &ops[i]
		return nil
	})
}

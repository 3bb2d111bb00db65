//go:build live

package daemon

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"testing"

	"github.com/rds-go/rds/internal/rdstest"
	"github.com/rds-go/rds/internal/socket"
	"github.com/rds-go/rds/rds/config"
	"github.com/rds-go/rds/rds/datagram"
)

// BenchmarkFetch asks for blocks of 8 KiB, 32 at a time, which the peer writes
// into memory that was exposed to it, each with an answer behind it. The sockets
// are those of two nodes, or of applications at two daemons, all in this process.
func BenchmarkFetch(b *testing.B) {
	const size, depth = 8 << 10, 32
	for _, x := range []struct {
		name     string
		attached bool
	}{{"node", false}, {"rdsd", true}} {
		b.Run(x.name, func(b *testing.B) {
			l := newLab(b)
			socket := func() *socket.Socket {
				n := l.node(config.Node{Wire: config.WireXRC})
				if !x.attached {
					return l.bind(n)
				}
				_, path := serving(b, n, config.Service{})
				return bound(b, dialed(b, path), rdstest.AddrOf(rdstest.NewAddr(), 4000))
			}
			asks, serves := socket(), socket()
			mem := lent(b, asks, depth*size)
			c := rdstest.MustGetMR(b, asks, mem, 0)
			blocks := lent(b, serves, config.MaxMessage)
			served := make(chan error, 1)
			go func() { served <- serveBlocks(serves, blocks, size) }()
			b.SetBytes(size)
			b.ReportAllocs()
			ctx := rdstest.Background(b)
			sent, got := 0, 0
			out, ms := make([]datagram.Outgoing, depth), make([]datagram.Message, depth)
			var slots [depth]int // free ones
			for i := range slots {
				slots[i] = i
			}
			free := slots[:]
			var requests [depth][4]byte
			b.ResetTimer()
			for got < b.N {
				out = out[:0]
				for len(free) > 0 && sent < b.N {
					slot := free[0]
					free = free[1:]
					binary.BigEndian.PutUint32(requests[slot][:], uint32(slot))
					out = append(out, datagram.Outgoing{To: serves.LocalAddrPort(), Data: requests[slot][:], HasDest: true, Dest: c})
					sent++
				}
				if _, err := asks.SendBatch(ctx, out); err != nil {
					b.Fatal(err)
				}
				n, err := asks.RecvBatch(ctx, ms)
				rdstest.Must(b, err)
				free = slots[:0]
				for i := range n {
					free = append(free, int(binary.BigEndian.Uint32(ms[i].Data)))
					ms[i].Release()
				}
				got += n
			}
			b.StopTimer()
			_ = serves.Close()
			if err := <-served; !errors.Is(err, net.ErrClosed) {
				b.Error(err)
			}
		})
	}
}

// serveBlocks writes the blocks that are asked for.
func serveBlocks(s *socket.Socket, blocks []byte, size int) error {
	ctx := context.Background()
	ms, out, ops := make([]datagram.Message, 64), make([]datagram.Outgoing, 64), make([]datagram.RDMA, 64)
	local := make([][1][]byte, 64)
	for {
		n, err := s.RecvBatch(ctx, ms)
		if err != nil {
			return err
		}
		for i := range n {
			slot := int(binary.BigEndian.Uint32(ms[i].Data))
			local[i][0] = blocks[slot*size : (slot+1)*size]
			ops[i] = datagram.RDMA{Cookie: ms[i].Dest, Offset: uint64(slot * size), Local: local[i][:], Write: true}
			out[i] = datagram.Outgoing{To: ms[i].From, Data: ms[i].Data, RDMA: &ops[i]}
		}
		if _, err := s.SendBatch(ctx, out[:n]); err != nil {
			return err
		}
		for i := range n {
			ms[i].Release()
		}
	}
}

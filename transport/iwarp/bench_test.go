//go:build !live

package iwarp

import (
	"context"
	"fmt"
	"testing"

	"github.com/rds-go/rds/mr"
)

// benchPair connects two devices of this process over loopback.
func benchPair(b testing.TB, crc bool, depth int) (client, server *end) {
	b.Helper()
	p := ConnParams{NoCRC: !crc, IRD: 32, ORD: 32, Guard: -1}
	q := QPConfig{MaxSend: 2 * depth, MaxReceive: 4 * depth}
	client, server = newEnd(b, openDevice(b, Config{}), q), newEnd(b, openDevice(b, Config{}), q)
	connectEnds(b, client, server, p, p)
	return client, server
}

// BenchmarkOneSided keeps 32 Writes or Reads outstanding, a list of 8 at a time.
// An operation is one of them. Writes end with a Read, which the peer answers
// when it has placed them all.
func BenchmarkOneSided(b *testing.B) {
	const depth, list = 32, 8
	for _, op := range []Op{OpWrite, OpRead} {
		for _, size := range []int{64, 8 << 10, 64 << 10, 1 << 20} {
			for _, crc := range []bool{false, true} {
				b.Run(fmt.Sprintf("%v/size=%d/crc=%v", op, size, crc), func(b *testing.B) {
					client, server := benchPair(b, crc, depth)
					ctx := context.Background()
					local, remote := client.reg(size, allRights), server.reg(size, allRights)
					reqs := make([]WorkRequest, list)
					for i := range reqs {
						reqs[i] = WorkRequest{Op: op, SGE: []SGE{local.SGE(0, size)}, RemoteKey: remote.Key(), RemoteAddr: remote.Base()}
					}
					reqs[list-1].Flags = Signaled
					flush := []WorkRequest{{Op: OpRead, Flags: Signaled, SGE: []SGE{local.SGE(0, 8)}, RemoteKey: remote.Key(), RemoteAddr: remote.Base()}}
					comps := make([]Completion, depth)
					out := 0
					b.ReportAllocs()
					b.SetBytes(int64(size))
					b.ResetTimer()
					for n := 0; n < b.N; n += list {
						if out == depth/list {
							out -= client.drain(ctx, comps, 1)
						}
						client.send(reqs...)
						out++
					}
					client.send(flush...)
					client.drain(ctx, comps, out+1)
				})
			}
		}
	}
}

// BenchmarkSend sends inline into receive requests of the peer, with at most 256
// outstanding: the peer tells by a Send of its own that it has posted them again.
func BenchmarkSend(b *testing.B) {
	const size, window = 64, 256
	for _, list := range []int{1, 64} {
		b.Run(fmt.Sprintf("size=%d/list=%d", size, list), func(b *testing.B) {
			client, server := benchPair(b, false, window)
			ctx := context.Background()
			dst, grants := server.reg(window*size, mr.LocalWrite), client.reg(8, mr.LocalWrite)
			receives := make([]ReceiveRequest, window)
			for i := range receives {
				receives[i].SGE = []SGE{dst.SGE(i*size, size)}
			}
			if _, err := server.qp.PostReceive(receives...); err != nil {
				b.Fatal(err)
			}
			done := make(chan struct{})
			go func() { // ends with the messages
				defer close(done)
				comps := make([]Completion, window)
				grant := []WorkRequest{{Op: OpSend}}
				for n := 0; n < b.N; {
					k := server.drain(ctx, comps, 1)
					n += k
					if _, err := server.qp.PostReceive(receives[:k]...); err != nil {
						b.Error(err)
						return
					}
					if n%window == 0 {
						server.send(grant...)
					}
				}
			}()
			reqs := make([]WorkRequest, list)
			for i := range reqs {
				reqs[i] = WorkRequest{Op: OpSend, Inline: make([]byte, size)}
			}
			comps := make([]Completion, 1)
			grant := ReceiveRequest{SGE: []SGE{grants.SGE(0, 8)}}
			b.ReportAllocs()
			b.ResetTimer()
			for n := 0; n < b.N; {
				if n%window == 0 {
					if n > 0 {
						client.drain(ctx, comps, 1)
					}
					if _, err := client.qp.PostReceive(grant); err != nil {
						b.Fatal(err)
					}
				}
				k := min(list, b.N-n)
				client.send(reqs[:k]...)
				n += k
			}
			<-done
		})
	}
}

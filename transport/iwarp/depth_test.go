//go:build !live

package iwarp

import (
	"testing"
)

// A peer that keeps as many reads outstanding as it may is never refused: it can
// ask for the next one when it has an answer whole, which may be before the
// system call that has written the answer returns.
func TestReadsAtTheLimitAreNeverRefused(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const limit, size = 8, 32 << 10
		for _, crc := range []bool{false, true} {
			p := ConnParams{NoCRC: !crc, IRD: limit, ORD: limit, Guard: -1}
			client, server := newEnd(t, openDevice(t, Config{}), QPConfig{}), newEnd(t, openDevice(t, Config{SendBuffer: 64 << 10}), QPConfig{})
			connectEnds(t, client, server, p, p)
			sink, src := client.reg(size, allRights), server.reg(size, allRights)
			read := WorkRequest{Op: OpRead, Flags: Signaled, SGE: []SGE{sink.SGE(0, size)}, RemoteKey: src.Key(), RemoteAddr: src.Base()}
			for range 4 * limit {
				client.send(read)
			}
			for range 1000 {
				client.want(0, Success, OpRead)
				client.send(read)
			}
			for range 4 * limit {
				client.want(0, Success, OpRead)
			}
		}
	})
}

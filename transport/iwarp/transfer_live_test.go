//go:build live

package iwarp

import (
	"bytes"
	"errors"
	"syscall"
	"testing"

	"github.com/rds-go/rds/mr"
)

// Writes of memory that is not registered move the bytes of its pieces, also where
// the socket takes only part of them at a time. With the completion the memory is
// the program's again.
func TestWriteOfUnregisteredMemory(t *testing.T) {
	test := func(t *testing.T, client, server *end) {
		const room = 1 << 20
		back, remote := client.reg(room, mr.LocalWrite), server.reg(room, allRights)
		want, src := make([]byte, room), make([]byte, room)
		fill(want, 3)
		for _, n := range sizes {
			copy(src, want)
			write := WorkRequest{ID: 1, Op: OpWrite, Flags: Signaled, RemoteKey: remote.Key(), RemoteAddr: remote.Base(),
				Local: [][]byte{src[:n/3], nil, src[n/3 : n/2], src[n/2 : n]}}
			client.send(write)
			client.want(1, Success, OpWrite)
			clear(src)
			clear(back.Bytes())
			client.send(WorkRequest{ID: 2, Op: OpRead, Flags: Signaled, RemoteKey: remote.Key(), RemoteAddr: remote.Base(), SGE: []SGE{back.SGE(0, n)}})
			client.want(2, Success, OpRead)
			if !bytes.Equal(back.Bytes()[:n], want[:n]) {
				t.Fatalf("%d bytes written and read back differ", n)
			}
			write.Op = OpSend
			if _, err := client.qp.PostSend(write); !errors.Is(err, syscall.EINVAL) {
				t.Fatalf("a send of it: %v", err)
			}
			for i := range client.qp.slots {
				if client.qp.slots[i].local != nil {
					t.Fatal("memory of requests that have completed is kept")
				}
			}
		}
	}
	eachMode(t, test)
	for name, m := range modes {
		if m.cp.Markers || m.sp.Markers || m.cfg.MaxULPDU == 700 {
			continue
		}
		t.Run("shared, "+name, func(t *testing.T) {
			m.cfg.SendBuffer = 16 << 10
			bubble(t, func(t *testing.T) {
				client, server, _ := sharedPair(t, m.cfg, m.cp, m.sp)
				test(t, client, server)
			})
		})
	}
}

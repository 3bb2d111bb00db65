//go:build !live

package iwarp

import (
	"testing"

	"github.com/rds-go/rds/mr"
)

// A message builds on the Writes posted right before it, and on no others: one
// that somebody posts later and that is refused, before the message has found
// memory, is nothing to it.
func TestMessageBuildsOnItsOwnWritesOnly(t *testing.T) {
	bubble(t, func(t *testing.T) {
		client, server, queues := sharedPair(t, Config{}, ConnParams{}, ConnParams{})
		remote, local, dst := server.reg(8192, allRights), client.reg(8192, 0), server.reg(8192, mr.LocalWrite)
		s := queues.srq(server, 1, SRQConfig{})
		ok := WorkRequest{ID: 1, Op: OpWrite, Flags: Signaled, SGE: []SGE{local.SGE(0, 8192)}, RemoteKey: remote.Key(), RemoteAddr: remote.Base()}
		bad := ok
		bad.ID, bad.RemoteKey = 2, remote.Key()+1
		client.send(ok, WorkRequest{ID: 3, Flags: Signaled, Queue: 1, Writes: 1, SGE: []SGE{local.SGE(0, 100)}})
		client.want(1, Success, OpWrite)
		client.send(bad)
		client.want(2, RemoteAccess, OpWrite)
		server.give(s, 4, dst.SGE(0, 8192))
		client.want(3, Success, OpSend)
		server.want(4, Success, OpReceive)
	})
}

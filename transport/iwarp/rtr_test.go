//go:build !live

package iwarp

import (
	"testing"

	"github.com/rds-go/rds/mr"
	"github.com/rds-go/rds/transport/iwarp/mpa"
)

// Setting up a peer-to-peer connection uses nothing of the programs, whatever kind the first
// message is of, and however it comes: no receive request, no place in a send queue, no
// completion. The first messages of both sides are the programs' own, empty ones too.
func TestXRCREQ22TheRTRUsesNothingOfTheProgram(t *testing.T) {
	t.Parallel()
	for _, kind := range []mpa.RTR{mpa.RTRSend, mpa.RTRWrite, mpa.RTRRead} {
		for name, p := range map[string]ConnParams{"plain": {NoCRC: true}, "CRC": {}, "markers": {Markers: true}, "shared queues": {Shared: &SharedParams{Send: true}}} {
			inBubble(t, kind.String()+"/"+name, func(t *testing.T) {
				d := openDevice(t, Config{EventLoops: 1})
				client, server := newEnd(t, d, QPConfig{MaxSend: 1, SignalAll: true}), newEnd(t, d, QPConfig{MaxReceive: 1, MaxSend: 1, SignalAll: true})
				dst := server.reg(64, mr.LocalWrite)
				server.post(1, dst.SGE(0, 64))
				terms, mine := p, p
				if p.Shared != nil {
					terms.Shared, mine.Shared = &SharedParams{Queues: &queueMap{}}, &SharedParams{Send: true, Require: true}
				}
				mine.PeerToPeer, mine.Prefer = true, kind
				connectEnds(t, client, server, mine, terms)
				for _, e := range []*end{client, server} {
					if list := e.rest(); len(list) > 0 {
						t.Errorf("%+v", list)
					}
				}
				client.send(WorkRequest{ID: 7}) // an empty message: there is a place for it, and a receive
				client.want(7, Success, OpSend)
				if c := server.want(1, Success, OpReceive); c.Len != 0 {
					t.Errorf("%+v", c)
				}
				client.post(2, SGE{})
				server.send(WorkRequest{ID: 8})
				client.want(2, Success, OpReceive)
				server.want(8, Success, OpSend)
			})
		}
	}
}

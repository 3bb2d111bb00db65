//go:build live

package iwarp

import (
	"errors"
	"testing"

	"github.com/rds-go/rds/mr"
	"github.com/rds-go/rds/transport/iwarp/rdmap"
)

// Disconnect sends what was posted, to a peer that reads slowly as well, and
// takes what the peer still sends.
func TestDisconnectIsGentle(t *testing.T) {
	t.Parallel()
	for _, crc := range []bool{true, false} {
		e := newEnd(t, openDevice(t, Config{EventLoops: 1, SendBuffer: 32 << 10}), QPConfig{})
		m := e.reg(256<<10, 0)
		e.post(50, e.reg(8, mr.LocalWrite).SGE(0, 8))
		p := openRaw(t, e, false, crc)
		e.flood(m, 4)
		must(t, e.qp.Disconnect())
		wantErr(t, "second Disconnect", e.qp.Disconnect(), ErrState)
		same(t, "state", e.qp.State(), StateSQD)
		p.send(p.sendMessage([]byte("late")))
		e.want(50, Success, OpReceive)
		for octets := 0; octets < 1<<20; {
			octets += len(p.segment(rdmap.OpSend).Payload)
		}
		p.closed()
		_ = p.conn.Close()
		for i := range uint64(4) {
			e.want(i, Success, OpSend)
		}
		if err := e.ended(); !errors.Is(err, ErrClosed) {
			t.Error(err)
		}
	}
}

//go:build !live

package iwarp

import (
	"slices"
	"strings"
	"testing"

	"github.com/rds-go/rds/transport/iwarp/rdmap"
	"github.com/rds-go/rds/transport/iwarp/xctl"
)

// until reads up to a record of a type, and returns what came, that one included.
func until[T any](x *extended) (all []any) {
	x.t.Helper()
	for {
		for i, r := range x.records {
			if _, ok := r.(T); ok {
				all = append(all, x.records[:i+1]...)
				x.records = x.records[i+1:]
				return all
			}
		}
		all = append(all, x.records...)
		x.records = nil
		if _, _, err := x.take(); err != nil {
			x.t.Fatal(err)
		}
	}
}

// What the sink refuses the peer hears of before the CREDIT, though that is due, and a
// PING asks for what of it has been heard.
func TestRefusalComesBeforeTheCredit(t *testing.T) {
	bothRoles(t, func(t *testing.T, initiator bool) {
		e, x, d := openSink(t, Config{}, initiator, true)
		e.refusing(d)
		e.qp.SinkReady()
		x.sync()
		next := byte(1)
		for round := range 3 {
			// A Send that is acknowledged at once, for several messages.
			x.raw.send(x.messageOp(rdmap.OpSendSolicited, 0, sinkNum+1, 0, true, []byte{next, next + 1, next + 5, next + 6}))
			var refused []any
			var ping xctl.Ping
			for _, r := range until[xctl.Credit](x) {
				switch r := r.(type) {
				case xctl.Refused:
					refused = append(refused, r)
				case xctl.Ping:
					ping = r
				}
			}
			n := uint64(next)
			want := []any{xctl.Refused{First: n, Count: 2, Code: xctl.RefusedPort}, xctl.Refused{First: n + 5, Count: 2, Code: xctl.RefusedPort}}
			if !slices.Equal(refused, want) {
				t.Fatalf("round %d: before the CREDIT came %v, not %v", round, refused, want)
			}
			next += 10
			if ping == (xctl.Ping{}) {
				ping = await[xctl.Ping](x)
			}
			x.raw.send(x.tell(xctl.Pong{Nonce: ping.Nonce - 1}))
			x.sync()
			if got := d.heard(); slices.ContainsFunc(got, func(s string) bool { return strings.HasSuffix(s, "heard") }) {
				t.Fatalf("round %d: %q", round, got)
			}
			// A burst may have been read in two: then one more PING follows.
			for want := []string{"4 refusals heard", "8 refusals heard", "12 refusals heard"}[round]; ; ping = await[xctl.Ping](x) {
				x.raw.send(x.tell(xctl.Pong(ping)))
				x.sync()
				if slices.Contains(d.heard(), want) {
					break
				}
			}
			_ = has[xctl.Credit](x)
		}
	})
}

// A peer that does not know refusals is told none, and asked nothing; what it says of them
// means nothing.
func TestRefusalNeedsTheCapability(t *testing.T) {
	bubble(t, func(t *testing.T) {
		e := newEnd(t, openDevice(t, Config{EventLoops: 1}), QPConfig{})
		d := newSinkRecorder(t)
		x := openExtendedCRC(t, e, true, true, allCaps&^xctl.CapRefused, SharedParams{Sink: d})
		d.mu.Lock()
		d.fed = func([]byte) {
			if ok, err := e.qp.Refuse(1, RefusedPort); ok || err != nil {
				t.Errorf("refused: %v, %v", ok, err)
			}
		}
		d.mu.Unlock()
		e.qp.SinkReady()
		x.raw.send(x.tell(xctl.Refused{First: 1, Count: 1, Code: xctl.RefusedPort}), x.message(sinkNum, 0, true, []byte("message")))
		x.sync()
		for _, r := range x.records {
			switch r.(type) {
			case xctl.Refused, xctl.Ping:
				t.Errorf("%+v", r)
			}
		}
		if got := d.heard(); !slices.Equal(got, []string{"9 from 0"}) {
			t.Errorf("%q", got)
		}
	})
}

// The sink hears of a refusal before the messages count as acknowledged, also when both
// come in one control message. Codes of the future and empty records are passed over.
func TestRefusedIsHeardFirst(t *testing.T) {
	bubble(t, func(t *testing.T) {
		e, x, d := openSink(t, Config{}, true, false)
		x.sent(make([]byte, 100))
		x.raw.send(x.tell(xctl.Refused{First: 7, Count: 3, Code: xctl.RefusedPort}, xctl.Refused{First: 20, Count: 1, Code: 9}, xctl.Refused{First: 21, Code: xctl.RefusedPort},
			xctl.Refused{First: 22, Count: 1, Code: xctl.RefusedUnknown}, credit(1, 9)))
		wait(t, d.acked, "Acked")
		if got, want := d.heard(), []string{"3 from 7 refused: 1", "1 from 22 refused: 2"}; !slices.Equal(got, want) {
			t.Errorf("%q, not %q", got, want)
		}
		same(t, "bytes acknowledged", e.qp.FramesAcked(), 100)
	})
}

package iwarp

import (
	"io"
	"testing"
	"time"

	"github.com/rds-go/rds/transport/iwarp/rdmap"
	"github.com/rds-go/rds/transport/iwarp/xctl"
)

// A SendDirect whose message is written whole ends without looking for more to do, unless
// something has come meanwhile that nobody else sees to.
func TestDirectSeesToWhatCameMeanwhile(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		during func(e *end) // what SendDirect's callback does while SendDirect makes the message
		after  func(e *end, x *extended, d *directRecorder)
	}{
		{"a ping", func(e *end) {
			go func() { _ = e.qp.Ping(within(e.t)) }()
			if !eventually(10*time.Second, func() bool {
				e.qp.mu.Lock()
				defer e.qp.mu.Unlock()
				return e.qp.stream.shared.backlog.Pings()
			}) {
				e.t.Error("no PING waits")
			}
		}, func(e *end, x *extended, d *directRecorder) {
			for len(has[xctl.Ping](x)) == 0 {
				if _, _, err := x.take(); err != nil {
					e.t.Fatal("no PING but", err)
				}
			}
		}},
		{"a work request that was held back", func(e *end) {
			e.qp.mu.Lock()
			defer e.qp.mu.Unlock()
			if err := e.qp.postLocked(&WorkRequest{Op: OpWrite, Inline: []byte{1}}); err != nil {
				e.t.Error(err)
			}
		}, func(e *end, x *extended, d *directRecorder) { x.incoming(rdmap.OpWrite) }},
		{"a CREDIT for a message that was never sent", func(e *end) {
			e.qp.mu.Lock()
			defer e.qp.mu.Unlock()
			if err := e.qp.stream.shared.direct.heardLocked(&arrivedRecord{kind: xctl.TypeCredit, credit: credit(100, 100)}); err != nil {
				e.t.Error(err) // a CREDIT may be for the message that is being written
			}
		}, func(e *end, x *extended, d *directRecorder) { x.incoming(rdmap.OpTerminate) }},
		{"the end of the queue pair", func(e *end) { e.qp.Fail() }, func(e *end, x *extended, d *directRecorder) {
			if _, _, err := x.take(); err != io.EOF {
				e.t.Errorf("%v, not the end of the stream", err)
			}
			x.raw.conn.Close()
			_ = d.ended()
		}},
		{"a Writable that is due", func(e *end) {
			e.qp.mu.Lock()
			defer e.qp.mu.Unlock()
			e.qp.stream.shared.direct.want = true
		}, func(e *end, x *extended, d *directRecorder) { wait(e.t, d.writable, "Writable") }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			e, d := newEnd(t, openDevice(t, Config{EventLoops: 1, CloseTimeout: time.Hour}), QPConfig{}), newDirectRecorder(t)
			// Nothing but SendDirect sends: there is no PING after a silence.
			x := openExtendedCRC(t, e, true, false, allCaps, SharedParams{Silence: -1, Direct: &DirectParams{Number: directNum, Sink: d}})
			x.sync()
			e.quiet()
			cut := oneMessage(7)
			if n, err := e.qp.SendDirect([][]byte{make([]byte, 7)}, func(pos, room int) (int, bool, uint32) {
				tt.during(e)
				return cut(pos, room)
			}, false, 0); n != 7 || err != nil {
				t.Fatal(n, err)
			}
			x.incoming(rdmap.OpSend)
			tt.after(e, x, d)
		})
	}
}

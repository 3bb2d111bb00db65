//go:build live

package iwarp

import (
	"io"
	"testing"
	"time"

	"github.com/rds-go/rds/transport"
	"github.com/rds-go/rds/transport/iwarp/rdmap"
	"github.com/rds-go/rds/transport/iwarp/xctl"
)

// A SendFrames whose message is written whole ends without looking for more to do, unless
// something has come meanwhile that nobody else sees to.
func TestSinkSeesToWhatCameMeanwhile(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		during func(e *end) // what queueOf does, which SendFrames calls while it makes the message
		after  func(e *end, x *extended, d *sinkRecorder)
	}{
		{"a ping", func(e *end) {
			go func() { _ = e.qp.Ping(within(e.t)) }()
			if !holds(func() bool {
				e.qp.mu.Lock()
				defer e.qp.mu.Unlock()
				return e.qp.stream.shared.backlog.Pings()
			}) {
				e.t.Error("no PING waits")
			}
		}, func(e *end, x *extended, d *sinkRecorder) {
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
		}, func(e *end, x *extended, d *sinkRecorder) { x.incoming(rdmap.OpWrite) }},
		{"a CREDIT for a message that was never sent", func(e *end) {
			e.qp.mu.Lock()
			defer e.qp.mu.Unlock()
			if err := heardLocked(e, credit(100, 100)); err != nil {
				e.t.Error(err) // a CREDIT may be for the message that is being written
			}
		}, func(e *end, x *extended, d *sinkRecorder) { x.incoming(rdmap.OpTerminate) }},
		{"the end of the queue pair", func(e *end) { e.qp.Fail() }, func(e *end, x *extended, d *sinkRecorder) {
			if _, _, err := x.take(); err != io.EOF {
				e.t.Errorf("%v, not the end of the stream", err)
			}
			x.raw.conn.Close()
			_ = d.ended()
		}},
		{"a Writable that is due", func(e *end) {
			e.qp.mu.Lock()
			defer e.qp.mu.Unlock()
			e.qp.stream.shared.frames.want = true
		}, func(e *end, x *extended, d *sinkRecorder) { wait(e.t, d.writable, "Writable") }},
	} {
		inBubble(t, tt.name, func(t *testing.T) {
			e, d := newEnd(t, openDevice(t, Config{EventLoops: 1, CloseTimeout: time.Hour}), QPConfig{}), newSinkRecorder(t)
			// Nothing but SendFrames sends: there is no PING after a silence.
			x := openExtendedCRC(t, e, true, false, allCaps, SharedParams{Silence: -1, Sink: d})
			x.sync()
			e.quiet()
			if n, err := e.qp.SendFrames([]transport.Frame{messageTo(sinkNum, make([]byte, 7))}, func(port uint16) uint32 {
				tt.during(e)
				return queueOfPort(port)
			}); n.Frames != 1 || err != nil {
				t.Fatal(n, err)
			}
			x.incoming(rdmap.OpSend)
			tt.after(e, x, d)
		})
	}
}

// heardLocked takes a CREDIT for the first queue.
func heardLocked(e *end, c xctl.Credit) error {
	d := &e.qp.stream.shared.frames
	return d.heardLocked(d.queues[sinkNum], &arrivedRecord{kind: xctl.TypeCredit, credit: c})
}

//go:build !live

package iwarp

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/rds-go/rds/transport"
	"github.com/rds-go/rds/transport/iwarp/rdmap"
	"github.com/rds-go/rds/transport/iwarp/xctl"
)

// following makes frames follow operations that were posted.
var following = make([]*transport.Operation, 1)

// openSink makes a connection with a queue with a sink whose other end is raw.
func openSink(t testing.TB, cfg Config, initiator, crc bool) (*end, *extended, *sinkRecorder) {
	t.Helper()
	cfg.EventLoops = 1
	e := newEnd(t, openDevice(t, cfg), QPConfig{})
	d := newSinkRecorder(t)
	x := openExtendedCRC(t, e, initiator, crc, allCaps, SharedParams{Sink: d})
	x.sync()
	return e, x, d
}

// sent sends a message of b, which the peer takes whole.
func (x *extended) sent(b []byte) {
	x.t.Helper()
	if n, err := x.e.direct(b); n != len(b) || err != nil {
		x.t.Fatal(n, err)
	}
	x.incoming(rdmap.OpSend)
}

func nak(msn uint32, code xctl.NAKCode) xctl.NAK {
	return xctl.NAK{SRQ: sinkNum, MSN: msn, Code: code}
}

// CREDITs that say nothing new, or less than before, change nothing, and a message
// refused for its Writes counts as acknowledged with the next one.
func TestSinkToleratesStaleCredits(t *testing.T) {
	bubble(t, func(t *testing.T) {
		e, x, d := openSink(t, Config{SendBuffer: 4 << 10}, true, true)
		for i := range 4 {
			x.sent(make([]byte, 10*(i+1)))
		}
		for _, c := range []struct {
			record any
			acked  uint64
		}{
			{credit(0, 4), 0}, {credit(2, 4), 30}, {credit(2, 4), 30}, {credit(1, 3), 30}, {credit(0, 0), 30},
			{nak(3, xctl.NAKDependency), 30}, {credit(3, 5), 60}, {credit(4, 5), 100}, {credit(4, 4), 100},
		} {
			x.raw.send(x.tell(c.record.(xctl.Record)))
			x.sync()
			if n := e.qp.FramesAcked(); n != c.acked {
				t.Errorf("after %+v: %d bytes acknowledged, not %d", c.record, n, c.acked)
			}
		}
		wait(t, d.acked, "Acked")
		// A message may be refused before its end.
		long := make([]byte, 2<<20)
		n, err := e.direct(long)
		if n == 0 || n == len(long) || err != nil {
			t.Fatal(n, err)
		}
		x.incoming(rdmap.OpSend)
		x.raw.send(x.tell(nak(5, xctl.NAKDependency)))
		x.sync()
		// One message was granted, and one only.
		rest := make(chan struct{})
		go func() {
			defer close(rest)
			for n < len(long) && err == nil {
				wait(t, d.writable, "Writable")
				var m int
				m, err = e.direct(long)
				n += m
			}
		}()
		for !x.incoming(rdmap.OpSend).Untagged.Last {
		}
		if <-rest; n != len(long) || err != nil {
			t.Error(n, err)
		}
		if n, err := e.direct(make([]byte, 7)); n != 0 || err != nil {
			t.Error(n, err)
		}
	})
}

// Immediate Data and Sends with Invalidate are refused, whatever is about them is not
// disturbed, and messages to shared queues may come in the middle of those to sinks.
func TestSinkAmongOthers(t *testing.T) {
	bubble(t, func(t *testing.T) {
		for _, crc := range []bool{true, false} {
			e, x, d := openSink(t, Config{}, true, crc)
			d.mu.Lock()
			d.place = true
			d.mu.Unlock()
			mem := e.reg(1<<16, allRights)
			srq := x.queues.srq(e, 1, SRQConfig{})
			e.give(srq, 1, mem.SGE(0, 1<<16))
			e.qp.SinkReady()
			want := bytes.Repeat([]byte("0123456789abcdef"), 2500)
			x.raw.send(
				x.message(sinkNum, 0, false, want[:10000]),
				x.message(1, 0, false, want[:20000]),
				x.message(sinkNum, 10000, false, want[10000:10003]),
				x.message(1, 20000, true, want[20000:]),
				x.message(sinkNum, 10003, true, want[10003:]),
				x.messageOp(rdmap.OpImmediate, 0, sinkNum, 0, true, make([]byte, 8)),
				x.messageOp(rdmap.OpSendInvalidate, uint32(mem.Key()), sinkNum, 0, true, []byte("lost")),
				x.message(sinkNum, 0, true, nil),
				x.message(sinkNum, 0, true, want[:5]),
			)
			e.want(1, Success, OpReceive)
			x.sync()
			if naks := has[xctl.NAK](x); len(naks) != 2 || naks[0] != nak(2, xctl.NAKForbidden) || naks[1] != nak(3, xctl.NAKForbidden) {
				t.Errorf("%+v", naks)
			}
			if c := await[xctl.Credit](x); c.SRQ == sinkNum && c.Delivered > 5 {
				t.Errorf("%+v", c)
			}
			if !bytes.Equal(d.taken(), append(bytes.Clone(want), want[:5]...)) || !bytes.Equal(mem.Bytes()[:len(want)], want) {
				t.Error("not what was sent")
			}
		}
	})
}

// Before SinkReady nothing is acknowledged, though it has come; after, all of it.
func TestSinkAcknowledgesWhenReady(t *testing.T) {
	bubble(t, func(t *testing.T) {
		e, x, d := openSink(t, Config{}, true, false)
		for range 3 {
			x.raw.send(x.message(sinkNum, 0, true, []byte("early")))
		}
		x.sync()
		timer := time.NewTimer(20 * xctl.CreditDelay) // a CREDIT would come within this time
		<-timer.C
		x.sync()
		if c := has[xctl.Credit](x); len(c) > 0 {
			t.Errorf("%+v before the queue was ready", c)
		}
		e.qp.SinkReady()
		for {
			if c := await[xctl.Credit](x); c.Delivered == 3 && c.Limit > 1000 {
				break
			}
		}
		if string(d.taken()) != "earlyearlyearly" {
			t.Errorf("%q", d.taken())
		}
	})
}

// A peer that grants nothing is sent what it has granted at first and not more, and
// no more than SinkEarly without a sign of its program; Writable follows once.
func TestSinkWaitsForCredit(t *testing.T) {
	bubble(t, func(t *testing.T) {
		for _, size := range []int{100, SinkEarly - 1, SinkEarly, 200_000} {
			e, x, d := openSink(t, Config{}, true, false)
			done := make(chan int)
			msg := bytes.Repeat([]byte{7}, size)
			want := min(4, (SinkEarly+size-1)/size) * size
			go func() {
				for sent := 0; ; {
					n, err := e.direct(msg)
					if sent += n; n == 0 && sent >= want || err != nil {
						done <- sent
						return
					}
					if n == 0 || sent%size > 0 { // the socket was full, or the event loop was sending
						wait(t, d.writable, "Writable")
					}
				}
			}()
			octets := 0
			for octets < want {
				octets += len(x.incoming(rdmap.OpSend).Payload)
			}
			if sent := <-done; sent != octets {
				t.Errorf("messages of %d: %d octets sent, %d came", size, sent, octets)
			}
			x.sync()
			if len(d.writable) > 0 {
				t.Errorf("messages of %d: Writable without credit", size)
			}
			if n, err := e.direct(msg); n != 0 || err != nil {
				t.Errorf("messages of %d: sent %d, %v", size, n, err)
			}
			x.raw.send(x.tell(credit(0, 100)))
			wait(t, d.writable, "Writable")
			if n, err := e.direct(make([]byte, 10)); n != 10 || err != nil {
				t.Errorf("with credit: %d, %v", n, err)
			}
			x.sync()
			if len(d.writable) > 0 {
				t.Errorf("messages of %d: Writable twice", size)
			}
		}
	})
}

// Requests that are held back to leave together leave when a message is to be sent,
// also if that finds no credit.
func TestSinkLetsRequestsGo(t *testing.T) {
	bubble(t, func(t *testing.T) {
		for range 20 {
			e, x, _ := openSink(t, Config{}, true, false)
			for range 4 {
				x.sent(make([]byte, 1))
			}
			const posts = 30
			for i := range posts {
				e.send(WorkRequest{ID: uint64(i), Op: OpWrite, Inline: []byte{1}})
			}
			if n, err := e.direct(make([]byte, 1)); n != 0 || err != nil {
				t.Fatal(n, err)
			}
			for range posts {
				x.incoming(rdmap.OpWrite)
			}
		}
	})
}

// A peer that acknowledges as fast as it can, often before the sender has come back
// from the system call: the sink hears of the last acknowledgement, and none is ahead
// of what was sent.
func TestSinkAcknowledgedAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		e, x, d := openSink(t, Config{}, true, false)
		x.raw.send(x.tell(credit(0, 1<<20)))
		x.sync()
		rounds := 3000
		if testing.Short() {
			rounds = 300
		}
		go func() {
			for i := range uint32(rounds) {
				s, ok, err := x.take()
				if err != nil || !ok || s.Untagged.MSN != i+1 {
					t.Errorf("message %d: %+v, %v", i+1, s, err)
					return
				}
				x.raw.send(x.tell(credit(i+1, 1<<20)))
			}
		}()
		msg := make([]byte, 3000)
		for i := range rounds {
			for {
				n, err := e.frames([]transport.Frame{messageTo(sinkNum, msg)})
				if n == len(msg) {
					break
				}
				if n != 0 || err != nil {
					t.Fatal(n, err)
				}
				wait(t, d.writable, "Writable")
			}
			for e.qp.FramesAcked() < uint64(i+1)*uint64(len(msg)) {
				wait(t, d.acked, "Acked")
			}
		}
	})
}

// A conversation that ends after any octet, gently or not, ends the queue pair: what
// came whole was handed over, what was acknowledged counts, and nothing else.
func TestSinkEndsAtEveryOctet(t *testing.T) {
	bubble(t, func(t *testing.T) {
		dev := openDevice(t, Config{EventLoops: 1})
		for _, reset := range []bool{false, true} {
			for cut := 0; ; cut++ {
				e := newEnd(t, dev, QPConfig{})
				d := newSinkRecorder(t)
				x := openExtendedCRC(t, e, cut%2 == 0, cut%3 == 0, allCaps, SharedParams{Sink: d})
				x.sync()
				e.qp.SinkReady()
				for range 2 {
					n, err := e.direct([]byte("message"))
					for n == 0 && err == nil { // the event loop was sending
						wait(t, d.writable, "Writable")
						n, err = e.direct([]byte("message"))
					}
					if n != 7 || err != nil {
						t.Fatal(n, err)
					}
					x.incoming(rdmap.OpSend)
				}
				frames := [][]byte{
					x.frame(x.tell(credit(1, 9))), x.frame(x.message(sinkNum, 0, true, []byte("whole"))),
					x.frame(x.message(sinkNum, 0, false, []byte("first "))), x.frame(x.tell(credit(2, 9))),
					x.frame(x.message(sinkNum, 6, true, []byte("second"))),
				}
				var all []byte
				var acked uint64
				got := ""
				for i, f := range frames {
					if all = append(all, f...); len(all) <= cut {
						acked += []uint64{7, 0, 0, 7, 0}[i]
						got += []string{"", "whole", "first ", "", "second"}[i]
					}
				}
				if cut > len(all) {
					_ = e.qp.Close()
					break
				}
				x.write(all[:cut])
				if reset {
					x.abort()
				} else {
					_ = x.conn.CloseWrite()
				}
				_ = d.ended()
				// What a reset overtakes is lost.
				if g := string(d.taken()); g != got && !(reset && strings.HasPrefix(got, g)) {
					t.Errorf("after %d octets, reset %v: %q came, not %q", cut, reset, g, got)
				}
				if n := e.qp.FramesAcked(); n != acked && !(reset && n < acked) {
					t.Errorf("after %d octets, reset %v: %d bytes acknowledged, not %d", cut, reset, n, acked)
				}
				_ = x.conn.Close()
				_ = e.qp.Close()
			}
		}
	})
}

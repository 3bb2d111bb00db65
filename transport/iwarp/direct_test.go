package iwarp

import (
	"bytes"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rds-go/rds/transport/iwarp/rdmap"
	"github.com/rds-go/rds/transport/iwarp/xctl"
)

// directNum is the number of the first direct queue in tests, directOthers how many
// more there are.
const (
	directNum    = 9
	directOthers = 3
)

// directRecorder is a Sink that keeps what it is given and checks the order of its
// calls.
type directRecorder struct {
	t        testing.TB
	writable chan struct{}
	acked    chan struct{}
	closed   chan struct{}

	mu      sync.Mutex
	place   bool           // guarded by mu: some of it is read straight to a place
	refuse  error          // guarded by mu
	got     []byte         // guarded by mu
	room    [16 << 10]byte // guarded by mu
	dirty   bool           // guarded by mu: there was no Flush since the last byte
	over    bool           // guarded by mu
	err     error          // guarded by mu
	flushed int            // guarded by mu: of got, at the last Flush
	flushes int            // guarded by mu
	news    []string       // guarded by mu
	fed     func([]byte)   // guarded by mu; what else is done with what comes
	burst   func()         // guarded by mu; what else Flush does
}

func newDirectRecorder(t testing.TB) *directRecorder {
	return &directRecorder{t: t, writable: make(chan struct{}, 64), acked: make(chan struct{}, 1), closed: make(chan struct{})}
}

func (d *directRecorder) enter(what string) {
	d.mu.Lock()
	if d.over {
		d.t.Errorf("%s after Closed", what)
	}
}

func (d *directRecorder) Feed(b []byte) error {
	d.enter("Feed")
	defer d.mu.Unlock()
	d.got, d.dirty = append(d.got, b...), true
	if d.fed != nil {
		d.fed(b)
	}
	return d.refuse
}

func (d *directRecorder) Queue(n uint32) {
	d.enter("Queue")
	d.news = append(d.news, fmt.Sprintf("%d from %d", n, len(d.got)))
	d.mu.Unlock()
}

func (d *directRecorder) Home(tag, queue uint32) {
	d.enter("Home")
	d.news = append(d.news, fmt.Sprintf("tag %#x is of %d", tag, queue))
	d.mu.Unlock()
}

func (d *directRecorder) State(queue uint32, s QueueState) {
	d.enter("State")
	d.news = append(d.news, fmt.Sprintf("%d is %d", queue, s))
	d.mu.Unlock()
}

func (d *directRecorder) Full(tag uint32, full bool) {
	d.enter("Full")
	d.news = append(d.news, fmt.Sprintf("tag %#x is full: %v", tag, full))
	d.mu.Unlock()
}

// heard is what was said beside messages, once.
func (d *directRecorder) heard() (news []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	news, d.news = d.news, nil
	return news
}

func (d *directRecorder) Space() ([]byte, bool) {
	d.enter("Space")
	defer d.mu.Unlock()
	if !d.place {
		return nil, false
	}
	return d.room[:], true
}

func (d *directRecorder) Filled(n int) {
	d.enter("Filled")
	d.got, d.dirty = append(d.got, d.room[:n]...), true
	d.mu.Unlock()
}

func (d *directRecorder) Flush() {
	d.enter("Flush")
	d.dirty, d.flushed = false, len(d.got)
	d.flushes++
	burst := d.burst
	d.mu.Unlock()
	if burst != nil {
		burst()
	}
}

func (d *directRecorder) Acked() {
	d.enter("Acked")
	d.mu.Unlock()
	select {
	case d.acked <- struct{}{}:
	default:
	}
}

func (d *directRecorder) Begun() (uint64, int) { return 0, 0 }

func (d *directRecorder) Writable() { d.writable <- struct{}{} }

func (d *directRecorder) Closed(err error) {
	d.enter("Closed")
	if d.dirty {
		d.t.Error("Closed without a Flush of what came before")
	}
	d.over, d.err = true, err
	d.mu.Unlock()
	close(d.closed)
}

// taken is what has come.
func (d *directRecorder) taken() []byte {
	d.mu.Lock()
	defer d.mu.Unlock()
	return bytes.Clone(d.got)
}

// ended waits for Closed.
func (d *directRecorder) ended() error {
	d.t.Helper()
	wait(d.t, d.closed, "Closed")
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.err
}

// wait waits for an event.
func wait[T any](t testing.TB, c <-chan T, what string) {
	t.Helper()
	select {
	case <-c:
	case <-within(t).Done():
		t.Fatalf("no %s", what)
	}
}

// oneMessage cuts a SendDirect that is one message.
func oneMessage(total int) Cut {
	return func(pos, room int) (int, bool, uint32) {
		n := min(room, total-pos)
		return n, pos+n == total, directNum
	}
}

// direct sends one message of b, when nobody else is sending.
func (e *end) direct(b []byte) (int, error) {
	e.t.Helper()
	e.quiet()
	return e.qp.SendDirect([][]byte{b}, oneMessage(len(b)), false, 0)
}

// quiet waits until nobody sends: a SendDirect that meets others takes nothing.
func (e *end) quiet() {
	e.t.Helper()
	if !eventually(10*time.Second, func() bool {
		e.qp.mu.Lock()
		defer e.qp.mu.Unlock()
		s := e.qp.stream
		return !s.sending && !s.shared.direct.later && s.shared.backlog.Empty() // nor is about to
	}) {
		e.t.Error("somebody sends without end")
	}
}

// openDirect makes a connection with a direct queue whose other end is raw.
func openDirect(t testing.TB, cfg Config, initiator, crc bool) (*end, *extended, *directRecorder) {
	t.Helper()
	cfg.EventLoops = 1
	e := newEnd(t, openDevice(t, cfg), QPConfig{})
	d := newDirectRecorder(t)
	x := openExtendedCRC(t, e, initiator, crc, allCaps, SharedParams{Direct: &DirectParams{Number: directNum, Others: directOthers, Sink: d}})
	x.sync()
	return e, x, d
}

func credit(delivered, limit uint32) xctl.Credit {
	return xctl.Credit{SRQ: directNum, Delivered: delivered, Limit: limit}
}

func nak(msn uint32, code xctl.NAKCode) xctl.NAK {
	return xctl.NAK{SRQ: directNum, MSN: msn, Code: code}
}

// CREDITs that say nothing new, or less than before, change nothing, and a message
// refused for its Writes counts as acknowledged with the next one.
func TestDirectToleratesStaleCredits(t *testing.T) {
	t.Parallel()
	e, x, d := openDirect(t, Config{}, true, true)
	for i := range 4 {
		if n, err := e.direct(make([]byte, 10*(i+1))); n != 10*(i+1) || err != nil {
			t.Fatal(n, err)
		}
		x.incoming(rdmap.OpSend)
	}
	for _, c := range []struct {
		record any
		acked  uint64
	}{
		{credit(0, 4), 0}, {credit(2, 4), 30}, {credit(2, 4), 30}, {credit(1, 3), 30}, {credit(0, 0), 30},
		{nak(3, xctl.NAKDependency), 30}, {credit(3, 5), 60}, {credit(4, 5), 100}, {credit(4, 4), 100},
	} {
		x.raw.send(x.tell(c.record.(interface{ AppendTo([]byte) []byte })))
		x.sync()
		if n := e.qp.DirectAcked(); n != c.acked {
			t.Errorf("after %+v: %d bytes acknowledged, not %d", c.record, n, c.acked)
		}
	}
	wait(t, d.acked, "Acked")
	// A message may be refused before its end.
	e.quiet()
	if n, err := e.qp.SendDirect([][]byte{make([]byte, 8)}, func(int, int) (int, bool, uint32) { return 8, false, directNum }, false, 0); n != 8 || err != nil {
		t.Fatal(n, err)
	}
	x.incoming(rdmap.OpSend)
	x.raw.send(x.tell(nak(5, xctl.NAKDependency)))
	x.sync()
	// One message was granted, and one only.
	if n, err := e.direct(make([]byte, 7)); n != 7 || err != nil {
		t.Error(n, err)
	}
	if n, err := e.direct(make([]byte, 7)); n != 0 || err != nil {
		t.Error(n, err)
	}
}

// Immediate Data and Sends with Invalidate are refused, whatever is about them is not
// disturbed, and messages to shared queues may come in the middle of direct ones.
func TestDirectAmongOthers(t *testing.T) {
	t.Parallel()
	for _, crc := range []bool{true, false} {
		e, x, d := openDirect(t, Config{}, true, crc)
		d.mu.Lock()
		d.place = true
		d.mu.Unlock()
		mem := e.reg(1<<16, allRights)
		srq := x.queues.srq(e, 1, SRQConfig{})
		e.give(srq, 1, mem.SGE(0, 1<<16))
		e.qp.DirectReady()
		want := bytes.Repeat([]byte("0123456789abcdef"), 2500)
		x.raw.send(
			x.message(directNum, 0, false, want[:10000]),
			x.message(1, 0, false, want[:20000]),
			x.message(directNum, 10000, false, want[10000:10003]),
			x.message(1, 20000, true, want[20000:]),
			x.message(directNum, 10003, true, want[10003:]),
			x.messageOp(rdmap.OpImmediate, 0, directNum, 0, true, make([]byte, 8)),
			x.messageOp(rdmap.OpSendInvalidate, uint32(mem.Key()), directNum, 0, true, []byte("lost")),
			x.message(directNum, 0, true, nil),
			x.message(directNum, 0, true, want[:5]),
		)
		e.want(1, Success, OpReceive)
		x.sync()
		if naks := has[xctl.NAK](x); len(naks) != 2 || naks[0] != nak(2, xctl.NAKForbidden) || naks[1] != nak(3, xctl.NAKForbidden) {
			t.Errorf("%+v", naks)
		}
		if c := await[xctl.Credit](x); c.SRQ == directNum && c.Delivered > 5 {
			t.Errorf("%+v", c)
		}
		if !bytes.Equal(d.taken(), append(bytes.Clone(want), want[:5]...)) || !bytes.Equal(mem.Bytes()[:len(want)], want) {
			t.Error("not what was sent")
		}
	}
}

// Before DirectReady nothing is acknowledged, though it has come; after, all of it.
func TestDirectAcknowledgesWhenReady(t *testing.T) {
	t.Parallel()
	e, x, d := openDirect(t, Config{}, true, false)
	for range 3 {
		x.raw.send(x.message(directNum, 0, true, []byte("early")))
	}
	x.sync()
	timer := time.NewTimer(20 * xctl.CreditDelay) // a CREDIT would come within this time
	<-timer.C
	x.sync()
	if c := has[xctl.Credit](x); len(c) > 0 {
		t.Errorf("%+v before the queue was ready", c)
	}
	e.qp.DirectReady()
	for {
		if c := await[xctl.Credit](x); c.Delivered == 3 && c.Limit > 1000 {
			break
		}
	}
	if string(d.taken()) != "earlyearlyearly" {
		t.Errorf("%q", d.taken())
	}
}

// A peer that grants nothing is sent what it has granted at first and not more, and
// no more than DirectEarly without a sign of its program; Writable follows once.
func TestDirectWaitsForCredit(t *testing.T) {
	t.Parallel()
	for _, size := range []int{100, DirectEarly - 1, DirectEarly, 200_000} {
		e, x, d := openDirect(t, Config{}, true, false)
		done := make(chan int)
		msg := bytes.Repeat([]byte{7}, size)
		want := min(4, (DirectEarly+size-1)/size) * size
		go func() {
			for sent := 0; ; {
				rest := msg[sent%size:]
				n, err := e.direct(rest)
				if sent += n; n == 0 && sent >= want || err != nil {
					done <- sent
					return
				}
				if n < len(rest) { // the socket was full, or the event loop was sending
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
}

// Requests that are held back to leave together leave when a message is to be sent,
// also if that finds no credit.
func TestDirectLetsRequestsGo(t *testing.T) {
	t.Parallel()
	for range 20 {
		e, x, _ := openDirect(t, Config{}, true, false)
		for range 4 {
			if n, err := e.direct(make([]byte, 1)); n != 1 || err != nil {
				t.Fatal(n, err)
			}
			x.incoming(rdmap.OpSend)
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
}

// A peer that acknowledges as fast as it can, often before the sender has come back
// from the system call: the sink hears of the last acknowledgement, and none is ahead
// of what was sent.
func TestDirectAcknowledgedAtOnce(t *testing.T) {
	t.Parallel()
	e, x, d := openDirect(t, Config{}, true, false)
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
			n, err := e.qp.SendDirect([][]byte{msg}, oneMessage(len(msg)), false, 0)
			if n == len(msg) {
				break
			}
			if n != 0 || err != nil {
				t.Fatal(n, err)
			}
			wait(t, d.writable, "Writable")
		}
		for e.qp.DirectAcked() < uint64(i+1)*uint64(len(msg)) {
			wait(t, d.acked, "Acked")
		}
	}
}

// A conversation that ends after any octet, gently or not, ends the queue pair: what
// came whole was handed over, what was acknowledged counts, and nothing else.
func TestDirectEndsAtEveryOctet(t *testing.T) {
	t.Parallel()
	dev := openDevice(t, Config{EventLoops: 1})
	for _, reset := range []bool{false, true} {
		for cut := 0; ; cut++ {
			e := newEnd(t, dev, QPConfig{})
			d := newDirectRecorder(t)
			x := openExtendedCRC(t, e, cut%2 == 0, cut%3 == 0, allCaps, SharedParams{Direct: &DirectParams{Number: directNum, Sink: d}})
			x.sync()
			e.qp.DirectReady()
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
				x.frame(x.tell(credit(1, 9))), x.frame(x.message(directNum, 0, true, []byte("whole"))),
				x.frame(x.message(directNum, 0, false, []byte("first "))), x.frame(x.tell(credit(2, 9))),
				x.frame(x.message(directNum, 6, true, []byte("second"))),
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
			if n := e.qp.DirectAcked(); n != acked && !(reset && n < acked) {
				t.Errorf("after %d octets, reset %v: %d bytes acknowledged, not %d", cut, reset, n, acked)
			}
			_ = x.conn.Close()
			_ = e.qp.Close()
		}
	}
}

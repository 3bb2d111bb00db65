//go:build !live

package iwarp

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"syscall"
	"testing"

	"github.com/rds-go/rds/mr"
	"github.com/rds-go/rds/transport/iwarp/rdmap"
)

// Requests posted to a queue pair in error complete as flushed, behind those
// that were there, in order.
func TestPostInErrorIsFlushed(t *testing.T) {
	bubble(t, func(t *testing.T) {
		e := newEnd(t, openDevice(t, Config{EventLoops: 1}), QPConfig{})
		openRaw(t, e, true, true)
		for i := range uint64(3) {
			e.send(WorkRequest{ID: i})
			e.post(100 + i)
		}
		e.qp.Fail()
		if err := e.ended(); !errors.Is(err, ErrClosed) {
			t.Error(err)
		}
		for i := range uint64(3) {
			e.send(WorkRequest{ID: 3 + i}, WorkRequest{ID: 50 + i})
			e.post(103 + i)
		}
		var sent, received []uint64
		for _, c := range e.rest() {
			if c.Status != Flushed {
				t.Errorf("%+v", c)
			}
			if c.ID < 100 {
				sent = append(sent, c.ID)
			} else {
				received = append(received, c.ID)
			}
		}
		same(t, "completed", fmt.Sprint(sent, received), "[0 1 2 3 50 4 51 5 52] [100 101 102 103 104 105]")
	})
}

// Local faults: the request at fault has its status, those before it have
// succeeded, those behind it are flushed.
func TestLocalFaults(t *testing.T) {
	t.Parallel()
	for _, crc := range []bool{true, false} {
		for name, bad := range map[string]func(v *victim) WorkRequest{
			"bad key": func(v *victim) WorkRequest {
				return WorkRequest{SGE: []SGE{{Key: v.open.Key() ^ 1, Addr: v.open.Base(), Len: 8}}}
			},
			"out of bounds":   func(v *victim) WorkRequest { return WorkRequest{SGE: []SGE{v.open.SGE(1<<20-7, 8)}} },
			"of another PD":   func(v *victim) WorkRequest { return WorkRequest{SGE: []SGE{v.foreign.SGE(0, 8)}} },
			"in the 2nd part": func(v *victim) WorkRequest { return WorkRequest{SGE: []SGE{v.open.SGE(0, 8), v.foreign.SGE(0, 8)}} },
			"long":            func(v *victim) WorkRequest { return WorkRequest{SGE: []SGE{v.open.SGE(1, 1<<20)}} },
			"write":           func(v *victim) WorkRequest { return WorkRequest{Op: OpWrite, SGE: []SGE{v.open.SGE(1<<20-7, 8)}} },
		} {
			inBubble(t, fmt.Sprintf("crc %v/%s", crc, name), func(t *testing.T) {
				v := newVictim(t, Config{EventLoops: 1})
				p := openRaw(t, v.end, false, crc)
				w := bad(v)
				w.ID = 2
				v.send(WorkRequest{ID: 1, Flags: Signaled, Inline: []byte("before")}, w, WorkRequest{ID: 3})
				if s := p.segment(rdmap.OpSend); string(s.Payload) != "before" {
					t.Errorf("%q", s.Payload)
				}
				p.gone() // it has read everything then
				v.want(1, Success, OpSend)
				if c := v.want(2, LocalProtection, w.Op); mr.Fault(c.Vendor) == mr.None {
					t.Error("the fault is not told")
				}
				v.want(3, Flushed, OpSend)
			})
		}
	}
}

// A receive request whose memory is not there fails when the message comes; the
// peer hears of a failure that is ours.
func TestReceiveIntoBadMemory(t *testing.T) {
	t.Parallel()
	for _, s := range streams {
		for name, sge := range map[string]func(v *victim) []SGE{
			"dead key":      func(v *victim) []SGE { return []SGE{{Key: v.recv.Key() ^ 1, Addr: v.recv.Base(), Len: 64}} },
			"read-only":     func(v *victim) []SGE { return []SGE{v.readOnly.SGE(0, 64)} },
			"another PD":    func(v *victim) []SGE { return []SGE{v.foreign.SGE(0, 64)} },
			"second piece":  func(v *victim) []SGE { return []SGE{v.recv.SGE(0, 2), v.foreign.SGE(0, 64)} },
			"out of bounds": func(v *victim) []SGE { return []SGE{v.recv.SGE(8190, 64)} },
		} {
			inBubble(t, s.name+"/"+name, func(t *testing.T) {
				v := newVictim(t, Config{EventLoops: 1})
				v.post(100, sge(v)...)
				v.post(101, v.recv.SGE(0, 64))
				p := openStream(t, v.end, s)
				p.send(p.sendMessage([]byte("message")))
				p.terminate(rdmap.CauseCatastrophic)
				if c := v.want(100, LocalProtection, OpReceive); mr.Fault(c.Vendor) == mr.None {
					t.Error("the fault is not told")
				}
				v.want(101, Flushed, OpReceive)
				if v.foreign.Bytes()[0] != untouched || v.readOnly.Bytes()[0] != untouched {
					t.Error("placed all the same")
				}
			})
		}
	}
}

// Objects in use cannot be closed, and nothing can be made on a closed device.
func TestObjectsInUse(t *testing.T) {
	t.Parallel()
	d := openDevice(t, Config{EventLoops: 1})
	e := newEnd(t, d, QPConfig{})
	m := e.reg(64, 0)
	for name, f := range map[string]func() error{"PD": e.pd.Close, "CQ": e.cq.Close} {
		if err := f(); !errors.Is(err, ErrBusy) || !errors.Is(err, syscall.EBUSY) {
			t.Errorf("%s in use: %v", name, err)
		}
	}
	if err := e.qp.Close(); err != nil {
		t.Error(err)
	}
	wantErr(t, "second Close", e.qp.Close(), ErrClosed)
	wantErr(t, "PD with a region", e.pd.Close(), ErrBusy)
	if err := m.Dereg(context.Background()); err != nil {
		t.Error(err)
	}
	wantErr(t, "second Dereg", m.Dereg(context.Background()), syscall.EINVAL)
	if err := errors.Join(e.pd.Close(), e.cq.Close(), d.Close()); err != nil {
		t.Error(err)
	}
	_, pdErr := d.AllocPD()
	_, lnErr := d.Listen(netip.AddrPortFrom(loopback, 0))
	_, qpErr := e.pd.CreateQP(QPConfig{SendCQ: e.cq, RecvCQ: e.cq})
	for _, err := range []error{pdErr, lnErr, qpErr, d.Close()} {
		if !errors.Is(err, ErrClosed) {
			t.Errorf("on a closed device: %v", err)
		}
	}
}

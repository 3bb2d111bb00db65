package work

import (
	"bytes"
	"reflect"
	"testing"

	"github.com/rds-go/rds/mr"
	"github.com/rds-go/rds/transport/iwarp"
)

// same compares what records carry.
func same(a, b *iwarp.WorkRequest) bool {
	x, y := *a, *b
	if len(x.SGE) != len(y.SGE) || len(x.SGE) > 0 && !reflect.DeepEqual(x.SGE, y.SGE) || !bytes.Equal(x.Inline, y.Inline) {
		return false
	}
	x.SGE, y.SGE, x.Inline, y.Inline = nil, nil, nil, nil
	return reflect.DeepEqual(x, y)
}

func TestRequestsGoThroughRecords(t *testing.T) {
	sge := []iwarp.SGE{{Key: 0x101, Addr: 1 << 40, Len: 1}, {Key: 2, Addr: 3, Len: 4}, {Key: 5, Addr: 6, Len: 7}, {Key: 8, Addr: 9, Len: 1 << 31}}
	for _, w := range []iwarp.WorkRequest{
		{},
		{ID: 1<<64 - 1, Op: iwarp.OpSend, Flags: iwarp.Signaled | iwarp.Fence, Queue: 0xfffffe, SGE: sge, Writes: 16},
		{ID: 2, Op: iwarp.OpSendInvalidate, Queue: 7, Invalidate: mr.Key(1<<32 - 1), Inline: bytes.Repeat([]byte{0xa5}, MaxInline)},
		{ID: 3, Op: iwarp.OpWrite, SGE: sge[:2], RemoteKey: 77, RemoteAddr: 1<<63 + 5},
		{ID: 4, Op: iwarp.OpFetchAdd, SGE: sge[:1], RemoteKey: 1, RemoteAddr: 8, Add: 1, AddMask: 2},
		{ID: 5, Op: iwarp.OpCompareSwap, SGE: sge[:1], Compare: 3, CompareMask: 4, Swap: 5, SwapMask: 6},
		{ID: 6, Op: iwarp.OpImmediate, Queue: 9, Immediate: 1<<64 - 2},
	} {
		b := bytes.Repeat([]byte{0xff}, RequestSize)
		var got Request
		if !PutRequest(b, &w) || !got.Load(b) || !same(&w, &got.WorkRequest) {
			t.Errorf("%+v came as %+v", w, got.WorkRequest)
		}
	}
	for _, w := range []iwarp.WorkRequest{
		{SGE: append(sge, sge...)}, {Inline: make([]byte, MaxInline+1)}, {Local: [][]byte{{1}}}, {SGE: sge[:1], Inline: []byte{1}},
		{Op: iwarp.OpFetchAdd, SGE: sge[:2]}, {Writes: 256},
	} {
		if PutRequest(make([]byte, RequestSize), &w) {
			t.Errorf("%+v has a record", w)
		}
	}
}

func TestCompletionsGoThroughRecords(t *testing.T) {
	for _, c := range []iwarp.Completion{
		{},
		{ID: 1<<64 - 1, Status: iwarp.RemoteAccess, Op: iwarp.OpImmediate, Solicited: true, Queue: 0xfffffe, Len: 1<<32 - 1, Vendor: 3, Invalidated: 0x101,
			Initiator: 0x400000, Immediate: 1<<64 - 2},
	} {
		b := bytes.Repeat([]byte{0xff}, CompletionSize)
		PutCompletion(b, &c)
		if got := LoadCompletion(b); got != c {
			t.Errorf("%+v came as %+v", c, got)
		}
	}
}

// Whatever a record says, what is read from it is within bounds, and is what a record made of it says.
func FuzzRequest(f *testing.F) {
	b := make([]byte, RequestSize)
	f.Add(b)
	w := iwarp.WorkRequest{Op: iwarp.OpSend, SGE: make([]iwarp.SGE, 4)}
	PutRequest(b, &w)
	f.Add(bytes.Clone(b))
	f.Fuzz(func(t *testing.T, b []byte) {
		var r, again Request
		if !r.Load(b) {
			return
		}
		if len(r.SGE) > iwarp.MaxSGE || len(r.Inline) > MaxInline || len(r.SGE) > 0 && len(r.Inline) > 0 || r.Op > iwarp.OpReceive {
			t.Fatalf("%+v", r.WorkRequest)
		}
		out := make([]byte, RequestSize)
		if !PutRequest(out, &r.WorkRequest) || !again.Load(out) || !same(&r.WorkRequest, &again.WorkRequest) {
			t.Fatalf("%+v came as %+v", r.WorkRequest, again.WorkRequest)
		}
	})
}

//go:build !live

package xrc

import (
	"bytes"
	"encoding/hex"
	"errors"
	"reflect"
	"testing"

	"github.com/rds-go/rds/xrc/objects"
)

// records are one of each kind.
var records = []record{
	{kind: recordGone, refs: []objects.Ref{initiator, target}},
	{kind: recordAsk, id: 3, pairs: []objects.Pair{{Ours: initiator, Theirs: target}}},
	{kind: recordMissing, id: 3, refs: []objects.Ref{target}},
	{kind: recordInquire, id: 4, queue: 0x100, link: 9, numbers: []uint32{1, 2, 0xFFFFFFFF}},
	{kind: recordDelivered, id: 4, queue: 0x100, link: 9, numbers: []uint32{1}, unknown: true},
	{kind: recordClosed, numbers: []uint32{0x100, 0x101}},
	{kind: recordLimits, limits: []targetLimits{{target, limits{6, 31}, 200}, {target, limits{}, 0}}},
	{kind: recordRefused, refs: []objects.Ref{target}},
	{kind: recordBye},
}

func TestRecordsComeBackAsTheyWere(t *testing.T) {
	for _, r := range records {
		var got record
		b := append(r.appendTo(nil), "rest"...)
		rest, err := got.decode(b)
		if err != nil || string(rest) != "rest" || !reflect.DeepEqual(got, r) {
			t.Errorf("%+v: %+v, %v", r, got, err)
		}
		for n := range len(b) - len(rest) {
			if _, err := got.decode(b[:n]); !errors.Is(err, errRecord) {
				t.Errorf("kind %d cut to %d: %v", r.kind, n, err)
			}
		}
	}
	if n := len((&record{kind: recordAsk, pairs: make([]objects.Pair, maxItems)}).appendTo(nil)); n > controlLen {
		t.Errorf("a full record has %d octets", n)
	}
}

// The layout is as record.go draws it.
func TestRecordLayout(t *testing.T) {
	const want = "78726346" + "01" + "03" + "0034" + "00000003" + "00000000" + "0000000000000000" + "0000000000000000" + "00" + "00" + "0001" +
		"00400001" + "00000007" + "00800002" + "00000008"
	if got := hex.EncodeToString(records[1].appendTo(nil)); got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
}

func FuzzRecord(f *testing.F) {
	for _, r := range records {
		f.Add(r.appendTo(nil))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var r, again record
		rest, err := r.decode(b)
		if err != nil {
			return
		}
		c := r.appendTo(nil)
		if !bytes.Equal(c, b[:len(b)-len(rest)]) {
			t.Errorf("%x became %x", b, c)
		}
		if _, err := again.decode(c); err != nil || !reflect.DeepEqual(r, again) {
			t.Errorf("%+v became %+v, %v", r, again, err)
		}
	})
}

func TestLedger(t *testing.T) {
	var l ledger
	for _, n := range []uint32{0xFFFFFFFE, 0xFFFFFFFF, 0, 1, 4, 5, 9} {
		l.note(0x100, n)
	}
	got, known := l.came(0x100, []uint32{0xFFFFFFFF, 0, 2, 3, 4, 8, 9, 10})
	if !known || !reflect.DeepEqual(got, []uint32{0xFFFFFFFF, 0, 4, 9}) {
		t.Errorf("%v, %v", got, known)
	}
	if got, known := l.came(0x101, []uint32{1}); !known || got != nil {
		t.Errorf("%v, %v", got, known)
	}
	// Far more gaps than are kept: what is forgotten is not said to be missing.
	for n := uint32(20); n < 20+4*maxRuns; n += 2 {
		l.note(0x100, n)
	}
	if got := len(l.queues[0x100].list); got != maxRuns {
		t.Errorf("%d runs are kept", got)
	}
	if _, known := l.came(0x100, []uint32{20}); known {
		t.Error("what was forgotten is known")
	}
	if got, known := l.came(0x100, []uint32{20 + 4*maxRuns - 2}); !known || len(got) != 1 {
		t.Errorf("%v, %v", got, known)
	}
}

package xctl

import (
	"bytes"
	"errors"
	"testing"

	"github.com/rds-go/rds/transport/iwarp/ddp"
	"github.com/rds-go/rds/transport/iwarp/rdmap"
)

func TestBadRecordsEndTheConnection(t *testing.T) {
	t.Parallel()
	ping := AppendTo(nil, Ping{7})
	for name, bad := range map[string][]byte{
		"length 0":                  {7, 0, 0, 0},
		"length 2":                  {99, 0, 0, 2, 0, 0, 0, 0},
		"not a multiple of 4":       {99, 0, 0, 6, 0, 0},
		"past the end":              {99, 0, 0, 8, 0, 0, 0},
		"a header cut off":          {7, 0, 0},
		"too short for its type":    {7, 0, 0, 8, 0, 0, 0, 0},
		"too long for its type":     append([]byte{6, 0, 0, 12}, make([]byte, 8)...),
		"CREDIT for queue 0":        append([]byte{1, 0, 0, 16}, make([]byte, 12)...),
		"SRQ record of the control": {9, 0, 0, 12, 0x58, 0xff, 0xff, 0xff, 1, 0, 0, 0},
		"HOME without a queue":      {10, 0, 0, 12, 0, 0, 0, 7, 1, 0, 0, 0},
	} {
		list, err := collect(append(bytes.Clone(ping), bad...))
		if !errors.Is(err, rdmap.CauseOpcode) || len(list) != 1 || list[0] != (Ping{7}) {
			t.Errorf("%s: %v, %v", name, list, err)
		}
	}
}

func TestUnknownRecordsAreSkipped(t *testing.T) {
	t.Parallel()
	b := append([]byte{0, 0, 0, 4, 200, 0xff, 0, 12, 1, 2, 3, 4, 5, 6, 7, 8}, AppendTo(nil, WriteAck{5})...)
	b = append(b, 201, 0, 0, 4)
	list, err := collect(b)
	if err != nil || len(list) != 1 || list[0] != (WriteAck{5}) {
		t.Errorf("%v, %v", list, err)
	}
	flags := AppendTo(nil, Pong{9})
	flags[1] = 0xff // reserved
	if list, err = collect(flags); err != nil || len(list) != 1 || list[0] != (Pong{9}) {
		t.Errorf("%v, %v", list, err)
	}
	if list, err = collect(nil); err != nil || list != nil {
		t.Errorf("%v, %v", list, err)
	}
}

func TestControlMessagesAreOneSegmentInOrder(t *testing.T) {
	t.Parallel()
	segment := func(f func(h *ddp.Untagged), n int) *rdmap.Segment {
		h := Header(1)
		f(&h)
		return &rdmap.Segment{Op: rdmap.OpPrivate, Untagged: h, Payload: make([]byte, n)}
	}
	for name, c := range map[string]struct {
		s    *rdmap.Segment
		want error
	}{
		"good":           {segment(func(*ddp.Untagged) {}, MaxMessage), nil},
		"empty":          {segment(func(*ddp.Untagged) {}, 0), nil},
		"too long":       {segment(func(*ddp.Untagged) {}, MaxMessage+4), rdmap.CauseOpcode},
		"not the last":   {segment(func(h *ddp.Untagged) { h.Last = false }, 8), rdmap.CauseOpcode},
		"another offset": {segment(func(h *ddp.Untagged) { h.MO = 4 }, 8), ddp.ErrInvalidMO},
		"another number": {segment(func(h *ddp.Untagged) { h.MSN = 2 }, 8), ddp.ErrMSNRange},
	} {
		var q ddp.Queue
		if err := CheckHeader(c.s, &q); err != c.want {
			t.Errorf("%s: %v", name, err)
		}
	}
}

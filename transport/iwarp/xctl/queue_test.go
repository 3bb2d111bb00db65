package xctl

import (
	"testing"

	"github.com/rds-go/rds/transport/iwarp/ddp"
	"github.com/rds-go/rds/transport/iwarp/rdmap"
)

func TestQueueNumbersNameSRQs(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		qn uint32
		n  SRQN
		ok bool
	}{
		{0x58000001, 1, true},
		{0x58FFFFFE, MaxSRQN, true},
		{0x58000000, 0, false},
		{Control, 0xFFFFFF, false},
		{0, 0, false},
		{1, 1, false},
		{0x57000001, 1, false},
		{0x59000001, 1, false},
		{0xFFFFFFFF, 0xFFFFFF, false},
	} {
		n, ok := SRQOf(c.qn)
		if ok != c.ok || ok && (n != c.n || n.QN() != c.qn) || n.Valid() != (n != 0 && n != 0xFFFFFF) {
			t.Errorf("%#x is %#x, %v", c.qn, n, ok)
		}
	}
	if SRQN(1 << 24).Valid() {
		t.Error("25 bits")
	}
}

func TestUntaggedMessagesFindTheirQueue(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		op    rdmap.Op
		qn    uint32
		route Route
		err   error
	}{
		{rdmap.OpSend, 0, RouteRFC, nil},
		{rdmap.OpReadRequest, 1, RouteRFC, nil},
		{rdmap.OpTerminate, 2, RouteRFC, nil},
		{rdmap.OpSend, 0x58000001, RouteSRQ, nil},
		{rdmap.OpImmediate, 0x58FFFFFE, RouteSRQ, nil},
		{rdmap.OpPrivate, Control, RouteControl, nil},
		{rdmap.OpPrivate, 0, 0, ddp.ErrInvalidQN},
		{rdmap.OpPrivate, 0x58000001, 0, ddp.ErrInvalidQN},
		{rdmap.OpSend, Control, 0, ddp.ErrInvalidQN},
		{rdmap.OpSend, 4, 0, ddp.ErrInvalidQN},
		{rdmap.OpSend, 0x58000000, 0, ddp.ErrInvalidQN},
		{rdmap.OpSend, 0x59000001, 0, ddp.ErrInvalidQN},
	} {
		if route, err := RouteOf(c.op, c.qn); route != c.route || err != c.err {
			t.Errorf("%v on %#x: %v, %v", c.op, c.qn, route, err)
		}
	}
}

func TestNamesOfValues(t *testing.T) {
	t.Parallel()
	for got, want := range map[string]string{
		TypeReadError.String():              "RDERR",
		TypeRefused.String():                "REFUSED",
		Type(200).String():                  "record type 200",
		NAKDependency.String():              "dependency failed",
		NAKCode(0).String():                 "NAK code 0",
		NAKCode(8).String():                 "NAK code 8",
		(CapCredit | CapAtomics).String():   "credit, atomics",
		(CapTarget | Caps(0x8000)).String(): "target, 0x8000",
		Caps(0).String():                    "none",
		StepReplay.String():                 "replay",
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestMessageNumbersWrap(t *testing.T) {
	t.Parallel()
	if !after(1, 0xFFFFFFFF) || after(0xFFFFFFFF, 1) || after(5, 5) || latest(2, 0xFFFFFFF0) != 2 || latest(7, 5) != 7 {
		t.Error("numbers do not wrap")
	}
}

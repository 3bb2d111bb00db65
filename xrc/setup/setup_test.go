package setup

import (
	"bytes"
	"encoding/binary"
	"errors"
	"net/netip"
	"reflect"
	"strings"
	"syscall"
	"testing"

	"github.com/rds-go/rds/internal/hexfile"
	"github.com/rds-go/rds/transport/iwarp/xctl"
	"github.com/rds-go/rds/xrc"
)

func aConnect() *Connect {
	return &Connect{
		ID: 9, Host: netip.MustParseAddr("192.0.2.1"), Incarnation: 0x0123456789abcdef,
		Initiator: QP{0x400001, 3}, MTU: 4096, RdAtomic: 16, PSN: 0xabcdef, Service: 0x1001,
	}
}

func aConnected() *Connected {
	return &Connected{
		ID: 9, Initiator: QP{0x400001, 3}, Incarnation: 0xfedcba9876543210, Target: QP{0x800002, 0x11}, Reused: true,
		MTU: 2048, RdAtomic: 8, PSN: 0x123456, Queue: Queue{0x123, 0xa1a2a3a4a5a6a7a8},
	}
}

func goldens() map[string]Message {
	join, resume := aConnect(), aConnect()
	join.ID, join.Mode, join.Service, join.Target = 10, ModeJoin, 0x1003, QP{0x800002, 0x11}
	resume.ID, resume.Mode, resume.Target = 11, ModeResume, QP{0x800002, 0x11}
	resume.Host, resume.PSN, resume.Next = netip.MustParseAddr("2001:db8::1"), 0xfffffe, 2
	return map[string]Message{
		"resolve":             &Resolve{7, 0x1001},
		"resolved":            &Resolved{7, Found, 0x1001, Queue{0x123, 0xa1a2a3a4a5a6a7a8}},
		"resolved-not-found":  &Resolved{8, NotFound, 0x1002, Queue{}},
		"connect":             aConnect(),
		"connect-join":        join,
		"connect-resume":      resume,
		"connected":           aConnected(),
		"connected-not-ready": &Connected{ID: 10, Status: NotReady, Initiator: QP{0x400001, 3}, Incarnation: 0xfedcba9876543210},
	}
}

// XRC-REQ-16: what the exchange carries, octet for octet.
func TestXRCREQ16GoldenMessages(t *testing.T) {
	t.Parallel()
	for name, m := range goldens() {
		want := hexfile.Read(t, name)
		if err := m.Validate(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		got := m.AppendTo(nil)
		if !bytes.Equal(got, want) {
			t.Errorf("%s is\n%x, want\n%x", name, got, want)
		}
		back, rest, err := Decode(append(want, "application"...))
		if err != nil || !reflect.DeepEqual(back, m) || string(rest) != "application" {
			t.Errorf("%s: %+v, %q, %v", name, back, rest, err)
		}
		if len(want) > MaxLen || back.Type() != Type(want[5]) {
			t.Errorf("%s: %d octets, %v", name, len(want), back.Type())
		}
	}
	if MaxLen != xctl.MaxPrivate {
		t.Errorf("%d octets, but %d beside a block", MaxLen, xctl.MaxPrivate)
	}
}

// XRC-REQ-17, XRC-REQ-19: the answers are told apart, and are those of package
// xrc.
func TestXRCREQ17StatusesAreDistinct(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for s, want := range map[Status]xrc.Status{
		Found: xrc.StatusFound, NotFound: xrc.StatusNotFound, WrongService: xrc.StatusWrongService,
		Rejected: xrc.StatusRejected, Busy: xrc.StatusBusy, NotReady: xrc.StatusNotReady,
	} {
		if uint8(s) != uint8(want) || seen[s.String()] || strings.Contains(s.String(), "status") {
			t.Errorf("%v is %v", s, want)
		}
		seen[s.String()] = true
		m := &Resolved{ID: 1, Status: s}
		if s == Found {
			m.Queue.SRQN = 1
		}
		back, _, err := Decode(m.AppendTo(nil))
		if err != nil || back.(*Resolved).Status != s {
			t.Errorf("%v becomes %v, %v", s, back, err)
		}
	}
	for got, want := range map[string]string{
		Status(99).String(): "status 99", Mode(3).String(): "mode 3", ModeJoin.String(): "join",
		Type(0).String(): "type 0", TypeConnected.String(): "connected",
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	// A status of the future is a refusal.
	if _, _, err := Decode((&Resolved{Status: 200}).AppendTo(nil)); err != nil {
		t.Error(err)
	}
}

func TestBadMessagesAreRefused(t *testing.T) {
	t.Parallel()
	connect := hexfile.Read(t, "connect")
	edit := func(f func(b []byte)) []byte { b := bytes.Clone(connect); f(b); return b }
	for name, c := range map[string]struct {
		b    []byte
		want error
	}{
		"nothing":               {nil, ErrMagic},
		"half the magic":        {connect[:2], ErrMagic},
		"something else":        {edit(func(b []byte) { b[3] = 's' }), ErrMagic},
		"half a header":         {connect[:7], ErrLength},
		"version 0":             {edit(func(b []byte) { b[4] = 0 }), ErrVersion},
		"version 2":             {edit(func(b []byte) { b[4] = 2 }), ErrVersion},
		"type 0":                {edit(func(b []byte) { b[5] = 0 }), ErrType},
		"type 5":                {edit(func(b []byte) { b[5] = 5 }), ErrType},
		"cut off":               {connect[:len(connect)-1], ErrLength},
		"length 0":              {edit(func(b []byte) { b[7] = 0 }), ErrLength},
		"length of another":     {edit(func(b []byte) { b[7] = 64 }), ErrLength},
		"length odd":            {append(edit(func(b []byte) { b[7]++ }), 0), ErrLength},
		"length beyond":         {edit(func(b []byte) { b[6] = 0xff }), ErrLength},
		"mode 3":                {edit(func(b []byte) { b[12] = 3 }), ErrField},
		"new with a target":     {edit(func(b []byte) { b[67] = 1 }), ErrField},
		"new with a next PSN":   {edit(func(b []byte) { b[55] = 1 }), ErrField},
		"join without a target": {edit(func(b []byte) { b[12] = 1 }), ErrField},
		"MTU 255":               {edit(func(b []byte) { binary.BigEndian.PutUint16(b[14:], 255) }), ErrField},
		"no host":               {edit(func(b []byte) { clear(b[16:32]) }), ErrField},
		"no IPv4 host":          {edit(func(b []byte) { clear(b[28:32]) }), ErrField},
		"a group of hosts":      {edit(func(b []byte) { b[28] = 224 }), ErrField},
		"no incarnation":        {edit(func(b []byte) { clear(b[32:40]) }), ErrField},
		"no initiator":          {edit(func(b []byte) { clear(b[40:44]) }), ErrField},
		"initiator of 25 bits":  {edit(func(b []byte) { b[40] = 1 }), ErrField},
		"no generation":         {edit(func(b []byte) { clear(b[44:48]) }), ErrField},
		"PSN of 25 bits":        {edit(func(b []byte) { b[48] = 1 }), ErrField},
	} {
		m, rest, err := Decode(c.b)
		if !errors.Is(err, c.want) || m != nil || !bytes.Equal(rest, c.b) {
			t.Errorf("%s: %+v, %v", name, m, err)
		}
		if !errors.Is(err, syscall.EPROTO) && !errors.Is(err, syscall.EBADMSG) && !errors.Is(err, syscall.EINVAL) {
			t.Errorf("%s: %v has no errno", name, err)
		}
	}
	for name, m := range map[string]Message{
		"resume backwards":           &Connect{Mode: ModeResume, PSN: 5, Next: 4},
		"a zoned host":               &Connect{Host: netip.MustParseAddr("fe80::1%eth0")},
		"found without a queue":      &Resolved{},
		"found the control queue":    &Resolved{Queue: Queue{SRQN: 0xFFFFFF}},
		"not found and a queue":      &Resolved{Status: NotFound, Queue: Queue{SRQN: 1}},
		"connected without a target": &Connected{Initiator: QP{1, 1}, Incarnation: 1, MTU: 256},
		"refused and a target":       &Connected{Status: Busy, Initiator: QP{1, 1}, Incarnation: 1, Target: QP{1, 1}},
		"queue 0 with a tag":         &Connected{Initiator: QP{1, 1}, Incarnation: 1, MTU: 256, Target: QP{1, 1}, Queue: Queue{Tag: 1}},
	} {
		if err := m.Validate(); !errors.Is(err, ErrField) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestLongerMessagesAreUnderstood(t *testing.T) {
	t.Parallel()
	b := append(hexfile.Read(t, "connected"), 1, 2, 3, 4, 5, 6, 7, 8)
	b[7] += 8
	m, rest, err := Decode(append(b, 'x'))
	if err != nil || !reflect.DeepEqual(m, aConnected()) || string(rest) != "x" {
		t.Errorf("%+v, %q, %v", m, rest, err)
	}
}

func TestEncodingDoesNotAllocate(t *testing.T) {
	all := goldens()
	buf := make([]byte, 0, MaxLen)
	if n := testing.AllocsPerRun(100, func() {
		for _, m := range all {
			m.AppendTo(buf)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
	// Foreign private data is told apart for nothing.
	other := []byte("some other application's private data")
	if n := testing.AllocsPerRun(100, func() {
		if _, _, err := Decode(other); err != ErrMagic {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations for what is something else", n)
	}
}

func FuzzDecode(f *testing.F) {
	for name := range goldens() {
		f.Add(hexfile.Read(f, name))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		m, rest, err := Decode(b)
		if err != nil {
			return
		}
		if err := m.Validate(); err != nil || !bytes.HasSuffix(b, rest) || len(rest) == len(b) {
			t.Fatalf("%x: %+v, %v", b, m, err)
		}
		wire := m.AppendTo(nil)
		again, rest, err := Decode(wire)
		if err != nil || len(rest) != 0 || !reflect.DeepEqual(again, m) {
			t.Fatalf("%+v becomes %+v, %x, %v", m, again, rest, err)
		}
	})
}

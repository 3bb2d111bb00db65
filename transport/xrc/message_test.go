//go:build !live

package xrc

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
	"github.com/rds-go/rds/mr"
	"github.com/rds-go/rds/transport/iwarp/xctl"
	"github.com/rds-go/rds/xrc/objects"
)

func anInitiator(number, generation uint32) objects.Ref {
	return objects.Ref{Kind: objects.KindOf(number), Number: number, Generation: generation}
}

func aConnect() *connect {
	return &connect{
		host: netip.MustParseAddr("192.0.2.1"), incarnation: 0x0123456789abcdef,
		initiator: anInitiator(0x400001, 3), mtu: 4096, reads: 16, echo: 0xabcdef, service: 0x1001,
	}
}

func aConnected() *connected {
	return &connected{
		initiator: anInitiator(0x400001, 3), incarnation: 0xfedcba9876543210, target: anInitiator(0x800002, 0x11), reused: true,
		mtu: 2048, reads: 8, limits: limits{mr.RemoteRead | mr.RemoteWrite, 10}, echo: 0x123456, queue: objects.Answer{SRQN: 0x123, Tag: 0xa1a2a3a4a5a6a7a8},
	}
}

func goldens() map[string]message {
	join, resume := aConnect(), aConnect()
	join.mode, join.service, join.target = modeJoin, 0x1003, anInitiator(0x800002, 0x11)
	resume.mode, resume.target = modeResume, anInitiator(0x800002, 0x11)
	resume.host, resume.echo = netip.MustParseAddr("2001:db8::1"), 0xfffffe
	return map[string]message{
		"resolve":             &resolve{0x1001},
		"resolved":            &resolved{objects.StatusFound, 0x1001, objects.Answer{SRQN: 0x123, Tag: 0xa1a2a3a4a5a6a7a8}},
		"resolved-not-found":  &resolved{objects.StatusNotFound, 0x1002, objects.Answer{}},
		"connect":             aConnect(),
		"connect-join":        join,
		"connect-resume":      resume,
		"connected":           aConnected(),
		"connected-not-ready": &connected{status: objects.StatusNotReady, initiator: anInitiator(0x400001, 3), incarnation: 0xfedcba9876543210},
	}
}

// goldenID is the ID of a message of goldens.
func goldenID(name string) uint32 {
	return map[string]uint32{"resolve": 7, "resolved": 7, "resolved-not-found": 8, "connect": 9, "connected": 9,
		"connect-join": 10, "connected-not-ready": 10, "connect-resume": 11}[name]
}

// XRC-REQ-16: what the exchange carries, octet for octet.
func TestXRCREQ16GoldenMessages(t *testing.T) {
	t.Parallel()
	for name, m := range goldens() {
		want := hexfile.Read(t, name)
		if err := m.validate(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		got := appendMessage(nil, goldenID(name), m)
		if !bytes.Equal(got, want) {
			t.Errorf("%s is\n%x, want\n%x", name, got, want)
		}
		id, back, rest, err := decodeMessage(append(want, "application"...))
		if err != nil || id != goldenID(name) || !reflect.DeepEqual(back, m) || string(rest) != "application" {
			t.Errorf("%s: %+v, %q, %v", name, back, rest, err)
		}
		if kind, n := m.kind(); len(want) != n || kind != messageType(want[5]) || len(want) > controlLen || helloSize+resolveLen > xctl.MaxPrivate {
			t.Errorf("%s: %d octets, type %d", name, len(want), kind)
		}
	}
}

// XRC-REQ-17, XRC-REQ-19: the answers are told apart.
func TestXRCREQ17StatusesAreDistinct(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for s := objects.StatusFound; s <= objects.StatusNotReady; s++ {
		if seen[s.String()] || strings.HasPrefix(s.String(), "status") {
			t.Errorf("status %d is %v", s, s)
		}
		seen[s.String()] = true
		m := &resolved{status: s}
		if s == objects.StatusFound {
			m.queue.SRQN = 1
		}
		_, back, _, err := decodeMessage(appendMessage(nil, 1, m))
		if err != nil || back.(*resolved).status != s {
			t.Errorf("%v becomes %v, %v", s, back, err)
		}
	}
	// A status of the future is a refusal.
	if _, _, _, err := decodeMessage(appendMessage(nil, 0, &resolved{status: 200})); err != nil {
		t.Error(err)
	}
}

func TestBadMessagesAreRefused(t *testing.T) {
	t.Parallel()
	golden := hexfile.Read(t, "connect")
	edit := func(f func(b []byte)) []byte { b := bytes.Clone(golden); f(b); return b }
	for name, c := range map[string]struct {
		b    []byte
		want error
	}{
		"nothing":               {nil, errMagic},
		"half the magic":        {golden[:2], errMagic},
		"something else":        {edit(func(b []byte) { b[3] = 's' }), errMagic},
		"half a header":         {golden[:7], errLength},
		"version 0":             {edit(func(b []byte) { b[4] = 0 }), errVersion},
		"version 2":             {edit(func(b []byte) { b[4] = 2 }), errVersion},
		"type 0":                {edit(func(b []byte) { b[5] = 0 }), errType},
		"type 5":                {edit(func(b []byte) { b[5] = 5 }), errType},
		"cut off":               {golden[:len(golden)-1], errLength},
		"length 0":              {edit(func(b []byte) { b[7] = 0 }), errLength},
		"length of another":     {edit(func(b []byte) { b[7] = 64 }), errLength},
		"length odd":            {append(edit(func(b []byte) { b[7]++ }), 0), errLength},
		"length beyond":         {edit(func(b []byte) { b[6] = 0xff }), errLength},
		"mode 3":                {edit(func(b []byte) { b[12] = 3 }), errField},
		"new with a target":     {edit(func(b []byte) { b[67] = 1 }), errField},
		"join without a target": {edit(func(b []byte) { b[12] = 1 }), errField},
		"MTU 255":               {edit(func(b []byte) { binary.BigEndian.PutUint16(b[14:], 255) }), errField},
		"no host":               {edit(func(b []byte) { clear(b[16:32]) }), errField},
		"no IPv4 host":          {edit(func(b []byte) { clear(b[28:32]) }), errField},
		"a group of hosts":      {edit(func(b []byte) { b[28] = 224 }), errField},
		"no incarnation":        {edit(func(b []byte) { clear(b[32:40]) }), errField},
		"no initiator":          {edit(func(b []byte) { clear(b[40:44]) }), errField},
		"initiator of 25 bits":  {edit(func(b []byte) { b[40] = 1 }), errField},
		"no generation":         {edit(func(b []byte) { clear(b[44:48]) }), errField},
	} {
		_, m, rest, err := decodeMessage(c.b)
		if !errors.Is(err, c.want) || m != nil || !bytes.Equal(rest, c.b) {
			t.Errorf("%s: %+v, %v", name, m, err)
		}
		if !errors.Is(err, syscall.EPROTO) && !errors.Is(err, syscall.EBADMSG) && !errors.Is(err, syscall.EINVAL) {
			t.Errorf("%s: %v has no errno", name, err)
		}
	}
	for name, m := range map[string]message{
		"a zoned host":               &connect{host: netip.MustParseAddr("fe80::1%eth0")},
		"found without a queue":      &resolved{},
		"found the control queue":    &resolved{queue: objects.Answer{SRQN: 0xFFFFFF}},
		"not found and a queue":      &resolved{status: objects.StatusNotFound, queue: objects.Answer{SRQN: 1}},
		"connected without a target": &connected{initiator: anInitiator(1, 1), incarnation: 1, mtu: 256},
		"refused and a target":       &connected{status: objects.StatusBusy, initiator: anInitiator(1, 1), incarnation: 1, target: anInitiator(1, 1)},
		"queue 0 with a tag":         &connected{initiator: anInitiator(1, 1), incarnation: 1, mtu: 256, target: anInitiator(1, 1), queue: objects.Answer{Tag: 1}},
	} {
		if err := m.validate(); !errors.Is(err, errField) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestLongerMessagesAreUnderstood(t *testing.T) {
	t.Parallel()
	b := append(hexfile.Read(t, "connected"), 1, 2, 3, 4, 5, 6, 7, 8)
	b[7] += 8
	_, m, rest, err := decodeMessage(append(b, 'x'))
	if err != nil || !reflect.DeepEqual(m, aConnected()) || string(rest) != "x" {
		t.Errorf("%+v, %q, %v", m, rest, err)
	}
}

func TestEncodingDoesNotAllocate(t *testing.T) {
	all := goldens()
	buf := make([]byte, 0, connectLen)
	if n := testing.AllocsPerRun(100, func() {
		for _, m := range all {
			_ = appendMessage(buf, 1, m)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
	// Foreign private data is told apart for nothing.
	other := []byte("some other application's private data")
	if n := testing.AllocsPerRun(100, func() {
		if _, _, _, err := decodeMessage(other); err != errMagic {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations for what is something else", n)
	}
}

func FuzzMessage(f *testing.F) {
	for name := range goldens() {
		f.Add(hexfile.Read(f, name))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		id, m, rest, err := decodeMessage(b)
		if err != nil {
			return
		}
		if err := m.validate(); err != nil || !bytes.HasSuffix(b, rest) || len(rest) == len(b) {
			t.Fatalf("%x: %+v, %v", b, m, err)
		}
		wire := appendMessage(nil, id, m)
		same, again, rest, err := decodeMessage(wire)
		if err != nil || same != id || len(rest) != 0 || !reflect.DeepEqual(again, m) {
			t.Fatalf("%+v becomes %+v, %x, %v", m, again, rest, err)
		}
	})
}

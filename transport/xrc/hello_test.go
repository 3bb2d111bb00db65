//go:build !live

package xrc

import (
	"bytes"
	"errors"
	"testing"

	"github.com/rds-go/rds/transport/iwarp/mpa"
)

func aHello() hello {
	return hello{path: 3, limit: 16, generation: 0x01020304, link: 0x1112131415161718, queue: 0x000100, initiator: anInitiator(0x400001, 5), target: anInitiator(0x800002, 6)}
}

func TestHello(t *testing.T) {
	t.Parallel()
	h := aHello()
	b := h.bytes()
	want := []byte("RDSx\x04\x03\x00\x10\x01\x02\x03\x04\x11\x12\x13\x14\x15\x16\x17\x18\x00\x00\x01\x00\x00\x40\x00\x01\x00\x00\x00\x05\x00\x80\x00\x02\x00\x00\x00\x06")
	if !bytes.Equal(b, want) {
		t.Errorf("% x, want % x", b, want)
	}
	for _, c := range []struct {
		name string
		b    []byte
		want hello
		rest string
		err  error
	}{
		{"ours", b, h, "", nil},
		{"longer", append(bytes.Clone(b), "more"...), h, "more", nil},
		{"of a later version", append([]byte("RDSx\x05"), b[5:]...), h, "", nil},
		{"of version 1", []byte("RDSx\x01\x03\x00\x00"), hello{}, "", errOldVersion},
		{"of version 3", append([]byte("RDSx\x03"), b[5:]...), hello{}, "", errOldVersion},
		{"of version 2", []byte("RDSx\x02\x03\x00\x00\x01\x02\x03\x04"), hello{}, "", errOldVersion},
		{"cut off", b[:helloSize-1], hello{}, "", errHello},
		{"too short", b[:7], hello{}, "", errHello},
		{"somebody else's", append([]byte("RDSy"), b[4:]...), hello{}, "", errHello},
		{"a question", h.question(), hello{}, "", errHello},
	} {
		if got, rest, err := parseHello(c.b); got != c.want || string(rest) != c.rest || !errors.Is(err, c.err) {
			t.Errorf("%s: %+v, %q, %v", c.name, got, rest, err)
		}
	}
	if asker, ok := asks(h.question()); !ok || asker != helloVersion {
		t.Errorf("a question of version %d, %v", asker, ok)
	}
	if asker, ok := asks([]byte("RDSx\x00\x00\x00\x00\x00\x00\x00\x00")); !ok || asker != 0 {
		t.Errorf("a question of version 2 is one of %d, %v", asker, ok)
	}
	if !h.paired() || (&hello{queue: 1}).paired() {
		t.Error("a hello with queue pairs, or without, is taken for the other")
	}
}

// A hello needs a seal: a frame that has lost its own has changed.
func TestHelloNeedsSeal(t *testing.T) {
	t.Parallel()
	b := aHello().bytes()
	for _, c := range []struct {
		name   string
		b      []byte
		sealed bool
		err    error
	}{
		{"ours", b, true, nil},
		{"without a seal", b, false, mpa.ErrSeal},
		{"of version 1", append([]byte("RDSx\x01"), b[5:]...), false, errOldVersion},
		{"somebody else's", []byte("RDSy"), false, errHello},
	} {
		if _, err := settleHello(c.b, c.sealed); !errors.Is(err, c.err) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// Whatever a peer says is a question, or a hello, or neither, and never both.
func FuzzHello(f *testing.F) {
	f.Add(aHello().bytes())
	f.Add(aHello().question())
	f.Add([]byte("RDSx"))
	f.Fuzz(func(t *testing.T, b []byte) {
		got, _, err := parseHello(b)
		if _, ok := asks(b); ok && err == nil {
			t.Errorf("% x is a question and %+v", b, got)
		}
		if again, _, err2 := parseHello(got.bytes()); err == nil && (err2 != nil || again != got) {
			t.Errorf("% x: %+v becomes %+v, %v", b, got, again, err2)
		}
	})
}

package rdma

import (
	"bytes"
	"errors"
	"testing"

	"github.com/rds-go/rds/transport/iwarp/mpa"
)

func TestHello(t *testing.T) {
	t.Parallel()
	h := hello{path: 3, generation: 0x01020304}
	b := h.bytes()
	if want := []byte{'R', 'D', 'S', 'x', 2, 3, 0, 0, 1, 2, 3, 4}; !bytes.Equal(b, want) {
		t.Errorf("% x, want % x", b, want)
	}
	for _, c := range []struct {
		name string
		b    []byte
		want hello
		err  error
	}{
		{"ours", b, h, nil},
		{"longer", append(bytes.Clone(b), 9), h, nil},
		{"without a generation", b[:8], hello{path: 3}, nil},
		{"with a part of one", b[:11], hello{path: 3}, nil},
		{"of version 1", append([]byte("RDSx\x01"), b[5:]...), h, nil},
		{"of a later version", append([]byte("RDSx\x03"), b[5:]...), h, nil},
		{"too short", b[:7], hello{}, errHello},
		{"somebody else's", append([]byte("RDSy"), b[4:]...), hello{}, errHello},
		{"without a version", append([]byte("RDSx\x00"), b[5:]...), hello{}, errHello},
	} {
		if got, err := parseHello(c.b); got != c.want || !errors.Is(err, c.err) {
			t.Errorf("%s: %+v, %v", c.name, got, err)
		}
	}
}

// A hello of version 2 needs a seal: a frame that has lost its own has changed.
func TestHelloNeedsSeal(t *testing.T) {
	t.Parallel()
	b := hello{path: 3}.bytes()
	old := append([]byte("RDSx\x01"), b[5:]...)
	for _, c := range []struct {
		name   string
		b      []byte
		sealed bool
		err    error
	}{
		{"ours", b, true, nil},
		{"without a seal", b, false, mpa.ErrSeal},
		{"of version 1", old, false, nil},
		{"of version 1 with a seal", old, true, nil},
		{"somebody else's", []byte("RDSy"), false, errHello},
	} {
		if _, err := settleHello(c.b, c.sealed); !errors.Is(err, c.err) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// Whatever a peer says is a question, or a hello, or neither, and never both.
func FuzzHello(f *testing.F) {
	h := hello{path: 3, generation: 0x01020304}
	f.Add(h.bytes())
	f.Add(h.say(helloAsks))
	f.Add([]byte("RDSx"))
	f.Fuzz(func(t *testing.T, b []byte) {
		got, err := parseHello(b)
		if asks(b) && err == nil {
			t.Errorf("% x is a question and %+v", b, got)
		}
		if again, err2 := parseHello(got.bytes()); err == nil && (err2 != nil || again != got) {
			t.Errorf("% x: %+v becomes %+v, %v", b, got, again, err2)
		}
	})
}

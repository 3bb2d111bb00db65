//go:build !live

package main

import (
	"bytes"
	"encoding/hex"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/rds-go/rds/mr"
)

// What rping -v of rdma-core prints is the text up to its NUL.
func TestPingTextIsThatOfRping(t *testing.T) {
	t.Parallel()
	wrapped := math.MaxInt32
	wrapped++ // negative where int has 32 bits
	for _, c := range []struct {
		n, size int
		want    string
	}{
		{0, 64, "rdma-ping-0: ABCDEFGHIJKLMNOPQRSTUVWXYZ[\\]^_`abcdefghijklmnopqr"},
		{1, 64, "rdma-ping-1: BCDEFGHIJKLMNOPQRSTUVWXYZ[\\]^_`abcdefghijklmnopqrs"},
		{10, 64, "rdma-ping-10: KLMNOPQRSTUVWXYZ[\\]^_`abcdefghijklmnopqrstuvwxyzA"},
		{57, 30, "rdma-ping-57: zABCDEFGHIJKLMN"},
		{58, 30, "rdma-ping-58: ABCDEFGHIJKLMNO"},
		{math.MaxInt32, minPing, "rdma-ping-2147483647: "},
		{wrapped, minPing, "rdma-ping-0: ABCDEFGHI"},
	} {
		b := bytes.Repeat([]byte{0xff}, c.size)
		fillPing(b, c.n)
		if string(b) != c.want+"\x00" {
			t.Errorf("ping %d of %d bytes: %q", c.n, c.size, b)
		}
		if text, ok := pingText(b); !ok || string(text) != c.want {
			t.Errorf("text of ping %d: %q, %v", c.n, text, ok)
		}
		if err := checkPing(b, make([]byte, c.size), c.n); err != nil {
			t.Error(err)
		}
	}
}

func TestCheckPingFindsEveryOctet(t *testing.T) {
	t.Parallel()
	good := make([]byte, 64)
	fillPing(good, 7)
	scratch := make([]byte, 64)
	for i := range good {
		b := bytes.Clone(good)
		b[i] ^= 1
		if err := checkPing(b, scratch, 7); !errors.Is(err, errPing) {
			t.Errorf("octet %d changed: %v", i, err)
		}
	}
	if err := checkPing(good, scratch, 8); !errors.Is(err, errPing) {
		t.Errorf("another number: %v", err)
	}
}

func TestPingWithoutEndHasNoText(t *testing.T) {
	t.Parallel()
	if text, ok := pingText([]byte(strings.Repeat("x", 64))); ok {
		t.Errorf("%q", text)
	}
}

// The octets are those of a capture of rping.
func TestAdvertGolden(t *testing.T) {
	t.Parallel()
	a := advert{addr: 0x55addb40e370, key: mr.Key(0xc3986700), size: 64}
	const want = "000055addb40e370" + "c3986700" + "00000040"
	if got := hex.EncodeToString(a.append(nil)); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	b, _ := hex.DecodeString(want)
	if got := parseAdvert(b); got != a || len(b) != advertLen {
		t.Errorf("%+v", got)
	}
}

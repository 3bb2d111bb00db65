//go:build !live

package main

import (
	"bytes"
	"encoding/hex"
	"errors"
	"math"
	"net/netip"
	"strings"
	"testing"

	"github.com/rds-go/rds/internal/rdstest"
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
		rdstest.Must(t, checkPing(b, make([]byte, c.size), c.n))
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

func TestXsrqHeaderGolden(t *testing.T) {
	t.Parallel()
	h := xsrqHeader{Mark: xsrqMark, Kind: kindStop, Service: 0x0102030405060708, Answer: 0x100, Queue: 3, Number: 0x1122334455667788,
		Host: netip.MustParseAddr("10.0.0.1").As16()}
	b := make([]byte, xsrqHeaderLen)
	h.put(b)
	const want = "58535251" + "00000002" + "0102030405060708" + "00000100" + "00000003" + "1122334455667788" +
		"00000000000000000000ffff0a000001"
	if got := hex.EncodeToString(b); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if got, ok := parseXsrq(b); !ok || got != h {
		t.Errorf("%+v, %v", got, ok)
	}
	for n := range b {
		if _, ok := parseXsrq(b[:n]); ok {
			t.Errorf("%d octets are a message", n)
		}
	}
	b[0] ^= 1
	if _, ok := parseXsrq(b); ok {
		t.Error("another mark is a message")
	}
}

func TestXsrqAnswerIsTheWholeMessage(t *testing.T) {
	t.Parallel()
	sent := make([]byte, xsrqHeaderLen+20)
	pattern(sent, 5)
	xsrqHeader{Kind: kindPing, Service: 1, Answer: 2, Queue: 3, Number: 4, Host: netip.MustParseAddr("fe80::1").As16()}.put(sent)
	if answers(sent, sent) {
		t.Error("a ping is its own answer")
	}
	good := bytes.Clone(sent)
	makeAnswer(good)
	if !answers(good, sent) {
		t.Error("the answer is none")
	}
	if answers(good[:len(good)-1], sent) || answers(append(good, 0), sent) {
		t.Error("another length")
	}
	for i := range good {
		b := bytes.Clone(good)
		b[i] ^= 1
		if answers(b, sent) {
			t.Errorf("octet %d changed", i)
		}
	}
}

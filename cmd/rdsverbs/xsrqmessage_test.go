//go:build !live

package main

import (
	"bytes"
	"encoding/hex"
	"net/netip"
	"testing"
)

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

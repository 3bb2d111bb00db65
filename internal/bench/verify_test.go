//go:build !live

package bench

import (
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rds-go/rds/internal/rdstest"
)

func verifiers() (from, to *verifier) {
	a, b := netip.MustParseAddrPort("127.0.0.1:1000"), netip.MustParseAddrPort("127.0.0.2:2000")
	return newVerifier(a, kindReply), newVerifier(b, kindRequest)
}

func TestVerifierAcceptsWhatItFills(t *testing.T) {
	t.Parallel()
	from, to := verifiers()
	for i, size := range []int{stressHeader, 33, 39, 40, 64, 1000, 65536, stressHeader} {
		b := make([]byte, size)
		from.fill(b, to.local, kindRequest)
		putStamp(b, int64(i))
		if err := to.check(from.local, b); err != nil {
			t.Errorf("message %d, %d bytes: %v", i, size, err)
		}
	}
}

// Whatever is damaged outside the stamp is found.
func TestVerifierFindsEveryDamagedByte(t *testing.T) {
	t.Parallel()
	const size = 61 // with a tail that is no whole word
	for at := range size {
		if at >= numberEnd && at < stampEnd {
			continue
		}
		from, to := verifiers()
		b := make([]byte, size)
		from.fill(b, to.local, kindRequest)
		b[at] ^= 0x10
		if err := to.check(from.local, b); err == nil {
			t.Errorf("byte %d damaged and not found", at)
		}
	}
}

func TestVerifierFindsWrongMessages(t *testing.T) {
	t.Parallel()
	other := netip.MustParseAddrPort("127.0.0.1:1001")
	for name, c := range map[string]struct {
		make func(from, to *verifier, b []byte) []byte
		from netip.AddrPort
		want string
	}{
		"a gap":        {func(from, to *verifier, b []byte) []byte { from.skip(to.local); return b }, netip.AddrPort{}, "number is 1, should be 0"},
		"cut":          {func(_, _ *verifier, b []byte) []byte { return b[:len(b)-1] }, netip.AddrPort{}, "length is 63, should be 64"},
		"too short":    {func(_, _ *verifier, b []byte) []byte { return b[:8] }, netip.AddrPort{}, "at least 32"},
		"other sender": {func(_, _ *verifier, b []byte) []byte { return b }, other, "pattern"},
	} {
		from, to := verifiers()
		b := make([]byte, 64)
		if name == "a gap" {
			c.make(from, to, b)
		}
		from.fill(b, to.local, kindRequest)
		if name != "a gap" {
			b = c.make(from, to, b)
		}
		sender := from.local
		if c.from.IsValid() {
			sender = c.from
		}
		if err := to.check(sender, b); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	// The same message a second time.
	from, to := verifiers()
	b := make([]byte, 64)
	from.fill(b, to.local, kindRequest)
	rdstest.Must(t, to.check(from.local, b))
	if err := to.check(from.local, b); err == nil {
		t.Error("a repetition was not found")
	}
}

func TestTallyWaitsForTheCount(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newTally()
		c.add(3)
		go func() {
			<-time.After(time.Second)
			c.add(1)
			<-time.After(9 * time.Second)
			c.add(6)
		}()
		start := time.Now()
		rdstest.Must(t, c.wait(10, 10*time.Second))
		if d := time.Since(start); d != 10*time.Second {
			t.Errorf("waited %v", d)
		}
	})
}

func TestTallyGivesUpWithoutProgress(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newTally()
		c.add(3)
		if err := c.wait(4, 10*time.Second); err == nil || !strings.Contains(err.Error(), "received 3 messages of 4 sent") {
			t.Error(err)
		}
		if err := c.wait(2, 10*time.Second); err == nil || !strings.Contains(err.Error(), "received 3 messages of 2 sent") {
			t.Error(err)
		}
	})
}

func TestCheckMessage(t *testing.T) {
	t.Parallel()
	b := make([]byte, 16)
	putNumber(b, 7)
	rdstest.Must(t, checkMessage(b, 16, 7))
	for _, err := range []error{checkMessage(b, 16, 8), checkMessage(b, 17, 7), checkMessage(b[:4], 16, 7)} {
		if err == nil {
			t.Error("a wrong message was taken")
		}
	}
	if err := checkMessage(b[:4], 4, 99); err != nil {
		t.Error("messages too short for a number have none:", err)
	}
}

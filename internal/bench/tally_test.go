//go:build !live

package bench

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

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
		if err := c.wait(10, 10*time.Second); err != nil {
			t.Fatal(err)
		}
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
	if err := checkMessage(b, 16, 7); err != nil {
		t.Error(err)
	}
	for _, err := range []error{checkMessage(b, 16, 8), checkMessage(b, 17, 7), checkMessage(b[:4], 16, 7)} {
		if err == nil {
			t.Error("a wrong message was taken")
		}
	}
	if err := checkMessage(b[:4], 4, 99); err != nil {
		t.Error("messages too short for a number have none:", err)
	}
}

package client

import (
	"testing"
	"time"

	"github.com/rds-go/rds/rds/config"
)

// Attempts to attach follow each other closely as long as a daemon may be starting.
func TestBackOffIsShortAtFirst(t *testing.T) {
	t.Parallel()
	c := &Client{Config: config.Client{ReconnectMin: 10 * time.Millisecond, ReconnectMax: time.Second}}
	most := time.Duration(0)
	for wait, since := c.Config.ReconnectMin, time.Duration(0); since < Soon; wait = c.BackOff(wait, since) {
		most = max(most, wait)
		since += wait
	}
	if most > 50*time.Millisecond {
		t.Errorf("waits of %v in the first %v", most, Soon)
	}
	if w := c.BackOff(50*time.Millisecond, Soon); w != 100*time.Millisecond {
		t.Errorf("then %v", w)
	}
	if w := c.BackOff(time.Second, time.Hour); w != time.Second {
		t.Errorf("at last %v", w)
	}
	c.Config.ReconnectMin = 200 * time.Millisecond
	if w := c.BackOff(200*time.Millisecond, 0); w != 200*time.Millisecond {
		t.Errorf("%v, shorter than was asked for", w)
	}
}

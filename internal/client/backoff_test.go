//go:build !live

package client

import (
	"testing"
	"time"

	"github.com/rds-go/rds/rds/config"
)

// Attempts to attach follow each other closely as long as a daemon may be starting.
func TestBackOffIsShortAtFirst(t *testing.T) {
	t.Parallel()
	c := &Client{config: config.Client{ReconnectMin: 10 * time.Millisecond, ReconnectMax: time.Second}}
	most := time.Duration(0)
	for wait, since := c.config.ReconnectMin, time.Duration(0); since < soon; wait = c.backOff(wait, since) {
		most = max(most, wait)
		since += wait
	}
	if most > 50*time.Millisecond {
		t.Errorf("waits of %v in the first %v", most, soon)
	}
	if w := c.backOff(50*time.Millisecond, soon); w != 100*time.Millisecond {
		t.Errorf("then %v", w)
	}
	if w := c.backOff(time.Second, time.Hour); w != time.Second {
		t.Errorf("at last %v", w)
	}
	c.config.ReconnectMin = 200 * time.Millisecond
	if w := c.backOff(200*time.Millisecond, 0); w != 200*time.Millisecond {
		t.Errorf("%v, shorter than was asked for", w)
	}
}

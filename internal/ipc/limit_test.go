//go:build !live

package ipc

import (
	"testing"
	"testing/synctest"
	"time"
)

// What an application says of a time limit, rdsd hears.
func TestTimeLimitIsHeardAsTold(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for _, d := range []time.Duration{-time.Hour, 0, time.Millisecond, time.Hour, longestLimit - time.Hour} {
			for _, limit := range []time.Time{time.Now().Add(d), time.Now().Add(d).Round(0)} {
				if got := HearLimit(TellLimit(limit)); !got.Equal(limit) {
					t.Errorf("%v becomes %v", limit, got)
				}
			}
		}
		for _, far := range []time.Time{time.Unix(1<<61, 0), time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)} {
			if got := HearLimit(TellLimit(far)); !got.Equal(time.Now().Add(longestLimit)) {
				t.Errorf("%v becomes %v", far, got)
			}
		}
		for _, past := range []time.Time{{}, time.Unix(0, 0), time.Unix(-1<<61, 0)} {
			if got := HearLimit(TellLimit(past)); got.After(time.Now()) {
				t.Errorf("%v becomes %v", past, got)
			}
		}
		for _, n := range []int64{-1 << 63, 0, 1<<63 - 1} {
			if got := HearLimit(n); got.After(time.Now()) != (n > 0) {
				t.Errorf("%d is heard as %v", n, got)
			}
		}
	})
}

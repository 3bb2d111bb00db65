package ipc

import (
	"fmt"
	"testing"
	"time"
)

// What an application says of a time limit, rdsd hears.
func TestTimeLimitIsHeardAsTold(t *testing.T) {
	t.Parallel()
	for _, d := range []time.Duration{-time.Hour, 0, time.Millisecond, time.Hour, longestLimit - time.Hour} {
		for _, limit := range []time.Time{time.Now().Add(d), time.Now().Add(d).Round(0)} {
			if off := HearLimit(TellLimit(limit)).Sub(limit).Abs(); off > time.Second {
				t.Errorf("%v becomes later by %v", d, off)
			}
		}
	}
	for _, far := range []time.Time{time.Unix(1<<61, 0), time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)} {
		if got := HearLimit(TellLimit(far)); got.Before(time.Now().Add(longestLimit - time.Hour)) {
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
			t.Error(fmt.Sprint(n, " is heard as ", got))
		}
	}
}

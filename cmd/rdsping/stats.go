package main

import (
	"math"
	"time"
)

// stats counts pings and sums up their round trips.
type stats struct {
	sent, received, duplicates, errors uint64

	min, max float64 // microseconds
	mean, m2 float64 // Welford's running mean and sum of squared differences
}

func (s *stats) add(us float64) {
	if s.received == 0 || us < s.min {
		s.min = us
	}
	s.max = max(s.max, us)
	s.received++
	d := us - s.mean
	s.mean += d / float64(s.received)
	s.m2 += d * (us - s.mean)
}

func (s *stats) summary(took time.Duration) summary {
	out := summary{
		Type: typeSummary, Transmitted: s.sent, Received: s.received, Duplicates: s.duplicates, Errors: s.errors,
		Time: took.Milliseconds(),
	}
	if s.sent > 0 {
		out.Loss = 100 * float64(s.sent-s.received) / float64(s.sent)
	}
	if s.received > 0 {
		out.RTT = &rtt{Min: s.min, Avg: round(s.mean), Max: s.max, Mdev: round(math.Sqrt(s.m2 / float64(s.received)))}
	}
	return out
}

// micros is d in microseconds, to a tenth.
func micros(d time.Duration) float64 { return round(float64(d) / 1000) }

func round(us float64) float64 { return math.Round(us*10) / 10 }

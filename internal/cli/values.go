package cli

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Interval is a duration as rds-ping reads it: seconds, with a fraction if
// need be, or a number followed by ms, msec, us or usec. It is a pflag.Value.
type Interval time.Duration

var intervalUnits = map[string]time.Duration{
	"": time.Second, "s": time.Second, "sec": time.Second,
	"ms": time.Millisecond, "msec": time.Millisecond,
	"us": time.Microsecond, "usec": time.Microsecond,
}

// Set parses s.
func (i *Interval) Set(s string) error {
	number := strings.TrimRight(s, "abcdefghijklmnopqrstuvwxyz")
	unit, ok := intervalUnits[s[len(number):]]
	v, err := strconv.ParseFloat(number, 64)
	if err != nil || !ok {
		return fmt.Errorf("want seconds, or a number and ms or us, such as 0.2 or 200ms")
	}
	v *= float64(unit)
	if !(v >= 0 && v <= math.MaxInt64/2) { // NaN is neither
		return fmt.Errorf("out of range")
	}
	*i = Interval(math.Round(v))
	return nil
}

// String is the duration in the form of package time.
func (i *Interval) String() string { return time.Duration(*i).String() }

// Type is what --help calls the value.
func (i *Interval) Type() string { return "seconds" }

// Number is a count that may end in k, m or g, for 2^10, 2^20 and 2^30, in
// either case. It is a pflag.Value.
type Number uint64

// Set parses s.
func (n *Number) Set(s string) error {
	digits, shift := s, 0
	if i := len(s) - 1; i > 0 {
		if k := strings.IndexByte("kmg", s[i]|0x20); k >= 0 {
			digits, shift = s[:i], 10*(k+1)
		}
	}
	v, err := strconv.ParseUint(digits, 10, 64)
	if err != nil || v > math.MaxInt64>>shift {
		return fmt.Errorf("want a number from 0 to 2^63, with k, m or g behind it if you like")
	}
	*n = Number(v << shift)
	return nil
}

func (n *Number) String() string { return strconv.FormatUint(uint64(*n), 10) }

// Type is what --help calls the value.
func (n *Number) Type() string { return "number" }

package main

import (
	"errors"
	"fmt"
	"math"
	"time"
)

const maxInt = math.MaxInt

// checks collects what is wrong with the settings, each with its key.
type checks []error

func (c *checks) add(key, format string, args ...any) {
	*c = append(*c, fmt.Errorf("%s: %s", key, fmt.Sprintf(format, args...)))
}

func (c *checks) between(key string, v, low, high int) {
	switch {
	case v >= low && v <= high:
	case high == maxInt:
		c.add(key, "%d is less than %d", v, low)
	default:
		c.add(key, "%d is not between %d and %d", v, low, high)
	}
}

// bytes checks a number of bytes, which may be more than an int holds on hosts of 32 bits.
func (c *checks) bytes(key string, v int64) {
	if v < 0 {
		c.add(key, "%d is less than 0", v)
	}
}

func (c *checks) positive(key string, d duration) {
	if c.parsed(key, d) && d.Duration <= 0 {
		c.add(key, "%s is not a positive duration", d)
	}
}

func (c *checks) notNegative(key string, d duration) {
	if c.parsed(key, d) && d.Duration < 0 {
		c.add(key, "%s is negative", d)
	}
}

func (c *checks) within(key string, d duration, low, high time.Duration) {
	if c.parsed(key, d) && (d.Duration < low || d.Duration > high) {
		c.add(key, "%s is not between %s and %s", d, low, high)
	}
}

func (c *checks) parsed(key string, d duration) bool {
	if d.bad != "" {
		c.add(key, "%q is not a duration such as 1m30s", d.bad)
	}
	return d.bad == ""
}

func (c *checks) err() error { return errors.Join(*c...) }

//go:build !live

package main

import (
	"bytes"
	"math"
	"net/netip"
	"testing"
	"time"

	"github.com/rds-go/rds/internal/cli"
)

// The lines real pings do not give on demand.
func TestTextOutput(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	out := newOutput(&b, &options{timeout: cli.Interval(2 * time.Second)})
	host, other := netip.MustParseAddr("10.0.0.2"), netip.MustParseAddr("10.0.0.3")
	out.start(header{Host: "node2", Address: host, Local: netip.MustParseAddr("10.0.0.1")})
	out.reply(reply{Type: typeReply, Seq: 1, From: host, RTT: 123.4})
	out.reply(reply{Type: typeReply, Seq: 1, From: host, RTT: 200, Duplicate: true})
	out.reply(reply{Type: typeReply, Seq: 2, From: other, RTT: 1e6})
	out.reply(reply{Type: typeTimeout, Seq: 999})
	out.reply(reply{Type: typeError, Seq: 1000, Error: "no buffer space available"})
	s := stats{sent: 6, duplicates: 1, errors: 2}
	s.add(100)
	s.add(300)
	out.summary(s.summary(4005 * time.Millisecond))
	const want = `RDS PING node2 (10.0.0.2) from 10.0.0.1: 0 bytes of data
   1: 123 usec
   1: 200 usec DUP!
   2: 1000000 usec (10.0.0.3)
 999: no answer in 2s
 1000: ERROR: no buffer space available

--- node2 rds ping statistics ---
6 packets transmitted, 2 received, +1 duplicates, +2 errors, 66.6667% packet loss, time 4005ms
rtt min/avg/max/mdev = 100.0/200.0/300.0/100.0 us
`
	if got := b.String(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestStats(t *testing.T) {
	t.Parallel()
	var s stats
	if sum := s.summary(0); sum.Loss != 0 || sum.RTT != nil {
		t.Errorf("nothing sent: %+v", sum)
	}
	var values []float64
	for i := range 1000 {
		v := 1e6 + float64(i%7) // a small spread on a large mean
		values = append(values, v)
		s.sent++
		s.add(v)
	}
	mean, square := 0.0, 0.0
	for _, v := range values {
		mean += v / 1000
	}
	for _, v := range values {
		square += (v - mean) * (v - mean) / 1000
	}
	got := s.summary(0).RTT
	want := rtt{Min: 1e6, Avg: round(mean), Max: 1e6 + 6, Mdev: round(math.Sqrt(square))}
	if *got != want {
		t.Errorf("got %+v, want %+v", *got, want)
	}
}

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/netip"
	"strings"
	"time"
)

// Types of JSON objects.
const (
	typeReply   = "reply"
	typeError   = "error"
	typeTimeout = "timeout"
	typeSummary = "summary"
)

// header is what is known before the first ping.
type header struct {
	Host           string
	Address, Local netip.Addr
	Size           int
}

// reply is the end of one ping, or a further answer to it.
type reply struct {
	Type      string     `json:"type"`
	Seq       uint64     `json:"seq"`
	From      netip.Addr `json:"from,omitzero"`
	RTT       float64    `json:"rtt_us,omitzero"`
	Duplicate bool       `json:"duplicate,omitzero"`
	Error     string     `json:"error,omitzero"`
}

// summary is the end.
type summary struct {
	Type        string     `json:"type"`
	Host        string     `json:"host"`
	Address     netip.Addr `json:"address"`
	Local       netip.Addr `json:"local"`
	Size        int        `json:"size"`
	Transmitted uint64     `json:"transmitted"`
	Received    uint64     `json:"received"`
	Duplicates  uint64     `json:"duplicates"`
	Errors      uint64     `json:"errors"`
	Loss        float64    `json:"loss_percent"`
	Time        int64      `json:"time_ms"`
	RTT         *rtt       `json:"rtt_us,omitempty"` // absent without an answer
}

type rtt struct {
	Min  float64 `json:"min"`
	Avg  float64 `json:"avg"`
	Max  float64 `json:"max"`
	Mdev float64 `json:"mdev"`
}

// output prints a run: start once, a reply for each ping, a summary.
type output interface {
	start(header)
	reply(reply)
	summary(summary)
}

func newOutput(w io.Writer, o *options) output {
	if o.json {
		return &jsonOutput{enc: json.NewEncoder(w), quiet: o.quiet}
	}
	return &textOutput{w: w, quiet: o.quiet, timeout: time.Duration(o.timeout)}
}

// textOutput prints the lines of rds-ping with the frame of ping. That it
// cannot write is nobody's to tell.
type textOutput struct {
	w       io.Writer
	quiet   bool
	timeout time.Duration
	header  header
}

func (t *textOutput) start(h header) {
	t.header = h
	fmt.Fprintf(t.w, "RDS PING %s (%s) from %s: %d bytes of data\n", h.Host, h.Address, h.Local, h.Size)
}

func (t *textOutput) reply(r reply) {
	if t.quiet {
		return
	}
	var b strings.Builder
	fmt.Fprintf(&b, " %3d:", r.Seq)
	switch r.Type {
	case typeReply:
		fmt.Fprintf(&b, " %.0f usec", r.RTT)
		if r.From != t.header.Address {
			fmt.Fprintf(&b, " (%s)", r.From)
		}
		if r.Duplicate {
			b.WriteString(" DUP!")
		}
	case typeError:
		fmt.Fprintf(&b, " ERROR: %s", r.Error)
	case typeTimeout:
		fmt.Fprintf(&b, " no answer in %s", t.timeout)
	}
	b.WriteByte('\n')
	_, _ = io.WriteString(t.w, b.String())
}

func (t *textOutput) summary(s summary) {
	var b strings.Builder
	fmt.Fprintf(&b, "\n--- %s rds ping statistics ---\n%d packets transmitted, %d received, ", t.header.Host, s.Transmitted, s.Received)
	if s.Duplicates > 0 {
		fmt.Fprintf(&b, "+%d duplicates, ", s.Duplicates)
	}
	if s.Errors > 0 {
		fmt.Fprintf(&b, "+%d errors, ", s.Errors)
	}
	fmt.Fprintf(&b, "%.6g%% packet loss, time %dms\n", s.Loss, s.Time)
	if r := s.RTT; r != nil {
		fmt.Fprintf(&b, "rtt min/avg/max/mdev = %.1f/%.1f/%.1f/%.1f us\n", r.Min, r.Avg, r.Max, r.Mdev)
	}
	_, _ = io.WriteString(t.w, b.String())
}

// jsonOutput prints one object per line.
type jsonOutput struct {
	enc    *json.Encoder
	quiet  bool
	header header
}

func (j *jsonOutput) start(h header) { j.header = h }

func (j *jsonOutput) reply(r reply) {
	if !j.quiet {
		_ = j.enc.Encode(r)
	}
}

func (j *jsonOutput) summary(s summary) {
	s.Host, s.Address, s.Local, s.Size = j.header.Host, j.header.Address, j.header.Local, j.header.Size
	_ = j.enc.Encode(s)
}

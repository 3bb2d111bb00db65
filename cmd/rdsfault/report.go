package main

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/rds-go/rds/ebpf"
)

// report is what the command did.
type report struct {
	Fault             string  `json:"fault"`
	Interface         string  `json:"interface,omitempty"`
	*ebpf.FaultCounts         // of a fault of packets
	Aborted           *int    `json:"aborted,omitempty"` // connections
	Seconds           float64 `json:"seconds"`
	past              string
}

func (r *report) write(w io.Writer, asJSON bool) error {
	if asJSON {
		return json.NewEncoder(w).Encode(r)
	}
	var err error
	if r.FaultCounts == nil {
		_, err = fmt.Fprintf(w, "aborted %d connections in %.1f s\n", *r.Aborted, r.Seconds)
	} else {
		_, err = fmt.Fprintf(w, "%s: %s %d of %d packets (%d octets) in %.1f s\n", r.Interface, r.past, r.Hit, r.Seen, r.Bytes, r.Seconds)
	}
	return err
}

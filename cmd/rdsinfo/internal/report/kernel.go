package report

import (
	"encoding/json"
	"io"
	"strconv"
	"time"

	"github.com/rds-go/rds/ebpf"
)

// Kernel is what the kernel tells of the TCP connections of RDS on this host.
type Kernel struct {
	Time time.Time `json:"time"`
	// Since is when the histograms and the counts of drops begin.
	Since       time.Time          `json:"since"`
	Missing     []string           `json:"missing,omitempty"` // parts that are not measured, and why
	Connections []KernelConnection `json:"connections"`
	Drops       []ebpf.Drop        `json:"drops"`
}

// KernelConnection is a connection with a process that has it open.
type KernelConnection struct {
	ebpf.Connection
	PID     int    `json:"pid,omitempty"` // 0: none was found, as for the kernel's own connections
	Command string `json:"command,omitempty"`
}

// WriteKernel writes two tables.
func WriteKernel(w io.Writer, k *Kernel) error {
	t := table{title: "Kernel TCP Connections, of " + short(k.Time.Sub(k.Since)), columns: []column{
		{"LocalAddr", 21}, {"RemoteAddr", 21}, {"State", 11}, {"NetNS", 10}, {"UID", 5}, {"PID", 7}, {"Command", 7},
		{"RTT", 7}, {"MinRTT", 7}, {"RTT50", 7}, {"RTT99", 7}, {"RTTs", 8}, {"Wait50", 7}, {"Wait99", 7}, {"Waits", 8},
		{"Retrans", 7}, {"Cwnd", 5}, {"RecvQ", 8}, {"SendQ", 8}}}
	for i := range k.Connections {
		c := &k.Connections[i]
		row := []any{c.Local, c.Remote, c.State, c.Netns, c.UID, pid(c.PID), name(c.Command), short(c.RTT), short(c.MinRTT)}
		for _, h := range []*ebpf.Histogram{&c.RTTs, &c.Waits} {
			if h.Count == 0 {
				row = append(row, "-", "-", "-")
			} else {
				row = append(row, short(h.Quantile(0.5)), short(h.Quantile(0.99)), h.Count)
			}
		}
		t.add(append(row, c.Retransmits, c.Cwnd, c.ReceiveQueue, uint64(c.Unacked)+uint64(c.Unsent))...)
	}
	if err := t.writeTo(w); err != nil {
		return err
	}
	t = table{title: "Kernel Dropped Packets, of " + short(k.Time.Sub(k.Since)), columns: []column{{"Reason", 25}, {"Packets", 16}}}
	for _, d := range k.Drops {
		t.add(d.Reason, d.Packets)
	}
	return t.writeTo(w)
}

// WriteKernelJSON writes one object.
func WriteKernelJSON(w io.Writer, k *Kernel) error {
	if k.Connections == nil {
		k.Connections = []KernelConnection{}
	}
	if k.Drops == nil {
		k.Drops = []ebpf.Drop{}
	}
	e := json.NewEncoder(w)
	return e.Encode(k)
}

// short is a duration with three digits, such as "1.23ms".
func short(d time.Duration) string {
	unit, name := time.Second, "s"
	switch {
	case d < time.Microsecond:
		return strconv.FormatInt(int64(d), 10) + "ns"
	case d < time.Millisecond:
		unit, name = time.Microsecond, "µs"
	case d < time.Second:
		unit, name = time.Millisecond, "ms"
	case d >= time.Hour:
		return d.Round(time.Second).String()
	}
	v := float64(d) / float64(unit)
	return strconv.FormatFloat(v, 'f', max(0, 3-len(strconv.Itoa(int(v)))), 64) + name
}

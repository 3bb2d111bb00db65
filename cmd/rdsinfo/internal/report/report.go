package report

import (
	"io"
	"net/netip"
	"slices"
	"time"

	"github.com/rds-go/rds/rds"
)

// Kind is one report, by its letter on the command line.
type Kind byte

// The reports, in the order in which rds-info prints them, by letter, and then
// what only a node has.
const (
	XRC          Kind = 'I' // the InfiniBand connections of rds-info
	TCP          Kind = 'T'
	Counters     Kind = 'c'
	Sockets      Kind = 'k'
	Connections  Kind = 'n'
	Receive      Kind = 'r'
	Send         Kind = 's'
	Retransmit   Kind = 't'
	Applications Kind = 'a'
	Memory       Kind = 'm'
	Users        Kind = 'u'
	Admission    Kind = 'A'
	Objects      Kind = 'x'
)

// Kinds returns all reports in order.
func Kinds() []Kind {
	return append(DefaultKinds(), Objects)
}

// DefaultKinds returns the reports that are printed without a selection, in order: all but
// Objects, which may be long.
func DefaultKinds() []Kind {
	return append(append([]Kind{XRC}, LinuxKinds()...), Applications, Memory, Users, Admission)
}

// LinuxKinds returns the reports that Linux has too, over TCP.
func LinuxKinds() []Kind {
	return []Kind{TCP, Counters, Sockets, Connections, Receive, Send, Retransmit}
}

// View is what Write writes.
type View struct {
	Info    *rds.Info
	Before  *rds.Info // the previous snapshot: what has grown since is shown, too; nil: none
	Verbose bool      // connections with their paths
}

// Write writes the reports in kinds, in the order of Kinds.
func Write(w io.Writer, v View, kinds []Kind) error {
	for _, k := range Kinds() {
		if slices.Contains(kinds, k) {
			for _, make := range tables[k] {
				t := make(&v)
				if err := t.writeTo(w); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// tables are those of each report.
var tables = map[Kind][]func(v *View) table{
	XRC: {xrcConnections}, TCP: {tcp}, Counters: {counters}, Sockets: {sockets}, Connections: {connections}, Applications: {applications},
	Memory: {memory}, Users: {users}, Admission: {admission},
	Receive:    {func(v *View) table { return queue("Receive Message Queue", v.Info.Receive) }},
	Send:       {func(v *View) table { return queue("Send Message Queue", v.Info.SendQueue) }},
	Retransmit: {func(v *View) table { return queue("Retransmit Message Queue", v.Info.Retransmit) }},
	Objects:    {sessions, domains, targets, initiators, sharedQueues, registrations},
}

func counters(v *View) table {
	t := table{title: "Counters", columns: []column{{"CounterName", 25}, {"Value", 16}}}
	if v.Before == nil {
		for _, c := range v.Info.Counters {
			t.add(c.Name, c.Value)
		}
		return t
	}
	t.columns = append(t.columns, column{"Diff", 12}, column{"Rate/s", 12})
	before := make(map[string]uint64)
	for _, c := range v.Before.Counters {
		before[c.Name] = c.Value
	}
	for _, c := range v.Info.Counters {
		diff, rate := v.grown(before[c.Name], c.Value)
		t.add(c.Name, c.Value, diff, rate)
	}
	return t
}

func sockets(v *View) table {
	info := v.Info
	t := table{title: "RDS Sockets", columns: []column{
		{"BoundAddr", 15}, {"BPort", 5}, {"ConnAddr", 15}, {"CPort", 5}, {"SndBuf", 10}, {"RcvBuf", 10}, {"Inode", 8}}}
	// Who reads the columns of rds-info finds them as they are; ours come
	// behind, where an application is attached.
	attached := slices.ContainsFunc(info.Sockets, func(s rds.SocketInfo) bool { return s.PID != 0 })
	if attached {
		t.columns = append(t.columns, column{"PID", 7}, column{"Command", 15})
	}
	for _, s := range info.Sockets {
		row := []any{addr(s.Bound.Addr(), s.Bound), s.Bound.Port(), addr(s.Connected.Addr(), s.Bound), s.Connected.Port(), s.SendBuffer, s.ReceiveBuf, s.Inode}
		if attached {
			row = append(row, pid(s.PID), name(s.Command))
		}
		t.add(row...)
	}
	return t
}

func connections(v *View) table {
	info := v.Info
	t := table{title: "RDS Connections", columns: []column{
		{"LocalAddr", 15}, {"RemoteAddr", 15}, {"Tos", 4}, {"NextTX", 16}, {"NextRX", 16}, {"Flgs", 4}, {"Trans", 5}, {"CRC", 3}}}
	for _, c := range info.Connections {
		t.add(c.Local, c.Remote, c.TOS, c.NextTX, c.NextRX, flags(&c), orNone(c.Transport), crc(&c))
		if !v.Verbose {
			continue
		}
		for _, p := range c.Path {
			direction := "in"
			if p.Outbound {
				direction = "out"
			}
			t.note("    path %d %s %s: next tx %d, %d unsent, %d unacked, %d resets, %d bytes written, %d acked",
				p.Index, p.State, direction, p.NextTX, p.Unsent, p.Unacked, p.Resets, p.Written, p.Acked)
			if b := v.pathBefore(&c, p.Index); b != nil {
				written, rate := v.grown(b.Written, p.Written)
				acked, ackRate := v.grown(b.Acked, p.Acked)
				t.note("        since then: %s bytes written (%s/s), %s acked (%s/s)", written, rate, acked, ackRate)
			}
			for _, i := range c.TCP {
				if i.Path == p.Index {
					t.note("        tcp: rtt %s min %s, %d retransmitted, cwnd %d x %d, %.1f Mbit/s, limited by receiver %.0f %%, by send buffer %.0f %%",
						micros(i.RTT), micros(i.MinRTT), i.Retransmitted, i.Cwnd, i.MSS, float64(i.DeliveryRate)*8/1e6, 100*i.ReceiverLimited, 100*i.SendBufferLimited)
				}
			}
		}
	}
	return t
}

// micros is a number of microseconds as a duration.
func micros(n int64) time.Duration { return time.Duration(n) * time.Microsecond }

// crc tells whether what is sent has a CRC, as far as there is a connection.
func crc(c *rds.ConnectionInfo) string {
	switch {
	case c.CRC:
		return "on"
	case c.Connected:
		return "off"
	}
	return "-"
}

// flags are sending, connecting, connected and error; the last is only that of
// Oracle's kernel.
func flags(c *rds.ConnectionInfo) string {
	b := []byte("----")
	if c.Sending {
		b[0] = 's'
	}
	if c.Connecting {
		b[1] = 'c'
	}
	if c.Connected {
		b[2] = 'C'
	}
	return string(b)
}

func queue(title string, messages []rds.QueuedInfo) table {
	t := table{title: title, columns: []column{
		{"LocalAddr", 15}, {"LPort", 5}, {"RemoteAddr", 15}, {"RPort", 5}, {"Tos", 4}, {"Seq", 16}, {"Bytes", 10}}}
	for _, m := range messages {
		t.add(addr(m.Local.Addr(), m.Remote), m.Local.Port(), addr(m.Remote.Addr(), m.Local), m.Remote.Port(), m.TOS, m.Sequence, m.Bytes)
	}
	return t
}

// xrcConnections has the columns of rds-info -I, with the ends of the connection for its GIDs,
// and ours behind.
func xrcConnections(v *View) table {
	info := v.Info
	t := table{title: "XRC Connections", columns: []column{
		{"LocalAddr", 15}, {"RemoteAddr", 15}, {"Tos", 4}, {"LocalDev", 21}, {"RemoteDev", 21},
		{"Path", 4}, {"CRC", 3}, {"Ops", 4}, {"Written", 14}, {"Acked", 14}}}
	for _, c := range info.XRC {
		crc := "off"
		if c.CRC {
			crc = "on"
		}
		t.add(addr(c.Local.Addr(), c.Remote), addr(c.Remote.Addr(), c.Local), c.TOS, c.Local, c.Remote,
			c.Path, crc, c.Operations, c.Written, c.Acked)
	}
	return t
}

// orNone is a word, or what stands for none.
func orNone(word string) string {
	if word == "" {
		return "-"
	}
	return word
}

func tcp(v *View) table {
	info := v.Info
	t := table{title: "TCP Connections", columns: []column{
		{"LocalAddr", 15}, {"LPort", 5}, {"RemoteAddr", 15}, {"RPort", 5},
		{"HdrRemain", 10}, {"DataRemain", 10}, {"SentNxt", 10}, {"ExpectUna", 10}, {"SeenUna", 10}}}
	for _, c := range info.TCP {
		t.add(addr(c.Local.Addr(), c.Remote), c.Local.Port(), addr(c.Remote.Addr(), c.Local), c.Remote.Port(),
			c.HeaderRemaining, c.PayloadRemaining, uint32(c.SentNext), uint32(c.ExpectedUna), uint32(c.SeenUna))
	}
	return t
}

// addr is the text of a, and where there is none the unspecified address of
// the other end's family.
func addr(a netip.Addr, other netip.AddrPort) string {
	switch {
	case a.IsValid():
		return a.String()
	case other.Addr().Is6():
		return netip.IPv6Unspecified().String()
	}
	return netip.IPv4Unspecified().String()
}

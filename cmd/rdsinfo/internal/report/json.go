package report

import (
	"encoding/json"
	"io"
	"slices"
	"time"

	"github.com/rds-go/rds/rds"
	"github.com/rds-go/rds/transport"
	"github.com/rds-go/rds/xrc/objects"
)

// chosen is an rds.Info of which some reports are left out. A report that was
// chosen is a list, even if empty.
type chosen struct {
	Provider    string               `json:"provider"`
	Time        time.Time            `json:"time,omitzero"`
	Counters    []transport.Counter  `json:"counters,omitzero"`
	Sockets     []rds.SocketInfo     `json:"sockets,omitzero"`
	Connections []rds.ConnectionInfo `json:"connections,omitzero"`
	SendQueue   []rds.QueuedInfo     `json:"send_queue,omitzero"`
	Retransmit  []rds.QueuedInfo     `json:"retransmit_queue,omitzero"`
	Receive     []rds.QueuedInfo     `json:"receive_queue,omitzero"`
	TCP         []rds.TCPInfo        `json:"tcp_connections,omitzero"`
	XRC         []rds.XRCInfo        `json:"xrc_connections,omitzero"`
	Sessions    []rds.SessionInfo    `json:"sessions,omitzero"`
	Users       []rds.UserInfo       `json:"users,omitzero"`
	LeftOut     string               `json:"left_out,omitempty"`
	Memory      *rds.MemoryInfo      `json:"memory,omitempty"`
	Admission   *rds.AdmissionInfo   `json:"admission,omitempty"`
	Objects     *objects.Objects     `json:"xrc_objects,omitempty"`
}

// WriteJSON writes the reports in kinds as one JSON object on one line, with
// the keys of rds.Info. Connections have their paths.
func WriteJSON(w io.Writer, info *rds.Info, kinds []Kind) error {
	out := chosen{Provider: info.Provider, Time: info.Time, LeftOut: info.LeftOut}
	choose(&out.Counters, info.Counters, kinds, Counters)
	choose(&out.Sockets, info.Sockets, kinds, Sockets)
	choose(&out.Connections, info.Connections, kinds, Connections)
	choose(&out.SendQueue, info.SendQueue, kinds, Send)
	choose(&out.Retransmit, info.Retransmit, kinds, Retransmit)
	choose(&out.Receive, info.Receive, kinds, Receive)
	choose(&out.TCP, info.TCP, kinds, TCP)
	choose(&out.XRC, info.XRC, kinds, XRC)
	choose(&out.Sessions, info.Sessions, kinds, Applications)
	choose(&out.Users, info.Users, kinds, Users)
	if slices.Contains(kinds, Memory) {
		out.Memory = info.Memory
	}
	if slices.Contains(kinds, Admission) {
		out.Admission = info.Admission
	}
	if slices.Contains(kinds, Objects) {
		out.Objects = info.Objects
	}
	return json.NewEncoder(w).Encode(out)
}

func choose[T any](to *[]T, from []T, kinds []Kind, kind Kind) {
	if slices.Contains(kinds, kind) {
		*to = append([]T{}, from...)
	}
}

package report

import (
	"fmt"
	"slices"

	"github.com/rds-go/rds/conn"
	"github.com/rds-go/rds/rds"
)

// unknown stands for a difference that cannot be told: the number has begun anew.
const unknown = "-"

// grown is by how much a number that only grows has grown since the snapshot before, and by
// how much in a second.
func (v *View) grown(before, now uint64) (diff, rate string) {
	seconds := v.Info.Time.Sub(v.Before.Time).Seconds()
	if now < before || seconds <= 0 {
		return unknown, unknown
	}
	return fmt.Sprintf("+%d", now-before), fmt.Sprintf("%.0f", float64(now-before)/seconds)
}

// pathBefore is a path of a connection in the snapshot before, nil if it was not there or had
// another link.
func (v *View) pathBefore(c *rds.ConnectionInfo, path int) *conn.PathInfo {
	if v.Before == nil {
		return nil
	}
	for i := range v.Before.Connections {
		b := &v.Before.Connections[i]
		if b.Local != c.Local || b.Remote != c.Remote {
			continue
		}
		if k := slices.IndexFunc(b.Path, func(p conn.PathInfo) bool { return p.Index == path }); k >= 0 {
			return &b.Path[k]
		}
	}
	return nil
}

// sessionRates are messages and bytes a second, sent and received.
func (v *View) sessionRates(s *rds.SessionInfo) []any {
	var b rds.SessionInfo
	if i := slices.IndexFunc(v.Before.Sessions, func(b rds.SessionInfo) bool { return b.ID == s.ID && b.PID == s.PID }); i >= 0 {
		b = v.Before.Sessions[i]
	}
	var row []any
	for _, n := range [...][2]uint64{{b.SentMessages, s.SentMessages}, {b.SentBytes, s.SentBytes}, {b.RecvMessages, s.RecvMessages}, {b.RecvBytes, s.RecvBytes}} {
		_, rate := v.grown(n[0], n[1])
		row = append(row, rate)
	}
	return row
}

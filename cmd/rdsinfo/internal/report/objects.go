package report

import (
	"net/netip"
	"strconv"
	"time"

	"github.com/rds-go/rds/rds"
	"github.com/rds-go/rds/xrc/objects"
)

// objects are those of XRC; none where the report has none.
func (v *View) objects() objects.Objects {
	if v.Info.Objects == nil {
		return objects.Objects{}
	}
	return *v.Info.Objects
}

// sessions shows the sessions of XRC. Those of attached applications have the application's PID
// and command.
func sessions(v *View) table {
	t := table{title: "XRC Sessions", columns: []column{
		{"ID", 6}, {"Session", 16}, {"PID", 7}, {"Command", 15}, {"Doms", 4}, {"SRQs", 5}, {"Inits", 7}, {"Tgts", 7}, {"Regs", 7}, {"CQs", 4}, {"PDs", 4}, {"Svcs", 4}}}
	queues := make(map[uint32]*rds.SessionInfo)
	for i := range v.Info.Sessions {
		queues[v.Info.Sessions[i].Queue] = &v.Info.Sessions[i]
	}
	o := v.objects()
	apps := make(map[uint64]*rds.SessionInfo) // by the ID of the XRC session
	for _, q := range o.SRQs {
		if a := queues[q.Ref.Number]; a != nil {
			apps[q.Session] = a
		}
	}
	for _, s := range o.Sessions {
		process, command := "-", "-"
		if a := apps[s.ID]; a != nil {
			process, command = pid(a.PID), name(a.Command)
		}
		t.add(s.ID, name(s.Name), process, command, s.Domains, s.SRQs, s.Initiators, s.Targets, s.Registrations, s.CQs, s.PDs, s.Services)
	}
	switch {
	case v.Info.Objects == nil:
		t.note("    none: the node does not speak XRC, or is too old to tell")
	case o.NotListed > 0:
		t.note("    %d objects are too many to be listed, here and below", o.NotListed)
	}
	return t
}

func domains(v *View) table {
	t := table{title: "XRC Domains", columns: []column{{"Domain", 6}, {"File", 20}, {"Refs", 7}}}
	for _, d := range v.objects().Domains {
		file := "private"
		if !d.Private {
			file = "dev " + strconv.FormatUint(d.Device, 16) + " inode " + strconv.FormatUint(d.Inode, 10)
		}
		t.add(d.Tag, file, d.Refs)
	}
	return t
}

// qpColumns are those that targets and initiators have in common.
var qpColumns = []column{{"State", 5}, {"Link", 9}, {"Since", 9}, {"PeerHost", 15}, {"PeerQP", 17}}

// qpCells are the cells of qpColumns.
func (v *View) qpCells(q *objects.QPEntry, tombstone bool) []any {
	link := "-"
	switch {
	case tombstone:
		link = "tombstone"
	case q.Connected:
		link = "connected"
	case q.Suspended:
		link = "suspended"
	}
	since := "-"
	if !q.Since.IsZero() {
		since = short(max(0, v.Info.Time.Sub(q.Since)).Round(time.Millisecond))
	}
	host, peer := "-", "-"
	if q.Peer.Host != (netip.Addr{}) {
		host = q.Peer.Host.String()
	}
	if q.Peer.QP.Number != 0 {
		peer = number(q.Peer.QP)
	}
	return []any{q.State, link, since, host, peer}
}

// number is the name of an object as the log has it, without its kind.
func number(r objects.Ref) string {
	digits := strconv.FormatUint(uint64(r.Number), 16)
	return "000000"[:max(0, 6-len(digits))] + digits + "." + strconv.FormatUint(uint64(r.Generation), 10)
}

func targets(v *View) table {
	t := table{title: "XRC Targets", columns: append(append([]column{{"Target", 17}, {"Domain", 6}}, qpColumns...), column{"Regs", 5})}
	for _, e := range v.objects().Targets {
		t.add(append(append([]any{number(e.Ref), e.Domain}, v.qpCells(&e.QPEntry, e.Tombstone)...), e.Registered)...)
		if e.Cause != "" {
			t.note("        in error: %s", e.Cause)
		}
	}
	return t
}

func initiators(v *View) table {
	t := table{title: "XRC Initiators", columns: append([]column{{"Initiator", 17}, {"ID", 6}, {"Session", 16}}, qpColumns...)}
	for _, e := range v.objects().Initiators {
		t.add(append([]any{number(e.Ref), e.Session, name(e.SessionName)}, v.qpCells(&e.QPEntry, false)...)...)
		if e.Cause != "" {
			t.note("        in error: %s", e.Cause)
		}
	}
	return t
}

// sharedQueues shows shared receive queues. Queue is the number as the report of applications
// has it.
func sharedQueues(v *View) table {
	t := table{title: "XRC Shared Receive Queues", columns: []column{
		{"SRQ", 17}, {"Queue", 8}, {"ID", 6}, {"Session", 16}, {"Domain", 6}, {"Posted", 8}, {"MaxWR", 8}, {"Limit", 8}}}
	for _, e := range v.objects().SRQs {
		row := []any{number(e.Ref), e.Ref.Number, e.Session, name(e.SessionName), e.Domain}
		switch {
		case e.Sink:
			row = append(row, "sink", "-", "-")
		case e.Failed:
			row = append(row, "failed", e.MaxWR, e.Limit)
		default:
			row = append(row, e.Posted, e.MaxWR, e.Limit)
		}
		t.add(row...)
	}
	return t
}

// registrations shows who is registered with which target.
func registrations(v *View) table {
	t := table{title: "XRC Registrations", columns: []column{{"Target", 17}, {"ID", 6}, {"Session", 16}, {"ByNumber", 8}, {"Handles", 7}}}
	for _, r := range v.objects().Registrations {
		byNumber := "no"
		if r.ByNumber {
			byNumber = "yes"
		}
		t.add(number(r.Target), r.Session, name(r.SessionName), byNumber, r.Handles)
	}
	return t
}

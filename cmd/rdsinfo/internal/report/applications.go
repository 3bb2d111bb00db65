package report

import (
	"strconv"
	"strings"
	"unicode"

	"github.com/rds-go/rds/rds"
)

// applications shows who is attached, what of its bounds it uses, and what it
// has done.
func applications(v *View) table {
	info := v.Info
	t := table{title: "Applications", columns: []column{
		{"PID", 7}, {"UID", 5}, {"Command", 15}, {"Socks", 5},
		{"SndQueued", 10}, {"SndBudget", 10}, {"RcvLent", 10}, {"RcvArena", 10}, {"Waiting", 7}, {"Queue", 5},
		{"SentMsgs", 12}, {"SentBytes", 14}, {"RecvMsgs", 12}, {"RecvBytes", 14}, {"Stalls", 8}}}
	if v.Before != nil {
		t.columns = append(t.columns, column{"SentMsgs/s", 12}, column{"SentBytes/s", 14}, column{"RecvMsgs/s", 12}, column{"RecvBytes/s", 14})
	}
	for _, s := range info.Sessions {
		row := []any{s.PID, s.UID, name(s.Command), s.Sockets,
			s.SendQueued, s.SendBudget, s.ReceiveLent, s.ReceiveArena, s.Waiting, queueNumber(&s),
			s.SentMessages, s.SentBytes, s.RecvMessages, s.RecvBytes, s.Stalled}
		if v.Before != nil {
			row = append(row, v.sessionRates(&s)...)
		}
		t.add(row...)
	}
	return t
}

// queueNumber is the number of an application's receive queue on XRC, marked when peers keep
// what they have for it.
func queueNumber(s *rds.SessionInfo) string {
	switch {
	case s.Queue == 0:
		return "-"
	case s.NotReady:
		return strconv.FormatUint(uint64(s.Queue), 10) + "!"
	}
	return strconv.FormatUint(uint64(s.Queue), 10)
}

// pid is that of an application; the sockets of the daemon's own have none.
func pid(n int) string {
	if n == 0 {
		return "-"
	}
	return strconv.Itoa(n)
}

// name is a command, which its process may call what it likes: as one word
// that does nothing to a terminal.
func name(command string) string {
	if command == "" {
		return "-"
	}
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '_'
		case !unicode.IsPrint(r), r == unicode.ReplacementChar:
			return '?'
		}
		return r
	}, command)
}

package daemon

import (
	"encoding/json"
	"time"

	"github.com/rds-go/rds/internal/ipc"
	"github.com/rds-go/rds/internal/node"
	"github.com/rds-go/rds/rds/info"
)

// reportTurns are those of a user's applications, of which one at a time gets a report.
type reportTurns struct {
	token chan struct{} // one token; its holder makes the report, and may use the fields below
	rest  time.Time     // nobody has the turn before
	of    *node.Snapshot
	large bool   // text has the objects of XRC
	text  []byte // what the user may see of the snapshot, as JSON
}

func newReportTurns() reportTurns {
	t := reportTurns{token: make(chan struct{}, 1)}
	t.token <- struct{}{}
	return t
}

// describe gives the session's part of a recent report to send. A user's applications rest
// after each answer: its cost is the daemon's too.
func (x *session) describe(objects bool, send func([]byte)) error {
	t := &x.user.turns
	select {
	case <-t.token:
	case <-x.done:
		return errSilent
	}
	defer func() { t.token <- struct{}{} }()
	if wait := time.Until(t.rest); wait > 0 && !node.PauseFor(wait, x.done) {
		return errSilent
	}
	begun := time.Now()
	defer func() {
		t.rest = time.Now().Add(min(node.ReportPause, max(node.ReportLeast, node.ReportRest*time.Since(begun))))
	}()
	since := begun.Add(-node.ReportAge)
	if changed := time.Unix(0, x.changed.Load()); changed.After(since) { // a session finds in a report what it has done before
		since = changed
	}
	s := x.node.Snapshot(since, x.done)
	switch {
	case s == nil:
		return errSilent
	case s.Err != nil:
		return s.Err
	}
	begun = time.Now()
	text, err := x.text(s, objects)
	if err == nil {
		send(text)
	}
	return err
}

// text is what the session may see of a snapshot. It has the turn.
func (x *session) text(s *node.Snapshot, objects bool) (b []byte, err error) {
	switch {
	case x.svc.sees(x) && objects:
		return s.Large()
	case x.svc.sees(x):
		return s.Text()
	}
	t := &x.user.turns
	if t.of == s && t.large == objects {
		return t.text, nil
	}
	report := s.With(objects)
	report = report.Of(x.cred.UID)
	report.Provider = info.ProviderDaemon
	if b, err = json.Marshal(&report); err == nil {
		t.of, t.large, t.text = s, objects, b
	}
	return b, err
}

// report answers CallInfo, in parts.
func (x *session) report(q *ipc.Request, send func(*ipc.Reply)) {
	id := q.ID
	err := x.describe(info.InfoPart(q.Option) == info.InfoObjects, func(b []byte) {
		for len(b) > ipc.DataPart {
			send(&ipc.Reply{ID: id, Data: b[:ipc.DataPart], More: true})
			b = b[ipc.DataPart:]
		}
		send(&ipc.Reply{ID: id, Data: b})
	})
	if err != nil {
		send(failed(id, err))
	}
}

// info describes the session.
func (x *session) info() info.Session {
	i := info.Session{
		ID: x.id, PID: x.cred.PID, UID: x.cred.UID, GID: x.cred.GID, Command: x.command, Since: x.since,
		Sockets: int(x.bound.Load()), SendQueued: int(x.queued.Load()), SendBudget: x.promised,
		ReceiveArena: x.mem.soft, ReceiveLent: x.mem.used(),
		SentMessages: x.sentMessages.Load(), SentBytes: x.sentBytes.Load(),
		RecvMessages: x.recvMessages.Load(), RecvBytes: x.recvBytes.Load(), Stalled: x.flows.Stalls.Load(),
		CongestionBlocked: x.congBlocked.Load(), CongestionErrors: x.congErrors.Load(), QueueFull: x.queueFull.Load(),
		Queue: x.queue.number, Backlog: int(x.queue.backlog.Load()), NotReady: x.queue.full.Load(),
	}
	x.out.mu.Lock()
	i.Waiting = x.out.spill.Len()
	for _, a := range x.out.waiting {
		i.Waiting += int(a.s.Queue.Count.Load())
	}
	x.out.mu.Unlock()
	return i
}

// waits lists what the application as a whole waits for.
func (x *session) waits(y *node.WaitReport) {
	mine := info.Whose{App: true, UID: x.cred.UID}
	w := info.Wait{PID: x.cred.PID, Command: x.command, Whose: mine}
	if x.overBudget.Load() {
		w.Cause, w.Since, w.Bytes, w.Detail = info.CauseBudget, time.Unix(0, x.stalledAt.Load()), int(x.queued.Load()), "the send budget of the application"
		if x.fatesFull.Load() {
			w.Cause, w.Detail = info.CauseFates, "fates that the application has not received"
		}
		y.Add(w, nil)
	}
	if x.queue.full.Load() {
		y.Add(info.Wait{Cause: info.CauseReceiver, Since: time.Unix(0, x.queue.fullAt.Load()), PID: x.cred.PID, Command: x.command, Whose: mine,
			Bytes: int(x.queue.backlog.Load()), Detail: "its receive queue is not ready: peers on XRC hold back what is for any of its ports"}, nil)
	}
}

// Describe is for node.Server.
func (s *Service) Describe(info *info.Report) (users map[*node.Peer][]uint32) {
	info.Sessions, info.Users = s.Sessions(), s.Users()
	return s.usersOfPeers()
}

// Waits is for node.Server.
func (s *Service) Waits(y *node.WaitReport) {
	for _, x := range s.all() {
		x.waits(y)
	}
}

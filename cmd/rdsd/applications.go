package main

import (
	"strconv"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rds-go/rds/rds"
)

// maxApplications bounds the label values that applications, whose names are
// their own choice, can make. What comes after them is counted as others.
const maxApplications = 256

var others = application{command: "(other)"}

// application is all the processes of a user that go by one name.
type application struct{ command, uid string }

// usage is what the sessions of an application have or did. Numbers of
// sessions that have ended stay in what only grows.
type usage struct {
	sessions, sockets, sendQueued, sendBudget, arena, lent, waiting, backlog, notReady int
	totals
}

// totals only grow.
type totals struct {
	sentMessages, sentBytes, recvMessages, recvBytes, stalled uint64
	congBlocked, congErrors, queueFull                        uint64
}

func (t *totals) add(o totals) {
	t.sentMessages += o.sentMessages
	t.sentBytes += o.sentBytes
	t.recvMessages += o.recvMessages
	t.recvBytes += o.recvBytes
	t.stalled += o.stalled
	t.congBlocked += o.congBlocked
	t.congErrors += o.congErrors
	t.queueFull += o.queueFull
}

type appMetric struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	value func(*usage) float64
}

func appGauge(name, help string, value func(*usage) int) appMetric {
	return appMetric{appDesc(name, help), prometheus.GaugeValue, func(u *usage) float64 { return float64(value(u)) }}
}

func appCounter(name, help string, value func(*usage) uint64) appMetric {
	return appMetric{appDesc(name, help), prometheus.CounterValue, func(u *usage) float64 { return float64(value(u)) }}
}

func appDesc(name, help string) *prometheus.Desc {
	return prometheus.NewDesc("rds_application_"+name, help, []string{"command", "uid"}, nil)
}

var appMetrics = []appMetric{
	appGauge("sessions", "Processes attached.", func(u *usage) int { return u.sessions }),
	appGauge("sockets", "Sockets bound.", func(u *usage) int { return u.sockets }),
	appGauge("send_queued_bytes", "Memory queued or unacknowledged.", func(u *usage) int { return u.sendQueued }),
	appGauge("send_budget_bytes", "Bound of the memory queued or unacknowledged.", func(u *usage) int { return u.sendBudget }),
	appGauge("receive_arena_bytes", "Shared memory for what is received.", func(u *usage) int { return u.arena }),
	appGauge("receive_arena_lent_bytes", "Of that memory, what holds messages.", func(u *usage) int { return u.lent }),
	appGauge("waiting_messages", "Messages received that wait for room in the shared memory.", func(u *usage) int { return u.waiting }),
	appGauge("backlog_bytes", "Memory of the messages that wait.", func(u *usage) int { return u.backlog }),
	appGauge("not_ready", "Processes for which peers keep what they have.", func(u *usage) int { return u.notReady }),
	appCounter("sent_messages_total", "Messages accepted from the application.", func(u *usage) uint64 { return u.sentMessages }),
	appCounter("sent_bytes_total", "Payload accepted from the application.", func(u *usage) uint64 { return u.sentBytes }),
	appCounter("received_messages_total", "Messages taken by the application.", func(u *usage) uint64 { return u.recvMessages }),
	appCounter("received_bytes_total", "Payload taken by the application.", func(u *usage) uint64 { return u.recvBytes }),
	appCounter("cong_send_blocked_total", "Sends that waited for congestion to end.", func(u *usage) uint64 { return u.congBlocked }),
	appCounter("cong_send_error_total", "Sends refused for congestion.", func(u *usage) uint64 { return u.congErrors }),
	appCounter("send_queue_full_total", "Sends that met a full send buffer, ring or arena.", func(u *usage) uint64 { return u.queueFull }),
	appCounter("stalls_total", "Times it had to wait for its turn on a connection.", func(u *usage) uint64 { return u.stalled }),
}

// applications aggregates sessions over time. A session counts with what it
// had done at the last look; one that came and went between two is not seen.
type applications struct {
	usage map[application]*usage
	ended map[application]*totals // sums of sessions that are gone
	last  map[uint64]seen         // what the last snapshot said of each session, by session id
}

type seen struct {
	app application
	totals
}

// update takes the sessions of a newer snapshot.
func (a *applications) update(sessions []rds.SessionInfo) {
	if a.ended == nil {
		a.ended = make(map[application]*totals)
	}
	last := make(map[uint64]seen, len(sessions))
	a.usage = make(map[application]*usage)
	for i := range sessions {
		s := &sessions[i]
		before, known := a.last[s.ID]
		app := before.app
		if !known {
			app = a.name(s)
		}
		t := totals{s.SentMessages, s.SentBytes, s.RecvMessages, s.RecvBytes, s.Stalled, s.CongestionBlocked, s.CongestionErrors, s.QueueFull}
		last[s.ID] = seen{app, t}
		u := a.of(app)
		u.sessions++
		u.sockets += s.Sockets
		u.sendQueued += s.SendQueued
		u.sendBudget += s.SendBudget
		u.arena += s.ReceiveArena
		u.lent += s.ReceiveLent
		u.waiting += s.Waiting
		u.backlog += s.Backlog
		if s.NotReady {
			u.notReady++
		}
		u.add(t)
	}
	for id, s := range a.last {
		if _, still := last[id]; !still {
			a.ended[s.app].add(s.totals)
		}
	}
	a.last = last
	for app, t := range a.ended {
		a.of(app).add(*t)
	}
}

// name is the application a new session belongs to.
func (a *applications) name(s *rds.SessionInfo) application {
	app := application{strings.ToValidUTF8(s.Command, "?"), strconv.FormatUint(uint64(s.UID), 10)}
	if a.ended[app] == nil {
		if len(a.ended) >= maxApplications {
			app = others
		}
		if a.ended[app] == nil {
			a.ended[app] = new(totals)
		}
	}
	return app
}

func (a *applications) of(app application) *usage {
	u := a.usage[app]
	if u == nil {
		u = new(usage)
		a.usage[app] = u
	}
	return u
}

func (a *applications) collect(out chan<- prometheus.Metric) {
	for app, u := range a.usage {
		for _, m := range appMetrics {
			out <- prometheus.MustNewConstMetric(m.desc, m.kind, m.value(u), app.command, app.uid)
		}
	}
}

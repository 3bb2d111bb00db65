package main

import (
	"errors"
	"fmt"
	"sync"

	"github.com/rds-go/rds/mr"
	"github.com/rds-go/rds/transport/iwarp"
	"github.com/rds-go/rds/transport/iwarp/rdmap"
)

// completion is the line of a completion, or of several alike in a row.
type completion struct {
	Type        string `json:"type"` // completion
	Connection  int    `json:"connection,omitzero"`
	Index       *int   `json:"index,omitempty"` // index of the operation on the command line
	Op          string `json:"op"`
	Count       int    `json:"count"`
	Status      string `json:"status"`
	Code        int    `json:"status_code"` // number of the status, as in ibv_wc_status
	Vendor      string `json:"vendor,omitzero"`
	Cause       string `json:"cause,omitzero"` // vendor in words
	Length      uint32 `json:"length"`
	Solicited   bool   `json:"solicited,omitzero"`
	Invalidated string `json:"invalidated,omitzero"`
	Immediate   string `json:"immediate,omitzero"` // immediate data received
	Hash        string `json:"hash,omitzero"`      // hash of the bytes received or read
	Value       string `json:"value,omitzero"`     // value that an atomic found
}

func completionLine(id int, op iwarp.Op, c *iwarp.Completion) completion {
	l := completion{Type: "completion", Connection: id, Op: op.String(), Count: 1, Status: c.Status.String(), Code: int(c.Status)}
	if c.Status != iwarp.Success {
		switch {
		case c.Vendor == 0:
		case c.Status == iwarp.LocalProtection:
			l.Vendor, l.Cause = hexOf(c.Vendor), mr.Fault(c.Vendor).Error()
		default:
			cause := rdmap.Cause(c.Vendor)
			l.Vendor, l.Cause = causeHex(cause), cause.String()
		}
		return l
	}
	l.Length, l.Solicited = c.Len, c.Solicited
	if c.Invalidated != 0 {
		l.Invalidated = hexOf(c.Invalidated)
	}
	return l
}

// ending is the line of a connection's end.
type ending struct {
	Type       string     `json:"type"` // end
	Connection int        `json:"connection,omitzero"`
	Clean      bool       `json:"clean"` // one side has disconnected
	Error      string     `json:"error"`
	Terminate  *terminate `json:"terminate,omitempty"`
	Events     []event    `json:"events,omitempty"`
	Flushed    int        `json:"flushed,omitzero"` // receive requests that came back unused
}

// terminate is the Terminate message of either side.
type terminate struct {
	Sender string `json:"sender"` // us, peer
	Cause  string `json:"cause"`  // error code, as causeHex writes it
	Text   string `json:"text"`
	SIW    bool   `json:"siw_layout,omitzero"`
}

// event is an asynchronous one.
type event struct {
	Kind  string `json:"event"`
	Cause string `json:"cause,omitzero"`
}

// causeHex writes layer, type and code: 0xltcc.
func causeHex(c rdmap.Cause) string { return fmt.Sprintf("0x%04x", uint16(c)) }

func endLine(id int, err error, events []event) ending {
	e := ending{Type: "end", Connection: id, Events: events}
	e.Clean = errors.Is(err, iwarp.ErrClosed) || errors.Is(err, iwarp.ErrPeerClosed)
	if err != nil {
		e.Error = err.Error()
	}
	var t *iwarp.TerminateError
	if errors.As(err, &t) {
		e.Terminate = &terminate{Sender: "us", Cause: causeHex(t.Cause), Text: t.Cause.String(), SIW: t.SIW}
		if t.Remote {
			e.Terminate.Sender = "peer"
		}
	}
	return e
}

// watcher keeps the asynchronous events of queue pairs until their end.
type watcher struct {
	mu     sync.Mutex
	events map[*iwarp.QP][]event // guarded by mu
}

func newWatcher() *watcher { return &watcher{events: make(map[*iwarp.QP][]event)} }

var eventNames = map[iwarp.EventKind]string{
	iwarp.EventQPFatal: "QP fatal", iwarp.EventQPAccess: "QP access error", iwarp.EventQPRequest: "QP request error",
}

// note is a Config.OnEvent. A queue pair ends once, so its events are few.
func (w *watcher) note(e iwarp.Event) {
	name := eventNames[e.Kind]
	if name == "" {
		return // the event is of a completion queue
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.events[e.QP] = append(w.events[e.QP], event{Kind: name, Cause: causeHex(e.Cause)})
}

// take returns and forgets what has happened to q.
func (w *watcher) take(q *iwarp.QP) []event {
	w.mu.Lock()
	defer w.mu.Unlock()
	list := w.events[q]
	delete(w.events, q)
	return list
}

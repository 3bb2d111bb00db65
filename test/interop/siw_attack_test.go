//go:build interop

package interop

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// operation is what an attacker does to a region, or a wait for the end of the
// connection.
type operation struct {
	op      string // read, write, send, se (solicited), inv (it invalidates the key), wait
	key     uint32
	address uint64
	length  int
	count   int // 0 is once
}

// wait is the operation that waits for the other side to end the connection.
var wait = operation{op: "wait"}

// on is an operation on a region, at an offset that may be outside.
func (r verbsRegion) on(op string, offset int64, length int) operation {
	return operation{op: op, key: r.key, address: r.address + uint64(offset), length: length}
}

// word is the operation as an argument for verbs/verbs.c or rdsverbs.
func (o operation) word(ours bool) string {
	count := max(o.count, 1)
	switch {
	case o.op == "wait":
		return o.op
	case !ours:
		return fmt.Sprintf("%s:%#x:%#x:%d:%d", o.op, o.key, o.address, o.length, count)
	case o.op == "send":
		return fmt.Sprintf("send:len=%d,count=%d", o.length, count)
	case o.op == "se":
		return fmt.Sprintf("send:len=%d,count=%d,solicited", o.length, count)
	case o.op == "inv":
		return fmt.Sprintf("send-invalidate:key=%#x,len=%d,count=%d", o.key, o.length, count)
	}
	return fmt.Sprintf("%s:key=%#x,addr=%#x,len=%d,count=%d", o.op, o.key, o.address, o.length, count)
}

// attack is a program that does operations on a server.
type attack struct {
	*program
	from verbs
	seen int // Terminates that the guest had received before
}

// startAttack starts a program that connects to a server and does operations.
func (v verbs) startAttack(t *testing.T, s *regionServer, ops ...operation) *attack {
	t.Helper()
	argv := []string{verbsProgram, "attack", s.at.Addr().String(), s.port()}
	if v.ours {
		argv = []string{v.rdsverbs, "op", "-a", s.at.Addr().String(), "-p", s.port()}
	}
	for _, o := range ops {
		argv = append(argv, o.word(v.ours))
	}
	s.conns++
	a := &attack{from: v, seen: len(v.terminates(t))}
	a.program = v.exec(t, argv...)
	return a
}

// completed is how operations completed, several alike as one.
type completed struct {
	conn          int
	op            string
	status, count int
	hash          string // hash of the bytes read last
}

// outcome is what an attacker tells in the end.
type outcome struct {
	done    []completed
	refusal refusal // refusal that was told
}

// finish waits for the attacker's end. right tells whether its peer writes
// Terminates as the RFCs have it, which siw does not.
func (a *attack) finish(t *testing.T, right bool) (o outcome) {
	t.Helper()
	r := a.wait(t)
	if a.from.ours { // status 1: something was refused
		if r.Status != 0 && r.Status != 1 {
			t.Fatalf("%s: %s", a.name, r.State)
		}
		o.done = parseCompletions(r.Output)
		o.refusal = parseEnd(t, r.Output, "peer")
		return o
	}
	if r.Status != 0 {
		t.Fatalf("%s: %s", a.name, r.State)
	}
	o.done = parseCompleted(r.Output)
	o.refusal = none
	if list := a.from.terminates(t)[a.seen:]; len(list) > 0 {
		o.refusal = list[0]
		if right { // siw takes layer and kind from each other's place
			o.refusal.layer, o.refusal.kind = o.refusal.kind, o.refusal.layer
		}
	}
	return o
}

// of returns how an operation completed last.
func (o outcome) of(op string) (last completed) {
	last.status = -1
	for _, c := range o.done {
		if c.op == op {
			last = c
		}
	}
	return last
}

// completedLine is a line of verbs/verbs.c, and sinkLine what follows a read.
var completedLine = regexp.MustCompile(`(?m)^(?:completed (\d+) (\w+) status (\d+) vendor \d+ count (\d+) |sink \d+ hash (\w+)$)`)

func parseCompleted(out string) (list []completed) {
	for _, m := range completedLine.FindAllStringSubmatch(out, -1) {
		if m[5] != "" && len(list) > 0 {
			list[len(list)-1].hash = m[5]
			continue
		}
		c := completed{op: m[2]}
		for i, to := range map[int]*int{1: &c.conn, 3: &c.status, 4: &c.count} {
			*to, _ = strconv.Atoi(m[i]) // are digits
		}
		list = append(list, c)
	}
	return list
}

// parseCompletions reads those of rdsverbs.
func parseCompletions(out string) (list []completed) {
	for line := range strings.Lines(out) {
		var c struct {
			Type, Op, Hash    string
			Connection, Count int
			Code              int `json:"status_code"`
		}
		if json.Unmarshal([]byte(line), &c) == nil && c.Type == "completion" {
			if c.Op == "send-invalidate" {
				c.Op = "inv"
			}
			list = append(list, completed{c.Connection, c.Op, c.Code, c.Count, c.Hash})
		}
	}
	return list
}

// parseEnd finds, in the end of a connection as rdsverbs prints it, the
// Terminate of one side.
func parseEnd(t *testing.T, out, sender string) refusal {
	t.Helper()
	for line := range strings.Lines(out) {
		var e struct {
			Type      string
			Terminate struct{ Sender, Cause string }
		}
		if json.Unmarshal([]byte(line), &e) != nil || e.Type != "end" || e.Terminate.Sender != sender {
			continue
		}
		cause, err := strconv.ParseUint(e.Terminate.Cause, 0, 16)
		must(t, err)
		return refusal{int(cause >> 12), int(cause >> 8 & 0xf), int(cause & 0xff)}
	}
	return none
}

// terminated finds what siw says of a Terminate that it received.
var terminated = regexp.MustCompile(`siw: got TERMINATE\. layer (\d+), type (\d+), code (\d+)`)

// terminates returns the Terminates that a guest has received, none on our side.
func (v verbs) terminates(t *testing.T) (list []refusal) {
	t.Helper()
	if v.ours {
		return nil
	}
	console, err := os.ReadFile(v.log)
	must(t, err)
	for _, m := range terminated.FindAllSubmatch(console, -1) {
		var r refusal
		for i, to := range map[int]*int{1: &r.layer, 2: &r.kind, 3: &r.code} {
			*to, _ = strconv.Atoi(string(m[i])) // are digits
		}
		list = append(list, r)
	}
	return list
}

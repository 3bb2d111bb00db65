//go:build !live

package ipc

import (
	"fmt"
	"maps"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/rds-go/rds/internal/wire"
)

// docTable returns the rows of the first table of docs/IPC.md that follows the
// line starting with after, as lists of cells without the heading.
func docTable(t *testing.T, after string) [][]string {
	t.Helper()
	doc, err := os.ReadFile("../../docs/IPC.md")
	must(t, err)
	_, rest, found := strings.Cut(string(doc), "\n"+after)
	if !found {
		t.Fatalf("docs/IPC.md has no %q", after)
	}
	var rows [][]string
	for line := range strings.Lines(rest) {
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "|") {
			if rows != nil {
				break
			}
			continue
		}
		cells := strings.Split(strings.Trim(line, "|"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		rows = append(rows, cells)
	}
	if len(rows) < 3 {
		t.Fatalf("docs/IPC.md has no table after %q", after)
	}
	return rows[2:]
}

// number reads a cell: a number, or a product of two.
func number(t *testing.T, cell string) int {
	t.Helper()
	product := 1
	for _, f := range strings.Split(cell, "×") {
		n, err := strconv.ParseInt(strings.TrimSpace(f), 0, 64)
		if err != nil {
			t.Fatalf("docs/IPC.md: %v", err)
		}
		product *= int(n)
	}
	return product
}

// place is a field as a row of an offset table says it.
type place struct {
	off, size int
	name      string
	writer    string
}

func places(t *testing.T, after string) (out []place) {
	t.Helper()
	for _, r := range docTable(t, after) {
		p := place{off: number(t, r[0]), size: number(t, r[1]), name: r[2]}
		if len(r) > 3 {
			p.writer = r[3]
		}
		out = append(out, p)
	}
	return out
}

func TestOffsetsAreThoseOfTheDocument(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		after string
		want  []place
		end   int
	}{
		{"The first page. ", []place{
			{offMagic, 8, fmt.Sprintf("magic: %#x", uint64(magic)), ""},
			{offLayout, 8, "submissions", ""}, {offLayout + 8, 8, "completions", ""}, {offLayout + 16, 8, "sockets", ""},
			{offLayout + 24, 8, "data", ""}, {offLayout + 32, 8, "send", ""}, {offLayout + 40, 8, "receive", ""}, {offLayout + 48, 8, "memory", ""},
			{offSQTail, 8, "submission tail", ""}, {offSQHead, 8, "submission head", ""}, {offSQSleep, 4, "flag: the daemon sleeps", ""},
			{offCQTail, 8, "completion tail", ""}, {offCQHead, 8, "completion head", ""}, {offCQSleep, 4, "flag: the application sleeps", ""},
			{offWantSQ, 4, "flag: wants OpSpace", ""}, {offWantMap, 4, "flag: wants OpMaps", ""},
			{offWantCQ, 4, "flag: wants the bell when completions", ""}, {offWantRet, 4, "flag: wants the bell when memory", ""},
			{offLeft, 4, "flag: takes no more submissions", ""}, {offHeld, 8, "memory of what was submitted and waits", ""},
			{offSpill, 8, "the oldest block of spilled", ""}, {offTaking, 8, "index of the first submission", ""}, {offShort, 4, "flag: the user's share of memory", ""},
		}, pageSize},
		{"A cell, one per socket.", []place{
			{offFreedBytes, 8, "bytes settled", ""}, {offFreedMsgs, 8, "messages settled", ""}, {offCellHeld, 8, "bytes submitted that wait", ""}, {offBoundBy, 8, "ID of the call", ""}, {offNumber, 4, "number of the socket", ""}, {offTell, 4, "flag: wants the bell", ""},
			{offTakenBytes, 8, "bytes taken", ""}, {offTakenMsgs, 8, "messages taken", ""},
			{offBlocked, 8, "sends that waited", ""}, {offCongested, 8, "sends refused", ""}, {offFull, 8, "sends that met", ""},
			{offWantRoom, 4, "flag: wants OpRoom", ""}, {offWaits, 16 * cellWaits, "waits", ""},
		}, cellSize},
		{"## The table", []place{
			{0, 8, fmt.Sprintf("magic: %#x", uint64(tableMagic)), ""}, {offTableMaps, 8, "congestion maps received", ""}, {offTableGen, 8, "the daemon's generation", ""}, {offTableBars, 8, "changes of which peers are barred", ""},
			{offTablePeers, tablePeer * MaxPeers, "peers", ""}, {offTableBits, wire.CongestionMapSize * MaxPeers, "congestion maps, in", ""},
		}, tableSize},
		{"A peer is a connection", []place{
			{offPeerUsed, 4, "used", ""}, {offPeerKind, 1, "family", ""}, {offPeerZone, 1, "length of the zone", ""}, {offPeerScope, 1, "who has the zone", ""}, {offPeerLong, 1, "longest payload", ""},
			{offLocal, 16, "local address", ""}, {offRemote, 16, "remote address", ""}, {offZone, zoneMax, "zone", ""}, {offCarries, 4, "what its links carry", ""},
			{offServes, 4, "which transport serves it", ""},
		}, tablePeer},
		{"outlive it. A block:", []place{
			{spillNext, 8, "offset of the next block", ""}, {spillFirst, 8, "index of its first entry", ""}, {spillCount, 8, "entries written", ""},
			{spillHead, SpillBlock - spillHead, "entries", ""},
		}, SpillBlock},
		{"An About: ", []place{
			{offAboutFlags, 4, "flags", ""}, {offAboutPieces, 4, "pieces", ""}, {offAboutKind, 8, "kind", ""},
			{offAboutWords, 8, "id", ""}, {offAboutWords + 8, 8, "dest", ""}, {offAboutWords + 16, 8, "cookie", ""}, {offAboutWords + 24, 8, "offset", ""},
			{offAboutWords + 32, 8, "cookie of the word", ""}, {offAboutWords + 40, 8, "offset of the word", ""},
			{offAboutWords + 48, 8, "add", ""}, {offAboutWords + 56, 8, "mask of add", ""}, {offAboutWords + 64, 8, "compare", ""},
			{offAboutWords + 72, 8, "mask of compare", ""}, {offAboutWords + 80, 8, "swap", ""}, {offAboutWords + 88, 8, "mask of swap", ""},
		}, AboutSize},
	} {
		got := places(t, c.after)
		if len(got) != len(c.want) {
			t.Errorf("%s: %d fields, want %d", c.after, len(got), len(c.want))
			continue
		}
		end := 0
		for i, p := range got {
			w := c.want[i]
			if p.off != w.off || p.size != w.size || !strings.HasPrefix(p.name, w.name) {
				t.Errorf("%s: %#x, %d bytes: %s; the code has %#x, %d bytes: %s", c.after, p.off, p.size, p.name, w.off, w.size, w.name)
			}
			if p.off < end || p.size <= 8 && p.off%p.size != 0 {
				t.Errorf("%s: %s overlaps, or is not aligned", c.after, p.name)
			}
			end = p.off + p.size
		}
		if end > c.end {
			t.Errorf("%s: it ends at %#x, behind %#x", c.after, end, c.end)
		}
	}
}

// Two sides that write to one cache line, or to two that are fetched together,
// slow each other down.
func TestFieldsOfDifferentWritersAreApart(t *testing.T) {
	t.Parallel()
	const block = 128
	for _, after := range []string{"The first page. ", "A cell, one per socket."} {
		owner := map[int]string{}
		for _, p := range places(t, after) {
			if p.writer == "" {
				t.Errorf("%s: nobody writes it", p.name)
			}
			n := p.off / block
			if o, ok := owner[n]; ok && o != p.writer {
				t.Errorf("%s: block %#x belongs to %s and to %s", p.name, n*block, o, p.writer)
			}
			owner[n] = p.writer
		}
		if len(owner) < 2 {
			t.Errorf("%s: one writer only", after)
		}
	}
	if cellSize%block != 0 || pageSize%block != 0 {
		t.Error("cells are not aligned")
	}
}

func TestAreasLieAsDocumented(t *testing.T) {
	t.Parallel()
	l := Layout{Submissions: 1, Completions: 256, Sockets: 17, Data: 64 << 10, Send: 1 << 20, Receive: 2 << 20, Memory: 4 << 20}
	size := map[string]int{"submissions": l.Submissions, "completions": l.Completions, "sockets": l.Sockets, "data": l.Data, "send": l.Send, "receive": l.Receive, "memory": l.Memory}
	at := map[string]int{"first page": 0, "submission ring": l.sqOff(), "completion ring": l.cqOff(), "cells": l.cellsOff(),
		"data ring": l.dataOff(), "send arena": l.sendOff(), "receive arena": l.receiveOff(), "memory": l.memoryOff()}
	off := 0
	rows := docTable(t, "A memfd, sealed with")
	for _, r := range rows {
		if got, ok := at[r[0]]; !ok || got != off {
			t.Errorf("%s is at %#x, want %#x", r[0], got, off)
		}
		n := 1
		for _, f := range strings.Split(r[1], "×") {
			f = strings.TrimSpace(f)
			if v, ok := size[f]; ok {
				n *= v
			} else {
				n *= number(t, f)
			}
		}
		off += (n + pageSize - 1) / pageSize * pageSize
	}
	if len(rows) != len(at) || off != l.Size() {
		t.Errorf("%d areas of %#x bytes, want %d of %#x", len(at), l.Size(), len(rows), off)
	}
}

func TestLimitsAreThoseOfTheDocument(t *testing.T) {
	t.Parallel()
	want := map[string]int{
		"message to the daemon": maxCall, "message to the application": maxFrame, "part of a report": DataPart, "entry": entrySize, "cell": cellSize, "page": pageSize,
		"smallest block of an arena": MinBlock, "largest block of an arena": ChunkSize, "peers in the table": MaxPeers,
		"zone": zoneMax, "descriptors with a Welcome": WelcomeFiles, "table": tableSize, "About": AboutSize, "piece": PieceSize, "pieces": MaxPieces, "OpExpose not answered": MaxExposing,
	}
	got := map[string]int{}
	for _, r := range docTable(t, "## Limits") {
		got[r[0]] = number(t, r[1])
	}
	if !maps.Equal(got, want) {
		t.Errorf("%v, the code has %v", got, want)
	}
	if n := reflect.TypeFor[Entry]().Size(); n != entrySize {
		t.Errorf("an entry has %d bytes", n)
	}
}

func TestOpsAreThoseOfTheDocument(t *testing.T) {
	t.Parallel()
	for after, want := range map[string]map[string]Op{
		"Submissions, from": {"OpSend": OpSend, "OpSendBlock": OpSendBlock, "OpReturn": OpReturn, "OpExpose": OpExpose, "OpConceal": OpConceal},
		"Completions, from": {"OpMessage": OpMessage, "OpFreed": OpFreed, "OpFate": OpFate, "OpRoom": OpRoom, "OpSpace": OpSpace, "OpMaps": OpMaps, "OpDone": OpDone, "OpRetired": OpRetired, "OpExposed": OpExposed},
	} {
		got := map[string]Op{}
		for _, r := range docTable(t, after) {
			got[r[1]] = Op(number(t, r[0]))
		}
		if !maps.Equal(got, want) {
			t.Errorf("%s: %v, the code has %v", after, got, want)
		}
	}
}

// The diagram of an entry says the fields of each word from its high end, and
// the ruler above it their bits.
func TestTheDiagramIsAnEntry(t *testing.T) {
	t.Parallel()
	doc, err := os.ReadFile("../../docs/IPC.md")
	must(t, err)
	var words []string
	for _, m := range regexp.MustCompile(`(?m)^\|(.*)\|  word (\d)$`).FindAllStringSubmatch(string(doc), -1) {
		if n := number(t, m[2]); n != len(words) {
			t.Errorf("word %d follows %d words", n, len(words))
		}
		words = append(words, strings.Join(strings.Fields(m[1]), ""))
	}
	if want := []string{"socket|port|flags|op", "length|peer", "block|offset", "token"}; !slices.Equal(words, want) {
		t.Fatalf("%q, want %q", words, want)
	}
	if !regexp.MustCompile(`(?m)^ 63 +32 31 +16 15 +8 7 +0$`).Match(doc) {
		t.Error("the ruler is another one")
	}
	for _, c := range []struct {
		name string
		e    Entry
		want Entry
	}{
		{"op", MakeEntry(255, 0, 0, 0, 0, 0, 0, 0, 0), Entry{0: 0xff}},
		{"flags", MakeEntry(0, 255, 0, 0, 0, 0, 0, 0, 0), Entry{0: 0xff << 8}},
		{"port", MakeEntry(0, 0, 1<<16-1, 0, 0, 0, 0, 0, 0), Entry{0: 0xffff << 16}},
		{"socket", MakeEntry(0, 0, 0, 1<<32-1, 0, 0, 0, 0, 0), Entry{0: 0xffffffff << 32}},
		{"peer", MakeEntry(0, 0, 0, 0, 1<<32-1, 0, 0, 0, 0), Entry{1: 0xffffffff}},
		{"length", MakeEntry(0, 0, 0, 0, 0, 1<<32-1, 0, 0, 0), Entry{1: 0xffffffff << 32}},
		{"offset", MakeEntry(0, 0, 0, 0, 0, 0, 1<<32-1, 0, 0), Entry{2: 0xffffffff}},
		{"block", MakeEntry(0, 0, 0, 0, 0, 0, 0, 1<<32-1, 0), Entry{2: 0xffffffff << 32}},
		{"token", MakeEntry(0, 0, 0, 0, 0, 0, 0, 0, 1<<64-1), Entry{3: 1<<64 - 1}},
	} {
		if c.e != c.want {
			t.Errorf("%s: %#x, want %#x", c.name, c.e, c.want)
		}
	}
}

func TestFieldsOfCallsAreThoseOfTheDocument(t *testing.T) {
	t.Parallel()
	for after, v := range map[string]any{
		"Fields of Hello:": Hello{}, "Fields of Welcome:": Welcome{}, "Fields of Request:": Request{}, "Fields of Reply:": Reply{},
	} {
		var got, want []string
		for _, r := range docTable(t, after) {
			got = append(got, r[0])
		}
		for f := range reflect.TypeOf(v).Fields() {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			want = append(want, name)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s %q, the code has %q", after, got, want)
		}
	}
	var calls []string
	for _, r := range docTable(t, "## Calls") {
		calls = append(calls, r[0])
	}
	if want := []string{CallBind, CallClose, CallConnect, CallOption, CallCancel, CallResolve, CallInfo, CallReach, CallExpose, CallConceal, CallXRC, CallAdmit}; !slices.Equal(calls, want) {
		t.Errorf("calls %q, the code has %q", calls, want)
	}
	doc, _ := os.ReadFile("../../docs/IPC.md")
	for _, o := range []string{OptionSendBuffer, OptionReceiveBuffer, OptionRecvErr, OptionTOS, OptionMonitor, envPath, Protocol, FeatureRDMA, FeatureChoice, FeatureXRC, FeatureTCP, FeatureAgain, FeatureSpill, FeatureObjects, "OpWork", "Version " + strconv.Itoa(Version)} {
		if !strings.Contains(string(doc), o) {
			t.Errorf("docs/IPC.md does not name %s", o)
		}
	}
}

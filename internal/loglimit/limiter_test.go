package loglimit

import (
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
)

// rig is a limiter with a clock of its own.
type rig struct {
	*Limiter
	mu   sync.Mutex
	at   time.Time
	log  *zap.Logger // limited
	logs *observer.ObservedLogs
	out  *zap.Logger // not limited
}

var friends = netip.MustParsePrefix("10.1.0.0/16")

func newRig() *rig {
	r := &rig{at: time.Unix(1_700_000_000, 0)}
	r.Limiter = New(func() time.Time {
		r.mu.Lock()
		defer r.mu.Unlock()
		return r.at
	}, friends.Contains)
	core, logs := observer.New(zap.InfoLevel)
	r.out, r.logs = zap.New(core), logs
	r.log = r.Logger(r.out)
	return r
}

func (r *rig) pass(d time.Duration) {
	r.mu.Lock()
	r.at = r.at.Add(d)
	r.mu.Unlock()
	r.Tell(r.out)
}

// count is the number of lines with a message since the last call.
func (r *rig) count(message string) int {
	n := 0
	for _, e := range r.logs.All() {
		if e.Message == message {
			n++
		}
	}
	return n
}

func peer(n int) netip.Addr {
	return netip.AddrFrom4([4]byte{127, byte(n >> 16), byte(n >> 8), byte(n)})
}

func (r *rig) sums() (out []map[string]any) {
	for _, e := range r.logs.FilterMessage("log lines left out").All() {
		out = append(out, e.ContextMap())
	}
	return out
}

// One peer has its lines, another one others, and the rest is told in sum.
func TestLinesOfOnePeerAreBounded(t *testing.T) {
	t.Parallel()
	r := newRig()
	noisy := r.log.With(zap.Stringer("local", peer(9)), zap.Stringer("peer", peer(1)))
	for range 1000 {
		noisy.Info("path up")
		r.log.Info("path down", zap.Stringer("peer", netip.AddrPortFrom(peer(1), uint16(r.logs.Len()))))
	}
	r.log.Info("path up", zap.Stringer("peer", peer(2)))
	if a, b := r.count("path up"), r.count("path down"); a != perPeer+1 || b != perPeer {
		t.Errorf("%d and %d lines", a, b)
	}
	if r.Left() != 2000-2*perPeer || len(r.sums()) != 0 {
		t.Errorf("%d left out, sums %v", r.Left(), r.sums())
	}
	r.pass(windowMin)
	sums := r.sums()
	if len(sums) != 2 || sums[1]["line"] != "path up" || sums[1]["lines"] != uint64(1000-perPeer) || sums[1]["most"] != fmt.Sprintf("127.0.0.1: %d", 1000-perPeer) {
		t.Errorf("sums %v", sums)
	}
	noisy.Info("path up")
	if n := r.count("path up"); n != perPeer+2 {
		t.Errorf("%d lines, and a new window has begun", n)
	}
	r.pass(2 * windowMin)
	if len(r.sums()) != 2 {
		t.Errorf("a window that has left out nothing has a sum: %v", r.sums())
	}
	for range perPeer + 5 {
		noisy.Info("path up")
	}
	if r.End(r.out); len(r.sums()) != 3 || r.sums()[2]["lines"] != uint64(5) {
		t.Errorf("at the end: %v", r.sums())
	}
}

// Many peers share what there is of a kind; those that are trusted have their own.
func TestLinesOfAllPeersAreBounded(t *testing.T) {
	t.Parallel()
	r := newRig()
	const strangers = 20_000
	for i := range strangers {
		r.log.Info("path up", zap.Stringer("peer", peer(i)))
	}
	if n := r.count("path up"); n != perKind {
		t.Errorf("%d lines of strangers", n)
	}
	friend := netip.MustParseAddr("10.1.2.3")
	for range 2 * perPeer {
		r.log.Info("path up", zap.Stringer("peer", friend))
	}
	if n := r.count("path up"); n != perKind+perPeer {
		t.Errorf("%d lines with those of a trusted peer", n)
	}
	r.log.Info("another kind", zap.Stringer("peer", peer(1)))
	if r.count("another kind") != 1 {
		t.Error("one kind is bounded by another")
	}
	if n := len(r.kinds["path up"].peers); n > maxPeers {
		t.Errorf("%d peers are told apart", n)
	}
}

// A flood that lasts for a day makes a small log.
func TestLastingFloodIsSmall(t *testing.T) {
	t.Parallel()
	r := newRig()
	lines := 0
	for minute := range 24 * 60 {
		for i := range 400 {
			r.log.Info("path up", zap.Stringer("peer", peer(minute*400+i)))
		}
		r.pass(time.Minute)
		lines += len(r.logs.TakeAll())
	}
	const windows = 24*60/16 + 5
	if lines > windows*(perKind+1) {
		t.Errorf("%d lines in a day, want at most %d", lines, windows*(perKind+1))
	}
	r.pass(windowMax)
	r.pass(windowMax)
	r.logs.TakeAll()
	for range 3 { // the first windows are short again
		r.log.Info("path up", zap.Stringer("peer", peer(1)))
	}
	if k := r.kinds["path up"]; k.length != windowMin || r.logs.Len() != 3 {
		t.Errorf("after the flood a window is of %v, %d lines", k.length, r.logs.Len())
	}
}

// The tables are bounded, whatever the lines are.
func TestTablesAreBounded(t *testing.T) {
	t.Parallel()
	r := newRig()
	for i := range 2 * maxKinds {
		r.log.Info(fmt.Sprint("kind ", i))
	}
	if len(r.kinds) != maxKinds || r.logs.Len() != maxKinds || r.Left() != maxKinds {
		t.Errorf("%d kinds, %d lines, %d left out", len(r.kinds), r.logs.Len(), r.Left())
	}
	for i := range 2 * maxPeers {
		r.log.Info("kind 0", zap.Stringer("peer", netip.AddrFrom4([4]byte{10, 1, byte(i >> 8), byte(i)})))
	}
	if n := len(r.kinds["kind 0"].peers); n != maxPeers {
		t.Errorf("%d peers", n)
	}
	r.pass(windowMin)
	r.pass(2 * windowMin)
	if len(r.kinds) != 0 {
		t.Errorf("%d kinds of lines that nobody writes", len(r.kinds))
	}
}

func TestWhatLinesAreAbout(t *testing.T) {
	t.Parallel()
	a := netip.MustParseAddr("10.0.0.1")
	for _, c := range []struct {
		fields []zapcore.Field
		want   subject
	}{
		{nil, subject{}},
		{[]zapcore.Field{zap.Stringer("local", a)}, subject{}},
		{[]zapcore.Field{zap.Int("path", 1), zap.Stringer("peer", a)}, subject{"10.0.0.1", a}},
		{[]zapcore.Field{zap.Stringer("peer", netip.AddrPortFrom(a, 7))}, subject{"10.0.0.1", a}},
		{[]zapcore.Field{zap.String("peer", "10.0.0.1")}, subject{"10.0.0.1", a}},
		{[]zapcore.Field{zap.ByteString("peer", []byte("x"))}, subject{name: "x"}},
		{[]zapcore.Field{zap.Int("pid", 7)}, subject{name: "pid 7"}},
	} {
		if got := subjectOf(subject{}, c.fields); got != c.want {
			t.Errorf("%v: %v, want %v", c.fields, got, c.want)
		}
	}
	if got := subjectOf(subject{name: "first"}, []zapcore.Field{zap.Int("pid", 7)}); got.name != "first" {
		t.Errorf("%v", got)
	}
}

// A logger that keeps to a limiter is otherwise as the one below it.
func TestLimitedLogger(t *testing.T) {
	t.Parallel()
	r := newRig()
	r.log.Debug("disabled")
	if r.log.Check(zap.DebugLevel, "disabled") != nil || len(r.kinds) != 0 {
		t.Error("a level that is disabled is counted")
	}
	r.log.With(zap.Int("path", 1)).Warn("w", zap.String("text", "x"))
	if e := r.logs.All(); len(e) != 1 || e[0].Level != zap.WarnLevel || len(e[0].Context) != 2 || !strings.Contains(fmt.Sprint(e[0].ContextMap()), "x") {
		t.Errorf("%v", e)
	}
	if r.Logger(r.log).Info("once"); r.kinds["once"].written != 1 {
		t.Errorf("a line counts %d times", r.kinds["once"].written)
	}
	if l := r.Logger(zap.NewNop()); l.Core() != zapcore.NewNopCore() {
		t.Error("a logger that nobody reads is no such logger any more")
	}
}

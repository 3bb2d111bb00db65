//go:build !live

package objects

import (
	"encoding/json"
	"os"
	"reflect"
	"testing"
	"time"
)

// List tells of each object what it is and who has it, by number, and forgets what has ended.
// readsBack checks that a list is the same after it was JSON, which has instants, not their
// time zone.
func (g *rig) readsBack(want Objects, zone *time.Location) {
	g.Helper()
	text, err := json.Marshal(want)
	g.ok(err)
	var read Objects
	g.ok(json.Unmarshal(text, &read))
	for i := range read.Targets {
		for _, at := range []*time.Time{&read.Targets[i].Since, &read.Targets[i].Deadline} {
			if !at.IsZero() {
				*at = at.In(zone)
			}
		}
	}
	if !reflect.DeepEqual(read, want) {
		g.Errorf("JSON reads back as\n%+v\nwant\n%+v", read, want)
	}
}

func TestListTellsOfAllObjects(t *testing.T) {
	g := parallelRig(t, Config{Incarnation: 77, Reap: time.Second})
	shared := g.file("shared")
	a, b := g.process("a", shared), g.session("b")
	dom, err := b.OpenDomain(-1, os.O_CREATE)
	g.ok(err)
	pd, err := b.AllocPD()
	g.ok(err)
	sink, err := b.CreateSRQ(SRQAttr{Domain: dom, PD: pd, Sink: true})
	g.ok(err)
	q := a.srq(8)
	posted(t, q, 3)
	g.ok(q.Modify(SRQLimit, 0, 2))
	up, _ := a.up(peer(1))
	suspended, _ := a.up(peer(2))
	dead, _ := a.up(peer(3))
	ini := a.initiator()

	other := g.process("c", shared)
	g.ok(errOf(other.Register(other.dom, up.ref.Number)))
	h, err := other.OpenTarget(other.dom, up.ref.Number)
	g.ok(err)

	g.clk.advance(time.Second)
	lost := g.clk.now()
	g.ok(suspended.Suspend(lost))
	g.clk.advance(time.Second)
	failed := g.clk.now()
	g.ok(dead.Raise(EventQPFatal, ErrPeerGone))
	g.clk.advance(time.Second)
	g.Expire(g.clk.now())

	got := g.List(100)
	key := a.dom.xrcd.key
	want := Objects{
		Incarnation: 77,
		Sessions: []SessionEntry{
			{ID: 1, Name: "a", Domains: 1, PDs: 1, CQs: 1, SRQs: 1, Initiators: 1, Targets: 2, Registrations: 2},
			{ID: 2, Name: "b", Domains: 1, PDs: 1, SRQs: 1},
			{ID: 3, Name: "c", Domains: 1, PDs: 1, CQs: 1, Registrations: 2},
		},
		Domains: []DomainEntry{
			{Tag: 1, Device: key.dev, Inode: key.ino, Refs: 6}, // two handles, a queue, three targets
			{Tag: 2, Private: true, Refs: 2},
		},
		Targets: []TargetEntry{
			{QPEntry: QPEntry{Ref: up.ref, State: StateRTR, Peer: peer(1), Connected: true}, Domain: 1, Registered: 2},
			{QPEntry: QPEntry{Ref: suspended.ref, State: StateRTR, Peer: peer(2), Suspended: true, Since: lost, Deadline: lost.Add(30 * time.Second)}, Domain: 1, Registered: 1},
			{QPEntry: QPEntry{Ref: dead.ref, State: StateError, Peer: peer(3), Since: failed, Cause: ErrPeerGone.Error()}, Domain: 1, Tombstone: true, Registered: 1},
		},
		Initiators: []InitiatorEntry{{QPEntry: QPEntry{Ref: ini.ref}, Session: 1, SessionName: "a"}},
		SRQs: []SRQEntry{
			{Ref: q.Ref(), Session: 1, SessionName: "a", Domain: 1, MaxWR: 8, Posted: 3, Limit: 2},
			{Ref: sink.Ref(), Session: 2, SessionName: "b", Domain: 2, Sink: true},
		},
		Registrations: []RegistrationEntry{
			{Session: 1, SessionName: "a", Target: up.ref, ByNumber: true, Handles: 1},
			{Session: 3, SessionName: "c", Target: up.ref, ByNumber: true, Handles: 2},
			{Session: 1, SessionName: "a", Target: suspended.ref, ByNumber: true, Handles: 1},
			{Session: 1, SessionName: "a", Target: dead.ref, ByNumber: true, Handles: 1},
		},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("listed\n%+v\nwant\n%+v", got, want)
	}
	g.readsBack(want, lost.Location())
	g.ok(h.Destroy(ctx))
	g.ok(a.Close(ctx))
	got = g.List(100)
	if len(got.Sessions) != 2 || len(got.Targets) != 1 || len(got.Initiators) != 0 || len(got.SRQs) != 1 || len(got.Domains) != 2 ||
		len(got.Registrations) != 1 || got.Registrations[0].SessionName != "c" || got.Registrations[0].Handles != 1 {
		t.Errorf("after the end of a session: %+v", got)
	}
}

// List makes at most as many entries of a kind as it is told to, those with the lowest numbers,
// and counts the others.
func TestListIsBounded(t *testing.T) {
	g := parallelRig(t, Config{})
	shared := g.file("shared")
	a := g.process("a", shared)
	var refs []Ref
	for range 5 {
		refs = append(refs, a.target())
	}
	got := g.List(3)
	if len(got.Targets) != 3 || got.Targets[2].Ref != refs[2] || len(got.Registrations) != 3 || got.NotListed != 2 {
		t.Errorf("%+v", got)
	}
	other := g.process("b", shared)
	for _, r := range []Ref{refs[0], refs[2]} {
		g.ok(errOf(other.Register(other.dom, r.Number)))
	}
	if got = g.List(3); len(got.Registrations) != 3 || got.NotListed != 4 { // the targets 4 and 5, and both registrations with target 3
		t.Errorf("%+v", got)
	}
}

// A large device is listed in pieces, with others at work in between. What is there all the
// time is in the list.
func TestListOfLargeDevice(t *testing.T) {
	t.Parallel()
	const many = 2 * listBatch
	g := newRig(t, Config{Limits: Limits{Targets: many + 1, Registrations: many + 1}})
	a := g.process("a", g.file("f"))
	for range many {
		a.target()
	}
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-stop:
				return
			default:
				r, err := a.CreateTarget(TargetAttr{Domain: a.dom})
				if err == nil {
					err = a.Unregister(ctx, a.dom, r.Number)
				}
				if err != nil {
					t.Error(err)
					return
				}
			}
		}
	}()
	for range 3 {
		got := g.List(1 << 20)
		there := 0
		for i, e := range got.Targets {
			if e.Ref.Number < firstTarget+many {
				there++
			}
			if i > 0 && e.Ref.Number <= got.Targets[i-1].Ref.Number {
				t.Errorf("%v follows %v", e.Ref, got.Targets[i-1].Ref)
			}
		}
		if there != many || len(got.Registrations) != len(got.Targets) {
			t.Errorf("%d of %d targets, %d registrations with %d", there, many, len(got.Registrations), len(got.Targets))
		}
	}
	close(stop)
	<-done
}

// BenchmarkList lists the objects of a host with 16,384 peers and 8 paths to each.
func BenchmarkList(b *testing.B) {
	const paths = 16384 * 8
	g := newRig(b, Config{Limits: Limits{Targets: paths, Initiators: paths, Registrations: paths}})
	a := g.process("a", g.file("f"))
	for range paths {
		a.target()
		a.initiator()
	}
	b.ReportAllocs()
	for b.Loop() {
		g.List(paths)
	}
}

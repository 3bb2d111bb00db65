//go:build live

package main

import (
	"os"
	"testing"

	"github.com/rds-go/rds/xrc"
	"github.com/rds-go/rds/xrc/objects"
)

// Objects of XRC do not go on in the process that takes a daemon's place: each of them has one event, calls and posts
// fail, and new ones can be made there with the same client, whose sockets go on.
func TestUpgradeEndsObjects(t *testing.T) {
	t.Parallel()
	u := upgradesOf(t, "xrc")
	c := u.ends[0].client
	equip := func() (*xrc.Session, *xrc.CQ, *xrc.SRQ) {
		t.Helper()
		s, err := c.XRC(u.ctx)
		must(t, err)
		dom, err := s.OpenDomain(nil, os.O_CREATE)
		must(t, err)
		pd, err := s.AllocPD()
		must(t, err)
		cq, err := s.CreateCQ(16)
		must(t, err)
		srq, err := s.CreateSRQ(xrc.SRQAttr{Domain: dom, PD: pd, CQ: cq, MaxWR: 8})
		must(t, err)
		return s, cq, srq
	}
	for range 2 {
		s, cq, srq := equip()
		type heard struct {
			e   xrc.Event
			err error
		}
		events := make(chan heard, 3)
		go func() {
			for range cap(events) {
				e, err := s.NextEvent(u.ctx)
				events <- heard{e, err}
			}
		}()
		u.takeOver(u.sides[0])
		want := map[objects.Ref]bool{cq.Ref(): true, srq.Ref(): true}
		for len(want) > 0 {
			h := <-events
			if h.err != nil || h.e.Kind != objects.EventDeviceFatal || !want[h.e.Object] {
				t.Fatalf("event %v of %v, %v", h.e.Kind, h.e.Object, h.err)
			}
			delete(want, h.e.Object)
		}
		if h := <-events; h.err == nil {
			t.Errorf("one more event: %v", h.e.Kind)
		}
		if _, err := s.AllocPD(); err == nil {
			t.Error("a protection domain of a daemon that has gone")
		}
		must(t, s.Close())
	}
	if _, err := c.Info(); err != nil {
		t.Error(err)
	}
}

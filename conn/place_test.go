package conn

import (
	"fmt"
	"testing"
	"time"
)

// lose cuts the link of a path of side i, and reports that to side i alone.
func (d *duo) lose(i, path int) {
	if e := d.side[i].end[path]; e != nil {
		e.l.cut = true
		d.finish(i, path)
	}
}

// An impostor has stated one path while the peer had no link, and has gone again when a link
// comes that the peer has dialed for another path than 0, because it has not heard yet that
// path 0 is lost. That link is not path 0's: what it brings is numbered as another path's, so
// that messages would be dropped as old ones, or be taken again when they are repeated.
func TestLinkOfAnotherPathBehindAnImpostor(t *testing.T) {
	t.Parallel()
	for _, told := range []bool{false, true} {
		for _, inherits := range []bool{false, true} { // the connection has ended with the impostor's link, and a new one goes on
			for _, acked := range []bool{false, true} { // what that link has brought is known to have come
				t.Run(fmt.Sprintf("told=%t/inherits=%t/acked=%t", told, inherits, acked), func(t *testing.T) {
					t.Parallel()
					behindAnImpostor(t, told, inherits, acked)
				})
			}
		}
	}
}

func behindAnImpostor(t *testing.T, told, inherits, acked bool) {
	d := newDuo(t, [2]int{MaxPaths, MaxPaths})
	d.told = told
	from, to := d.side[0], d.side[1]
	for k := range 20 { // on path 0, whose numbers are above the other path's from now on
		d.send(0, k&1, 8)
	}
	d.settle()
	path := from.c.PathFor(4000)
	if path == 0 || to.end[path] == nil {
		t.Fatalf("socket 4000 sends on path %d", path)
	}
	d.send(0, 0, 8)
	d.fill(0, path)
	d.wrote(0, path, 1<<20) // and lost: it is repeated on the next link
	d.lose(0, path)
	d.lose(1, path)
	for len(from.dials) == 0 { // the peer asks on path 0 first
		d.tick(10 * time.Millisecond)
		for i := range d.side {
			d.fill(i, 0)
			d.wrote(i, 0, 1<<20)
			d.arrive(1-i, 0, 1<<20)
			d.read(1-i, 0, 1<<20)
		}
	}
	for i := range MaxPaths {
		d.lose(1, i)
	}
	d.impostor(1, 0, 0)
	d.arrive(1, 0, 1<<20)
	d.read(1, 0, 1)
	if to.c.Paths() != 1 {
		t.Fatal("the impostor is not believed")
	}
	d.lose(1, 0)
	if inherits {
		l := to.c.Legacy()
		to.c.Close()
		d.do(1)
		to.c = New(to.c.cfg)
		to.c.Inherit(l)
	}
	for range 4 {
		d.send(0, 0, 8)
	}
	d.answer(0, true)
	if e := to.end[0]; e != nil {
		t.Errorf("path 0 has the link from port %d", e.l.sport)
	}
	if (to.end[path] != nil) != told {
		t.Errorf("the set-up says the path: %t, and the link is used: %t", told, !told)
	}
	for range 6 { // the map, the message that is repeated, the probe, the others
		for i := range d.side {
			for path := range MaxPaths {
				d.fill(i, path)
				d.wrote(i, path, 1<<20)
				d.arrive(1-i, path, 1<<20)
				d.read(1-i, path, 1<<20)
			}
		}
	}
	if e := from.end[path]; e != nil && !acked {
		e.arrived = 0
	}
	for i := range d.side {
		for path := range MaxPaths {
			d.lose(i, path)
		}
	}
	d.settle()
	for k := range 2 {
		if to.count[k] != from.sent[k] {
			t.Errorf("socket %d: %d of %d messages have come", k, to.count[k], from.sent[k])
		}
	}
}

// A peer that source ports told apart and that states one path now may be another program,
// whose ports tell nothing: when the last program's links would have come its links count from
// any port.
func TestPortsTellNothingAfterAWhile(t *testing.T) {
	t.Parallel()
	o := &opBench{Conn: newConn(t, Config{Paths: MaxPaths, Role: Acceptor}), t: t}
	o.Accepted(epochTime, 1, 0)
	o.shake(MaxPaths, 7)
	o.LinkClosed(epochTime, 1, 0)
	o.Accepted(epochTime, 2, 8)
	o.shake(1, 8)
	o.LinkClosed(epochTime, 2, 0)
	o.Accepted(epochTime, 3, 5)
	if o.Link(0) != 0 || closes(o.Conn, 3) != 1 {
		t.Error("the link from another port than path 0's is used at once")
	}
	o.Accepted(epochTime, 4, 16)
	if o.Link(0) != 4 {
		t.Error("the link from one of path 0's ports is not used")
	}
	o.LinkClosed(epochTime, 4, 0)
	o.Accepted(epochTime.Add(o.cfg.HoldTimeout), 5, 5)
	if o.Link(0) != 5 {
		t.Error("the link from another port is not used later")
	}
}

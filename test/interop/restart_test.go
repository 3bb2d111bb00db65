//go:build interop

package interop

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/rds-go/rds/test/interop/peer"
)

// testRestart is cases (e) and (f): a process or a machine ends in the middle
// of a run and starts again while the other side, which survives, keeps its
// state. What was under way is lost, as for any RDS peer that forgets; after
// the restart everything arrives again.
//
// Messages flow again only when all paths are up: those of a rebooted Linux 6.1
// that a dying connection swallows come back flagged as retransmitted, with the
// small numbers of a fresh start, and a survivor that remembers higher ones
// takes them for duplicates (net/rds/recv.c, rds_recv_incoming). That happens
// between two kernels.
func testRestart(t *testing.T, survivor, victim *process, paths int, restart func() *process) {
	ctx, cancel := context.WithTimeout(t.Context(), runTime)
	defer cancel()
	old := flow{from: survivor.bind(t, 0, 0), to: victim.bind(t, 0, 0)}
	warm(t, old)
	old.stream = peer.Stream{Seed: 5, Count: 1_000_000}
	var all []running
	for _, f := range bothWays([]flow{old}) {
		r, err := f.start()
		must(t, err)
		all = append(all, r)
	}
	for _, r := range all {
		err := poll(ctx, func() (bool, error) {
			p, err := r.send.Progress(ctx)
			return p.Messages > 200 || !p.Running, err
		})
		must(t, err)
	}
	victim = restart()
	start := time.Now()
	for _, c := range []*peer.Call{all[0].recv, all[1].send} { // the victim's, if its program lives on
		_ = c.Cancel(ctx)
	}
	for _, c := range []*peer.Call{all[0].send, all[1].recv} { // the survivor's
		must(t, c.Cancel(ctx))
		if err := c.Wait(ctx, nil); err == nil {
			t.Fatal("a stream came to its end without the peer")
		}
	}
	must(t, meetAgain(ctx, survivor, victim))
	if _, err := waitConns(ctx, survivor, victim, paths); err != nil {
		t.Fatal(err)
	}
	back := time.Since(start)
	flows := []flow{{from: survivor.bind(t, bufferSize, bufferSize), to: victim.bind(t, bufferSize, bufferSize)}}
	warm(t, flows[0])
	flows[0].stream = peer.Stream{Seed: 6, Count: 1000, Large: 4}
	must(t, exchange(ctx, bothWays(flows)))
	t.Logf("all paths up %v after the restart", back.Round(time.Millisecond))
}

// meetAgain has two processes ping each other until both had an answer. Both at
// once, since a survivor with the larger address that has not noticed yet
// queues its ping and never reconnects by itself; and again and again, since a
// ping can be lost as testRestart's messages can.
func meetAgain(ctx context.Context, a, b *process) error {
	errs := make(chan error, 2)
	for _, way := range [][2]*process{{a, b}, {b, a}} {
		go func() {
			errs <- poll(ctx, func() (bool, error) { return way[0].reaches(ctx, way[1]) })
		}()
	}
	return errors.Join(<-errs, <-errs)
}

// reaches pings once, from a socket of its own.
func (p *process) reaches(ctx context.Context, other *process) (bool, error) {
	s, err := p.tryBind(ctx, p.addr, 0, 0)
	if err != nil {
		return false, err
	}
	short, cancel := context.WithTimeout(ctx, retryTime)
	defer cancel()
	_, err = s.ping(short, other.addr)
	s.close(ctx)
	return err == nil, nil
}

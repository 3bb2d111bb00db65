//go:build interop

package interop

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/rds-go/rds/test/interop/peer"
)

// kills is how many TCP connections one run of testKills destroys.
const kills = 20

// testKills is case (c): TCP connections are reset by either side at random
// moments of a run, and every message still arrives once and in order.
//
// With several paths the next connection is killed only when all are up again:
// Linux 6.1 gives an inbound connection to the lowest path that is down
// (net/rds/tcp_listen.c, rds_tcp_accept_one_path), so that paths may swap when
// several are down at once, and then its duplicate check compares a message
// with the wrong path's counter.
func testKills(t *testing.T, a, b *process, paths int) {
	seed := uint64(time.Now().UnixNano())
	rng := rand.New(rand.NewPCG(seed, 0))
	nPairs := min(paths, 4)
	flows := pairs(t, a, b, nPairs, bufferSize)
	start := time.Now()
	done, rounds := 0, 0
	for ; done < kills; rounds++ {
		for i := range flows {
			flows[i].stream = peer.Stream{Seed: seed + uint64(100*i+10*rounds), Count: 10_000 / nPairs, Large: 36 / nPairs}
		}
		ctx, cancel := context.WithCancel(t.Context())
		result := make(chan error, 1)
		go func() { result <- exchange(ctx, bothWays(flows)) }()
		n, killErr := killWhile(ctx, rng, a, b, paths, kills-done, result)
		done += n
		err := <-result
		cancel()
		if killErr != nil || err != nil {
			t.Fatalf("round %d, after %d kills (seed %d): %v; %v", rounds, done, seed, killErr, err)
		}
	}
	t.Logf("%d kills in %d rounds of 20,000 messages, %v", done, rounds, time.Since(start).Round(time.Millisecond))
}

// killWhile kills up to limit connections until a result arrives, which it
// leaves in the channel.
func killWhile(ctx context.Context, rng *rand.Rand, a, b *process, paths, limit int, result chan error) (int, error) {
	for done := 0; ; done++ {
		if done == limit {
			return done, nil
		}
		delay := time.NewTimer(time.Duration(rng.IntN(60)) * time.Millisecond)
		select {
		case err := <-result:
			delay.Stop()
			result <- err
			return done, nil
		case <-delay.C:
		}
		killer, other := a, b
		if rng.IntN(2) == 0 {
			killer, other = b, a
		}
		if err := killOne(ctx, rng, killer, other, paths); err != nil {
			return done, err
		}
	}
}

// killOne waits until both sides have all their connections and destroys one.
func killOne(ctx context.Context, rng *rand.Rand, killer, other *process, paths int) error {
	conns, err := waitConns(ctx, killer, other, paths)
	if err != nil {
		return err
	}
	victim := conns[rng.IntN(len(conns))]
	if err := killer.call(ctx, peer.OpDestroy, victim, nil); err != nil {
		return fmt.Errorf("%s: %w", killer.name, err)
	}
	return nil
}

// waitConns waits until n connections between two processes are up, seen from
// both, and returns those of the first.
func waitConns(ctx context.Context, p, q *process, n int) ([]peer.TCPConn, error) {
	var ofP, ofQ []peer.TCPConn
	err := poll(ctx, func() (done bool, err error) {
		if ofP, err = p.up(ctx, q); err != nil {
			return false, err
		}
		ofQ, err = q.up(ctx, p)
		return len(ofP) == n && len(ofQ) == n && samePorts(ofP, ofQ), err
	})
	if err != nil {
		return nil, fmt.Errorf("%d connections wanted: %w; %s: %v, %s: %v", n, err, p.name, ofP, q.name, ofQ)
	}
	return ofP, nil
}

// samePorts tells whether two lists show the same connections from both ends.
func samePorts(a, b []peer.TCPConn) bool {
	seen := make(map[peer.TCPConn]bool)
	for _, c := range a {
		seen[c] = true
	}
	for _, c := range b {
		if !seen[peer.TCPConn{Local: c.Remote, Remote: c.Local, Established: c.Established}] {
			return false
		}
	}
	return len(a) == len(b)
}

// up lists the established TCP connections under a process's paths to another.
// TCP alone does not tell: Linux establishes and then turns down a connection
// that finds no path free.
func (p *process) up(ctx context.Context, other *process) ([]peer.TCPConn, error) {
	var conns, list []peer.TCPConn
	if err := p.call(ctx, peer.OpTCP, nil, &conns); err != nil {
		return nil, err
	}
	var links []peer.Link
	if err := p.call(ctx, peer.OpLinks, nil, &links); err != nil {
		return nil, err
	}
	for _, c := range conns {
		if c.Established && c.Local.Addr() == p.addr && c.Remote.Addr() == other.addr &&
			slices.Contains(links, peer.Link{Local: c.Local, Remote: c.Remote}) {
			list = append(list, c)
		}
	}
	return list, nil
}

// call is a command that is done at once.
func (p *process) call(ctx context.Context, op string, args, result any) error {
	ctx, cancel := context.WithTimeoutCause(ctx, callTime, fmt.Errorf("%s did not answer for %v", p.name, callTime))
	defer cancel()
	return p.Call(ctx, op, args, result)
}

// poll asks again and again until done, an error or the time limit.
func poll(ctx context.Context, done func() (bool, error)) error {
	ctx, cancel := context.WithTimeoutCause(ctx, pollTime, fmt.Errorf("not so after %v", pollTime))
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		if ok, err := done(); ok || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
	}
}

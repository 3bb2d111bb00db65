package mr

import (
	"bytes"
	"context"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

// TestMRREQ20InvalidateWaitsBetweenCheckAndCopy stops a reader where it has
// checked and not yet copied: for a peer, or for this side's own use under the
// local key, as a read that lands.
func TestMRREQ20InvalidateWaitsBetweenCheckAndCopy(t *testing.T) {
	t.Parallel()
	calls := map[string]func(*rig, Key) error{
		"free":   func(g *rig, k Key) error { return g.own.FreeInvalidate(context.Background(), k) },
		"revoke": func(g *rig, k Key) error { return g.reader("loop").Revoke(k, g.dom, peerA).Err() },
		"owner":  func(g *rig, k Key) error { return g.own.Close(context.Background()) },
		"device": func(g *rig, k Key) error { return g.Close() },
	}
	for name, invalidate := range calls {
		for _, local := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, local %v", name, local), func(t *testing.T) {
				inBubble(t, Config{}, func(g *rig) {
					r := g.reader("slow")
					k, mem := g.region(64, 1, readWrite)
					use := g.read(k, 64)
					if local {
						use.From, use.Rights = netip.Addr{}, LocalWrite
					}
					r.Enter()
					b, f := r.Check(use)
					if f != None {
						g.Fatal(f)
					}
					done := later(func() error { return invalidate(g, k) })
					g.blocked(done, name)
					copy(b, "placed")
					r.Leave()
					g.ok(<-done)
					same(g, "the bytes that landed", string(mem[:6]), "placed")
					clear(mem) // ours again; the race detector sees whether it is
					g.wantFault(r, g.read(k, 1), Revoked)
				})
			})
		}
	}
}

// TestMRREQ20FreedMemoryIsNeverTouched has readers copy out of and into regions that
// are freed, scribbled over and mapped again all the time. The race detector
// sees an access outside of the rules, the pattern one that it does not.
func TestMRREQ20FreedMemoryIsNeverTouched(t *testing.T) {
	t.Parallel()
	const (
		size   = 2048
		mapped = 0x5a
		ours   = 0xee
	)
	g := newRig(t, Config{Small: PoolConfig{Items: 64, FlushItems: 5}, Linger: time.Millisecond})
	var keys [4]atomic.Uint32
	var wg sync.WaitGroup
	var over atomic.Bool
	var copied atomic.Uint64
	for i := range 4 {
		r := g.reader("r")
		wg.Go(func() {
			buf := make([]byte, size)
			for n := i; !over.Load(); n++ {
				k := Key(keys[n%len(keys)].Load())
				r.Enter()
				// Each region is written by one of the readers, its own.
				if b, f := r.Check(g.read(k, size)); f == None {
					if n%len(keys) == i {
						for j := range b[:64] {
							b[j] = mapped
						}
						copied.Add(1)
					} else if copy(buf, b[64:]); bytes.IndexByte(buf[:size-64], ours) >= 0 {
						t.Error("a reader saw memory that its owner had got back")
					}
				}
				r.Leave()
			}
		})
	}
	for i := range keys {
		o := g.NewOwner(OwnerConfig{Items: 16})
		wg.Go(func() {
			for n := 0; !over.Load() || n < 10; n++ {
				mem := bytes.Repeat([]byte{mapped}, size)
				scribble := func() {
					for j := range mem {
						mem[j] = ours
					}
				}
				opt := g.options(readWrite)
				if n%2 == 0 {
					opt.Released = scribble
				}
				k, err := o.Map(mem, opt)
				if err != nil {
					continue // dropped regions fill the pool for a moment
				}
				keys[i].Store(uint32(k))
				if n%2 == 0 {
					err = o.Free(k)
				} else if err = o.FreeInvalidate(t.Context(), k); err == nil {
					scribble()
				}
				if err != nil {
					t.Error(err)
				}
				if n == 500 {
					over.Store(true)
				}
			}
		})
	}
	wg.Wait()
	t.Logf("%d sections wrote", copied.Load())
}

func TestMRREQ22StuckReaderIsNeverReportedAsInvalidated(t *testing.T) {
	var names []string
	var mu sync.Mutex
	core, logs := observer.New(zap.ErrorLevel)
	c := Config{Stuck: 5 * time.Second, Linger: -1, Logger: zap.New(core)}
	reader := func(g *rig, name string) *Reader {
		r := g.NewReader(name, func() {
			mu.Lock()
			defer mu.Unlock()
			names = append(names, name)
		})
		g.Cleanup(r.Close)
		return r
	}
	inBubble(t, c, func(g *rig) {
		reader(g, "fine")
		bad := reader(g, "bad")
		released := false
		opt := g.options(RemoteRead)
		opt.Released = func() { released = true }
		k := g.mapped(g.own, make([]byte, 8), opt)
		bad.Enter()
		first := later(func() error { return g.own.FreeInvalidate(g.Context(), k) })
		g.blocked(first, "FreeInvalidate")
		second := later(func() error { return g.own.Barrier(g.Context()) })
		start := time.Now()
		for _, c := range []<-chan error{first, second} {
			err := <-c
			g.want(err, ErrStuck)
			g.want(err, syscall.EBUSY)
		}
		same(g, "gave up after", time.Since(start), 5*time.Second)
		same(g, "Revoke", g.reader("loop").Revoke(g.mapped(g.own, make([]byte, 8), g.options(RemoteRead)), g.dom, peerA), Held)
		mu.Lock()
		if want := []string{"bad"}; !slices.Equal(names, want) {
			g.Errorf("told that %q are stuck, want %q", names, want)
		}
		mu.Unlock()
		s := g.Stats()
		if released || g.own.Pinned() != 16 || s.Stale != 1 || s.StuckReaders != 1 || s.Small.Live != 0 {
			g.Errorf("released %v, %d bytes pinned, %+v", released, g.own.Pinned(), s)
		}
		if logs.FilterMessage("reader stuck, memory stays pinned").Len() != 1 {
			g.Errorf("log: %v", logs.All())
		}
		// The reader was slow after all.
		bad.Leave()
		g.ok(g.own.Barrier(g.Context()))
		if s := g.Stats(); !released || g.own.Pinned() != 0 || s.Stale != 0 {
			g.Errorf("released %v, %d bytes pinned, %+v", released, g.own.Pinned(), s)
		}
	})
}

func TestMRREQ22DeviceClosesBesideAStuckReader(t *testing.T) {
	inBubble(t, Config{}, func(g *rig) {
		d, err := New(Config{Seed: 1})
		g.ok(err)
		r := d.NewReader("bad", nil)
		o := d.NewOwner(OwnerConfig{})
		g.ok(errOf(o.Map(make([]byte, 8), Options{Domain: d.NewDomain(), Released: func() { g.Error("released") }})))
		r.Enter()
		g.want(d.Close(), ErrStuck)
		g.want(d.Close(), ErrStuck)
		g.want(o.Barrier(g.Context()), ErrStuck)
		r.Leave()
	})
}

func TestReaderThatClosesIsNotWaitedFor(t *testing.T) {
	g := parallelRig(t, Config{})
	r := g.NewReader("r", nil)
	r.Enter()
	r.Leave()
	r.Close()
	r.Close()
	k, _ := g.region(8, 0, 0)
	g.ok(g.own.FreeInvalidate(t.Context(), k))
	same(t, "readers left", len(*g.readers.Load()), 0)
}

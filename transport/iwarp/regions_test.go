package iwarp

import (
	"bytes"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/rds-go/rds/internal/invariants"
	"github.com/rds-go/rds/mr"
	"github.com/rds-go/rds/transport/iwarp/rdmap"
)

// of is the same end for another test.
func (e *end) of(t testing.TB) *end {
	h := *e
	h.t = t
	return &h
}

// with makes one more queue pair in the domain of e.
func (e *end) with(cfg QPConfig) *end {
	e.t.Helper()
	cq, err := e.dev.CreateCQ(4096)
	if err != nil {
		e.t.Fatal(err)
	}
	cfg.SendCQ, cfg.RecvCQ = cq, cq
	q, err := e.pd.CreateQP(cfg)
	if err != nil {
		e.t.Fatal(err)
	}
	return &end{t: e.t, dev: e.dev, pd: e.pd, cq: cq, qp: q}
}

// reads gives what a peer finds by a key.
func (e *end) reads(sink *MR, key mr.Key, addr uint64, n int) ([]byte, Status) {
	e.t.Helper()
	e.send(WorkRequest{ID: 77, Op: OpRead, Flags: Signaled, SGE: []SGE{sink.SGE(0, n)}, RemoteKey: key, RemoteAddr: addr})
	c := e.next()
	return sink.Bytes()[:n], c.Status
}

// One mapping serves all peers at once, over connections of two devices that
// share the table.
func TestMRREQ8OneKeyForAllPeers(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T) {
		table, err := mr.New(mr.Config{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = table.Close() })
		hosts := []*end{newEnd(t, openDevice(t, Config{EventLoops: 1, Regions: table}), QPConfig{}), newEnd(t, openDevice(t, Config{EventLoops: 1, Regions: table}), QPConfig{})}
		m := hosts[0].reg(4096, allRights)
		fill(m.Bytes(), 8)
		want := bytes.Clone(m.Bytes())
		var wg sync.WaitGroup
		for range 3 {
			client := newEnd(t, openDevice(t, Config{EventLoops: 1}), QPConfig{})
			connectEnds(t, client, hosts[0].with(QPConfig{}), ConnParams{}, ConnParams{})
			sink := client.reg(4096, mr.LocalWrite)
			wg.Go(func() {
				for range 100 {
					if b, s := client.reads(sink, m.Key(), m.Base(), 4096); s != Success || !bytes.Equal(b, want) {
						t.Errorf("read: %v", s)
						return
					}
				}
			})
		}
		// A protection domain is one device's, so a queue pair of the other finds
		// the key, but not the right to it.
		stranger := newEnd(t, openDevice(t, Config{EventLoops: 1}), QPConfig{})
		connectEnds(t, stranger, hosts[1], ConnParams{}, ConnParams{})
		if _, s := stranger.reads(stranger.reg(8, mr.LocalWrite), m.Key(), m.Base(), 8); s != RemoteAccess {
			t.Errorf("read from another domain: %v", s)
		}
		wg.Wait()
	})
}

// Invalidation needs no connection, and holds for those that come later.
func TestMRREQ9InvalidationWithAllConnectionsDown(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T) {
		client, server := pair(t, Config{EventLoops: 1}, ConnParams{}, ConnParams{})
		m, sink := server.reg(4096, allRights), client.reg(4096, mr.LocalWrite)
		if _, s := client.reads(sink, m.Key(), m.Base(), 8); s != Success {
			t.Fatal(s)
		}
		client.qp.Fail()
		server.ended()
		if err := m.Dereg(within(t)); err != nil {
			t.Fatal(err)
		}
		again := client.with(QPConfig{})
		connectEnds(t, again, server.with(QPConfig{}), ConnParams{}, ConnParams{})
		if _, s := again.reads(sink, m.Key(), m.Base(), 8); s != RemoteAccess {
			t.Errorf("read by a dead key: %v", s)
		}
	})
}

// Barriers share nothing with data: they take as long as ever while all
// connections send and read as fast as they can. One that waited for data would
// always wait, for there is some under way all the time; so the median tells. The
// slowest tell how long others had the processors.
func TestMRREQ18BarrierWhileEverythingSends(t *testing.T) {
	t.Parallel()
	client, server := pair(t, Config{EventLoops: 1}, ConnParams{NoCRC: true}, ConnParams{NoCRC: true})
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for i := range 4 {
		c, s := client.with(QPConfig{}), server.with(QPConfig{})
		connectEnds(t, c, s, ConnParams{NoCRC: i%2 == 0}, ConnParams{NoCRC: i%2 == 0})
		src, sink := server.reg(256<<10, mr.RemoteRead), c.reg(256<<10, mr.LocalWrite)
		dst, from := server.reg(256<<10, allRights), c.reg(256<<10, 0)
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				at := func(op Op, local, remote *MR) WorkRequest {
					return WorkRequest{Op: op, SGE: []SGE{local.SGE(0, 256<<10)}, RemoteKey: remote.Key(), RemoteAddr: remote.Base()}
				}
				last := at(OpRead, sink, src)
				last.Flags = Signaled
				c.send(at(OpRead, sink, src), at(OpWrite, from, dst), at(OpWrite, from, dst), last)
				c.want(0, Success, OpRead)
			}
		})
	}
	var took []time.Duration
	for range 300 {
		m := server.reg(8192, allRights)
		begin := time.Now()
		if err := m.Dereg(within(t)); err != nil {
			t.Fatal(err)
		}
		took = append(took, time.Since(begin))
	}
	close(stop)
	wg.Wait()
	slices.Sort(took)
	bound := 100 * time.Millisecond // other tests run beside it
	if invariants.Enabled {
		bound *= 10
	}
	if p50 := took[len(took)/2]; p50 > bound {
		t.Errorf("p50 %v, p99 %v, most %v", p50, took[len(took)*99/100], took[len(took)-1])
	}
}

// Connections are lost in the middle of transfers, again and again; the keys
// stay good.
func TestMRREQ25KeysSurviveLostConnections(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T) {
		v := newVictim(t, Config{EventLoops: 1})
		target := v.reg(64<<10, allRights)
		for i := range 100 {
			e := v.with(QPConfig{})
			p := openRaw(t, e, i%2 == 0, i%3 == 0)
			p.send(write(uint32(v.writeOnly.Key()), v.writeOnly.Base(), []byte("half")))
			if b := p.probe(v.readOnly, 0, 4); b[0] != untouched {
				t.Fatalf("connection %d finds %x", i, b)
			}
			p.send(p.read(rdmap.ReadRequest{Size: 1 << 20, SourceSTag: uint32(v.open.Key()), SourceTO: v.open.Base()}))
			whole := p.frame(write(uint32(target.Key()), target.Base(), make([]byte, 30_000)))
			p.write(whole[:1000+i*100])
			p.abort()
			e.ended()
			if err := e.qp.Close(); err != nil {
				t.Fatal(err)
			}
		}
		if s := v.dev.Regions().Stats(); s.Registered.Live != len(v.watched)+1 || s.Registered.Dirty != 0 {
			t.Errorf("regions: %+v", s.Registered)
		}
	})
}

// A rogue that uses bad keys as fast as it can connect ends its own connections
// and nobody else's traffic.
func TestMRREQ27BadKeyOnOneQueuePairHurtsNoOther(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T) {
		v := newVictim(t, Config{EventLoops: 1})
		client := newEnd(t, openDevice(t, Config{EventLoops: 1}), QPConfig{})
		connectEnds(t, client, v.end, ConnParams{}, ConnParams{})
		sink := client.reg(64, mr.LocalWrite)
		stop, good := make(chan struct{}), make(chan int)
		go func() {
			n := 0
			defer func() { good <- n }()
			for {
				select {
				case <-stop:
					return
				default:
				}
				if _, s := client.reads(sink, v.readOnly.Key(), v.readOnly.Base(), 64); s != Success {
					t.Errorf("read %d: %v", n, s)
					return
				}
				n++
			}
		}()
		const rogues = 50
		for i := range uint32(rogues) {
			e := v.with(QPConfig{})
			p := openRaw(t, e, true, true)
			if i%2 == 0 {
				p.send(write(uint32(v.readOnly.Key()), v.readOnly.Base(), []byte("no right")))
				p.terminate(rdmap.CauseDDPInvalidSTag)
			} else {
				p.send(p.read(rdmap.ReadRequest{Size: 1, SourceSTag: uint32(v.open.Key()) ^ (i<<8 | 1), SourceTO: v.open.Base()}))
				p.terminate(rdmap.CauseInvalidSTag)
			}
			e.ended()
			_ = e.qp.Close()
		}
		close(stop)
		if n := <-good; n == 0 {
			t.Error("nothing was read meanwhile")
		}
		if s := v.dev.Stats(); s.AccessErrors != rogues || s.TerminatesSent != rogues {
			t.Errorf("%+v", s)
		}
		for _, m := range v.watched {
			if m.Bytes()[0] != untouched {
				t.Error("a bad key changed memory")
			}
		}
	})
}

// A message comes after all that was written before it is in memory; if the
// connection is lost between the two it does not come.
func TestMRREQ34MessageComesAfterItsWrite(t *testing.T) {
	t.Parallel()
	eachMode(t, func(t *testing.T, client, server *end) {
		src := client.reg(1<<20, 0)
		for i, n := range []int{1, 8192, 100_000, 1 << 20} {
			dst := server.reg(n, mr.LocalWrite|mr.RemoteWrite)
			fill(src.Bytes(), uint64(i))
			server.post(uint64(i))
			client.send(WorkRequest{Op: OpWrite, SGE: []SGE{src.SGE(0, n)}, RemoteKey: dst.Key(), RemoteAddr: dst.Base()},
				WorkRequest{ID: 9, Flags: Signaled})
			server.want(uint64(i), Success, OpReceive)
			if !bytes.Equal(dst.Bytes()[:n], src.Bytes()[:n]) {
				t.Fatalf("%d bytes are not all there", n)
			}
			client.want(9, Success, OpSend)
		}
	})
	t.Run("lost between", func(t *testing.T) {
		t.Parallel()
		for _, s := range streams {
			v := newVictim(t, Config{EventLoops: 1})
			v.post(1)
			p := openStream(t, v.end, s)
			b := p.frame(write(uint32(v.open.Key()), v.open.Base(), make([]byte, 20_000)))
			b = append(b, p.frame(p.sendMessage(nil))...)
			p.write(b[:len(b)-30]) // the end of the write is missing too
			_ = p.conn.Close()
			v.want(1, Flushed, OpReceive)
		}
	})
}

// Memory that may not be written is not, and the writer hears of it.
func TestMRREQ35WriteToReadOnlyMemory(t *testing.T) {
	t.Parallel()
	eachMode(t, func(t *testing.T, client, server *end) {
		mem := bytes.Repeat([]byte{untouched}, 64<<10)
		dst, err := server.pd.RegMR(mem, mr.RemoteRead, 0)
		if err != nil {
			t.Fatal(err)
		}
		src := client.reg(64<<10, mr.LocalWrite)
		client.send(WorkRequest{Op: OpWrite, SGE: []SGE{src.SGE(0, 64<<10)}, RemoteKey: dst.Key()})
		if err := client.ended(); !errors.Is(err, rdmap.CauseDDPInvalidSTag) {
			t.Errorf("the writer hears %v", err)
		}
		server.ended()
		if !bytes.Equal(mem, bytes.Repeat([]byte{untouched}, len(mem))) {
			t.Error("written all the same")
		}
	})
}

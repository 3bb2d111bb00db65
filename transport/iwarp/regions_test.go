//go:build !live

package iwarp

import (
	"bytes"
	"sync"
	"testing"

	"github.com/rds-go/rds/mr"
	"github.com/rds-go/rds/transport/iwarp/rdmap"
)

// One mapping serves all peers at once, over connections of two devices that
// share the table.
func TestMRREQ8OneKeyForAllPeers(t *testing.T) {
	bubble(t, func(t *testing.T) {
		table, err := mr.New(mr.Config{})
		must(t, err)
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
	bubble(t, func(t *testing.T) {
		client, server := pair(t, Config{EventLoops: 1}, ConnParams{}, ConnParams{})
		m, sink := server.reg(4096, allRights), client.reg(4096, mr.LocalWrite)
		if _, s := client.reads(sink, m.Key(), m.Base(), 8); s != Success {
			t.Fatal(s)
		}
		client.qp.Fail()
		server.ended()
		must(t, m.Dereg(within(t)))
		again := client.with(QPConfig{})
		connectEnds(t, again, server.with(QPConfig{}), ConnParams{}, ConnParams{})
		if _, s := again.reads(sink, m.Key(), m.Base(), 8); s != RemoteAccess {
			t.Errorf("read by a dead key: %v", s)
		}
	})
}

// Connections are lost in the middle of transfers, again and again; the keys
// stay good.
func TestMRREQ25KeysSurviveLostConnections(t *testing.T) {
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
			must(t, e.qp.Close())
		}
		if s := v.dev.Regions().Stats(); s.Registered.Live != len(v.watched)+1 || s.Registered.Dirty != 0 {
			t.Errorf("regions: %+v", s.Registered)
		}
	})
}

// A rogue that uses bad keys as fast as it can connect ends its own connections
// and nobody else's traffic.
func TestMRREQ27BadKeyOnOneQueuePairHurtsNoOther(t *testing.T) {
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

// Memory that may not be written is not, and the writer hears of it.
func TestMRREQ35WriteToReadOnlyMemory(t *testing.T) {
	eachMode(t, func(t *testing.T, client, server *end) {
		mem := bytes.Repeat([]byte{untouched}, 64<<10)
		dst, err := server.pd.RegMR(mem, mr.RemoteRead, 0)
		must(t, err)
		src := client.reg(64<<10, mr.LocalWrite)
		client.send(WorkRequest{Op: OpWrite, SGE: []SGE{src.SGE(0, 64<<10)}, RemoteKey: dst.Key()})
		wantErr(t, "the writer hears", client.ended(), rdmap.CauseDDPInvalidSTag)
		server.ended()
		if !bytes.Equal(mem, bytes.Repeat([]byte{untouched}, len(mem))) {
			t.Error("written all the same")
		}
	})
}

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

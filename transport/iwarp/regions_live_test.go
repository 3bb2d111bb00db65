//go:build live

package iwarp

import (
	"bytes"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/rds-go/rds/internal/invariants"
	"github.com/rds-go/rds/mr"
)

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
		must(t, m.Dereg(within(t)))
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

// A message comes after all that was written before it is in memory; if the
// connection is lost between the two it does not come.
func TestMRREQ34MessageComesAfterItsWrite(t *testing.T) {
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

//go:build !live

package iwarp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"syscall"
	"testing"
	"time"

	"github.com/rds-go/rds/mr"
	"github.com/rds-go/rds/transport/iwarp/rdmap"
)

// Nothing is placed after the invalidation returned, however fast a peer writes:
// what is there then stays.
func TestMRREQ24NothingIsPlacedAfterDereg(t *testing.T) {
	t.Parallel()
	for _, s := range streams {
		inBubble(t, s.name, func(t *testing.T) {
			for run := range 5 {
				v, p := streamVictim(t, s)
				done := make(chan struct{})
				go func() {
					defer close(done)
					for i := range 400 {
						u := write(uint32(v.open.Key()), v.open.Base()+uint64(i%16)*60_000, bytes.Repeat([]byte{byte(i + 1)}, 60_000))
						if _, err := p.conn.Write(p.frame(u)); err != nil {
							return
						}
					}
				}()
				for range run * 50 {
					v.qp.State()
				}
				must(t, v.open.Dereg(within(t)))
				sum := crc32.ChecksumIEEE(v.open.Bytes())
				if run%2 == 0 { // the race detector sees who else writes
					for i := range v.open.Bytes() {
						v.open.Bytes()[i] = 0x11
					}
					sum = crc32.ChecksumIEEE(v.open.Bytes())
				}
				wantErr(t, "ended by", v.ended(), rdmap.CauseDDPInvalidSTag)
				if crc32.ChecksumIEEE(v.open.Bytes()) != sum {
					t.Error("memory has changed after the invalidation")
				}
				p.abort()
				<-done
			}
		})
	}
}

// A region may go while it is being sent: the call returns at once, though the
// peer does not read, and no byte of what is written there later leaves.
func TestMRREQ23DeregWhileSending(t *testing.T) {
	t.Parallel()
	for _, crc := range []bool{true, false} {
		for _, response := range []bool{true, false} {
			inBubble(t, fmt.Sprintf("crc %v, response %v", crc, response), func(t *testing.T) {
				const old, scribble = 0x22, 0x99
				e := newEnd(t, openDevice(t, Config{EventLoops: 1, SendBuffer: 32 << 10, CloseTimeout: time.Hour}), QPConfig{})
				mem := bytes.Repeat([]byte{old}, 8<<20)
				m, err := e.pd.RegMR(mem, mr.RemoteRead, 0)
				must(t, err)
				p := openRaw(t, e, response, crc)
				if response {
					p.send(p.read(rdmap.ReadRequest{Size: 8 << 20, SourceSTag: uint32(m.Key())}))
				} else {
					e.send(WorkRequest{ID: 1, SGE: []SGE{m.SGE(0, 8<<20)}}, WorkRequest{ID: 2})
				}
				head := make([]byte, 100_000)
				if _, err := io.ReadFull(p.conn, head); err != nil { // it has begun
					t.Fatal(err)
				}
				must(t, m.Dereg(within(t))) // the peer reads on after it
				for i := range mem {
					mem[i] = scribble
				}
				rest, err := io.ReadAll(p.conn)
				if err != nil && !errors.Is(err, syscall.ECONNRESET) {
					t.Error(err)
				}
				if n := bytes.Count(rest, bytes.Repeat([]byte{scribble}, 32)); n > 0 {
					t.Errorf("%d times 32 bytes were sent after the invalidation", n)
				}
				if len(rest) >= 8<<20-len(head) {
					t.Error("everything was sent all the same")
				}
				if e.ended() == nil {
					t.Error("no reason")
				}
				if !response {
					e.want(1, LocalProtection, OpSend)
					e.want(2, Flushed, OpSend)
				}
			})
		}
	}
}

// The sink of a read may go before the answer is there: nothing is placed.
func TestMRREQ23DeregOfTheSink(t *testing.T) {
	t.Parallel()
	for _, s := range streams {
		for _, size := range []int{64, 8192} {
			inBubble(t, fmt.Sprintf("%s/%d", s.name, size), func(t *testing.T) {
				v, p := streamVictim(t, s)
				p.send(emptyWrite())
				v.send(WorkRequest{ID: 1, Op: OpRead, SGE: []SGE{v.sink.SGE(0, size)}, RemoteKey: 9}, WorkRequest{ID: 2, Op: OpRead})
				b := p.frame(answer(p.segment(rdmap.OpReadRequest), make([]byte, size)))
				p.write(b[:size/2])
				must(t, v.sink.Dereg(within(t)))
				for i := range v.sink.Bytes() {
					v.sink.Bytes()[i] = untouched
				}
				p.write(b[size/2:])
				v.want(1, LocalProtection, OpRead)
				v.want(2, Flushed, OpRead)
				p.segment(rdmap.OpReadRequest)
				p.terminate(rdmap.CauseCatastrophic)
				if !bytes.Equal(v.sink.Bytes(), bytes.Repeat([]byte{untouched}, 8192)) {
					t.Error("placed after the invalidation")
				}
			})
		}
	}
}

// A region that goes in the middle of a transfer of many MiB: what follows the
// writes never succeeds, and the writer hears why.
func TestMRREQ40InvalidationInMidWrite(t *testing.T) {
	eachMode(t, func(t *testing.T, client, server *end) {
		src, dst, sink := client.reg(1<<20, 0), server.reg(1<<20, allRights), client.reg(8, mr.LocalWrite)
		other := server.reg(8, allRights)
		for i := range 60 {
			client.send(WorkRequest{ID: uint64(i), Op: OpWrite, SGE: []SGE{src.SGE(0, 1<<20)}, RemoteKey: dst.Key(), RemoteAddr: dst.Base()})
		}
		client.send(WorkRequest{ID: 60, Op: OpRead, SGE: []SGE{sink.SGE(0, 8)}, RemoteKey: other.Key(), RemoteAddr: other.Base()},
			WorkRequest{ID: 61, Op: OpRead, Flags: Signaled, SGE: []SGE{sink.SGE(0, 8)}, RemoteKey: dst.Key(), RemoteAddr: dst.Base()})
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		must(t, dst.Dereg(ctx))
		var te *TerminateError
		if err := client.ended(); !errors.As(err, &te) || !te.Remote || te.Cause != rdmap.CauseDDPInvalidSTag && te.Cause != rdmap.CauseInvalidSTag {
			t.Errorf("the writer hears %v", err)
		}
		for _, c := range client.rest() {
			if c.Status == Success {
				t.Errorf("%d has succeeded", c.ID)
			}
		}
		if _, err := client.qp.PostSend(WorkRequest{}); err != nil {
			t.Error(err)
		}
		client.want(0, Flushed, OpSend)
	})
}

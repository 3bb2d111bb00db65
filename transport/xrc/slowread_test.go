//go:build !live

package xrc

import (
	"encoding/binary"
	"testing"
	"time"

	"github.com/rds-go/rds/mr"
	"github.com/rds-go/rds/transport"
	"github.com/rds-go/rds/transport/iwarp"
)

// Messages that complete while a long read is under way hold places behind it, which are no
// reason for those that follow to fail.
func TestMessagesBehindALongRead(t *testing.T) {
	bubbleOn(t, lan, func(t *testing.T) {
		_, a, b := twoHosts(t, hostOptions{})
		server, client := b.app(""), a.app("")
		server.serve(1, 1024, 64)
		const size = 8 << 20
		far, near := server.region(size, mr.RemoteRead), client.region(size, mr.LocalWrite)
		ch := client.connect(2, 1)
		client.send(ch, iwarp.WorkRequest{ID: 1 << 32, Op: iwarp.OpRead, Flags: iwarp.Signaled, Queue: ch.Queue().SRQN, RemoteKey: far.Key(), RemoteAddr: 0, SGE: []iwarp.SGE{near.SGE(0, size)}})
		sent, done := 0, 0
		for read := false; !read; {
			for range 64 {
				if sent-done < 256 && sent < 1000 {
					client.send(ch, iwarp.WorkRequest{ID: uint64(sent), Queue: ch.Queue().SRQN, Flags: iwarp.Signaled, Inline: []byte("x")})
					sent++
				}
			}
			c := client.next()
			if c.Status != iwarp.Success {
				t.Fatalf("%+v after %d messages", c, done)
			}
			if read = c.ID == 1<<32; !read {
				done++
			}
		}
		t.Logf("%d messages beside the read", done)
	})
}

// Operations of RDS that find no place behind a long read of a channel begin when there is one,
// each once.
func TestOperationsBehindALongRead(t *testing.T) {
	bubbleOn(t, lan, func(t *testing.T) {
		n, a, b := twoHosts(t, hostOptions{fabric: Options{Operations: 4, MaxSend: 32}})
		server, client := b.app(""), a.app("")
		server.serve(1, 1024, 64)
		const size = 8 << 20
		far, near := server.region(size, mr.RemoteRead), client.region(size, mr.LocalWrite)
		tick := time.NewTicker(50 * time.Microsecond)
		defer tick.Stop()
		counter, err := b.dev.Regions().NewOwner(mr.OwnerConfig{Name: "counter"}).Register(make([]byte, 8), mr.Options{Domain: b.Domain(), Rights: mr.LocalWrite | mr.RemoteAtomic})
		must(t, err)
		ch := client.connect(2, 1)
		l := a.theLink(0)
		ends := make(chan transport.OpStatus, 1000)
		client.send(ch, iwarp.WorkRequest{ID: 1 << 32, Op: iwarp.OpRead, Flags: iwarp.Signaled, Queue: ch.Queue().SRQN, RemoteKey: far.Key(), SGE: []iwarp.SGE{near.SGE(0, size)}})
		want := uint64(0)
		word := make([]byte, 8)
		sent, begun, over := 0, 0, false
		for !over || begun < 20 {
			for range 16 {
				if !over && sent < 1000 {
					k, _ := ch.PostSend(iwarp.WorkRequest{ID: uint64(sent), Queue: ch.Queue().SRQN, Flags: iwarp.Signaled, Inline: []byte("x")})
					sent += k
				}
			}
			if begun < 20 {
				op := &transport.Operation{Kind: transport.OpFetchAdd, Key: uint32(counter), Add: 1, Local: [][]byte{make([]byte, 8)}}
				op.Done = func(_ *transport.Operation, s transport.OpStatus) { ends <- s }
				taken, err := l.Send([]transport.Frame{{Ops: []*transport.Operation{op}}})
				must(t, err)
				begun += taken.Frames
			}
			var list [64]iwarp.Completion
			for _, c := range list[:client.cq.Poll(list[:])] {
				if c.Status != iwarp.Success {
					t.Fatalf("%+v", c)
				}
				over = over || c.ID == 1<<32
			}
			<-tick.C
		}
		for range begun {
			if s := <-ends; s != transport.OpSuccess {
				t.Error(s)
			}
			want++
		}
		op := &transport.Operation{Kind: transport.OpFetchAdd, Key: uint32(counter), Local: [][]byte{word}}
		op.Done = func(_ *transport.Operation, s transport.OpStatus) { ends <- s }
		n.until("the last operation has begun", func() bool {
			taken, err := l.Send([]transport.Frame{{Ops: []*transport.Operation{op}}})
			return err == nil && taken.Frames == 1
		})
		if s := <-ends; s != transport.OpSuccess || binary.NativeEndian.Uint64(word) != want || l.ops.outstanding() != 0 {
			t.Errorf("%v, %d operations were done %d times, %d outstanding", s, want, binary.NativeEndian.Uint64(word), l.ops.outstanding())
		}
	})
}

//go:build live

package daemon

import (
	"encoding/binary"
	"os"
	"testing"
	"time"

	"github.com/rds-go/rds/internal/ipc"
	"github.com/rds-go/rds/internal/rdstest"
	"github.com/rds-go/rds/internal/work"
	"github.com/rds-go/rds/transport/iwarp"
)

// FuzzXRCSession does what the input says with the queues and calls of an application's objects of XRC. The
// daemon must survive, serve a neighbor, and close.
//
// The input is a row of steps: a byte that chooses, and what it needs.
func FuzzXRCSession(f *testing.F) {
	request := make([]byte, work.RequestSize)
	work.PutRequest(request, &iwarp.WorkRequest{ID: 1, Queue: schemeNone, Inline: []byte("x"), Flags: iwarp.Signaled})
	f.Add(append(append([]byte{4}, request...), 6, 1, 4))
	f.Add([]byte{0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0x80, 2, 6})
	f.Add([]byte{3, 1, 0, 3, 5, 1, 3, 9, 2, 3, 10, 4, 6, 3, 10, 5})
	f.Add([]byte{1, 3, 1, 4, 1, 2, 1, 0, 6, 0, 0x80, 0x10, 1, 1, 1, 1, 1, 1, 1, 1, 6})
	f.Fuzz(func(t *testing.T, in []byte) {
		l := newLab(t)
		near, far := newXRCHost(t, l), newXRCHost(t, l)
		other := verbsPair(t, near, far)
		x := scheme(t, near.path)
		defer x.leave()
		x.connect(far, other.service)
		x.steps(in)
		other.exchange(t)
		done := make(chan struct{})
		go func() {
			defer close(done)
			_ = near.svc.Close()
		}()
		select {
		case <-done:
		case <-time.After(rdstest.Patience):
			t.Fatal("the service does not close")
		}
	})
}

// steps does what the input says.
func (x *schemer) steps(in []byte) {
	take := func(n int) []byte {
		b := make([]byte, n)
		in = in[copy(b, in):]
		return b
	}
	ops := []string{ipc.XRCPosts, ipc.XRCAllocPD, ipc.XRCRegister, ipc.XRCCreateCQ, ipc.XRCOpenDomain, ipc.XRCCreateSRQ, ipc.XRCModifySRQ, ipc.XRCQuerySRQ,
		ipc.XRCAdvertise, ipc.XRCDestroy, ipc.XRCCreateTarget, ipc.XRCOpenTarget, ipc.XRCRegisterWith, ipc.XRCUnregister, ipc.XRCQueryTarget, ipc.XRCModifyTarget,
		ipc.XRCAck, ipc.XRCClose}
	for steps := 0; len(in) > 0 && steps < 100; steps++ {
		switch take(1)[0] % 7 {
		case 0: // a word of the queues
			at := int(binary.LittleEndian.Uint16(take(2))) &^ 7
			x.word64(at % schemeRegion).Store(binary.LittleEndian.Uint64(take(8)))
		case 1:
			x.post(uint32(take(1)[0]))
		case 2:
			x.ring()
		case 3: // a call
			b := take(2)
			n := uint32(b[1])
			_ = x.conn.Send(&ipc.Request{Op: ipc.CallXRC, XRC: &ipc.XRCCall{Op: ops[int(b[0])%len(ops)], Object: n % 16, Domain: n % 8, PD: n % 4, CQ: n % 5, SRQ: n % 9,
				Target: 0x800000 + n, Service: uint64(n), Entries: 1 << (n % 12), Offset: n << 9, Length: n, Access: n % 16, Flags: int(n%2) * os.O_CREATE,
				Serial: uint64(n), Attr: []byte(`{}`), Mask: n}})
		case 4: // a request
			copy(x.requests.Record(0), take(work.RequestSize))
			x.requests.Advance(1)
			x.post(x.ini)
		case 5: // a receive
			copy(x.receives.Record(0), take(work.RequestSize))
			x.receives.Advance(1)
			x.post(x.srq)
		default: // time for the daemon
			before := x.word64(schemePosts + 0x80).Load()
			rdstest.Holds(2*time.Millisecond, func() bool { return x.word64(schemePosts+0x80).Load() != before })
		}
	}
}

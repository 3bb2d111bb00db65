//go:build !live

package xrc

import (
	"slices"
	"testing"

	"github.com/rds-go/rds/mr"
	"github.com/rds-go/rds/transport/iwarp"
	"github.com/rds-go/rds/xrc/objects"
)

const everyRight = mr.LocalWrite | mr.RemoteRead | mr.RemoteWrite | mr.RemoteAtomic

// unpaced has every key looked up: what is refused is refused for what the key is.
var unpaced = hostOptions{fabric: Options{Config: iwarp.Config{Memory: mr.Config{PeerLookUps: -1, LookUps: -1}}}}

var taggedOps = []iwarp.Op{iwarp.OpWrite, iwarp.OpRead, iwarp.OpFetchAdd, iwarp.OpCompareSwap}

// tagged is an operation on 8 bytes of a region, with the queue n.
func tagged(op iwarp.Op, n uint32, m, local *iwarp.MR) iwarp.WorkRequest {
	return iwarp.WorkRequest{ID: uint64(n), Op: op, Flags: iwarp.Signaled, Queue: n, RemoteKey: m.Key(), SGE: []iwarp.SGE{local.SGE(0, 8)}, Add: 1, Swap: 1, SwapMask: 1}
}

// Two processes of one job, behind one target: the key of one with the queue of the other is
// refused, for the request alone (dossier, test 41).
func TestXRCREQ47AKeyWithAnotherProcesssQueueOnTheWire(t *testing.T) {
	bubble(t, func(t *testing.T) {
		_, a, b := twoHosts(t, unpaced)
		x, y := b.app("job47"), b.app("job47")
		qx, _ := x.serve(1, 4, 64)
		qy, _ := y.serve(2, 4, 64)
		mx, my, open := x.region(64, everyRight), y.region(64, everyRight), x.region(64, everyRight)
		client := a.app("")
		local := client.region(64, mr.LocalWrite)
		ch := client.connect(2, 1)
		must(t, errOf(ch.Join(within(t), 2)))
		for _, op := range taggedOps {
			for _, c := range []struct {
				queue *objects.SRQ
				m     *iwarp.MR
				want  iwarp.Status
			}{{qy, mx, iwarp.RemoteAccess}, {qx, my, iwarp.RemoteAccess}, {qx, open, iwarp.Success}} {
				client.send(ch, tagged(op, c.queue.Num(), c.m, local))
				client.want(uint64(c.queue.Num()), c.want, op)
			}
		}
		if _, err := ch.PostSend(iwarp.WorkRequest{Op: iwarp.OpRead, RemoteKey: open.Key(), SGE: []iwarp.SGE{local.SGE(0, 8)}}); err == nil {
			t.Error("a read that names no queue was posted")
		}
		x.noticesNothing(mx)
		y.noticesNothing(my)
		client.says(ch, 5)
		if a.dials.Load() != 1 || ch.Err() != nil {
			t.Errorf("%d connections, %v", a.dials.Load(), ch.Err())
		}
	})
}

// A peer with a target in job X knows a key of job Y, and tries all small numbers and some of
// each kind of the others: all are refused. With job X's own key one number is good.
func TestXRCREQ47ScanOfNumbersWithAKeyOnTheWire(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n, a, b := twoHosts(t, unpaced)
		x, y := b.app("x47"), b.app("y47")
		qx, _ := x.serve(1, 4, 64)
		qy, _ := y.serve(2, 4, 64)
		mx, my := x.region(64, everyRight), y.region(64, everyRight)
		client, ch := a.client(2, 1)

		// The rest is done by a process of the client's host that speaks the protocol itself, for
		// a channel refuses the numbers that are not for channels.
		greet := hello{generation: 1, link: 1, queue: 0x200000, initiator: anInitiator(0x400009, 1), target: anInitiator(0x800009, 1)}.bytes()
		qp, cq, _, err := rawLink(t, n, 1, b, greet, &iwarp.SharedParams{Send: true, Queues: noQueues{}, Incarnation: 5,
			Protection: func(uint32, mr.Rights) *mr.Domain { return nil }})
		must(t, err)
		local, err := qp.PD().RegMR(make([]byte, 64), mr.LocalWrite, 0)
		must(t, err)
		numbers := []uint32{qx.Num(), qy.Num(), controlQueue, b.rds.number, 0xFFFFFE}
		for k := uint32(0); k < 1<<11; k++ {
			numbers = append(numbers, k)
		}
		for k := uint32(1 << 11); k < 1<<24; k += 40_993 {
			numbers = append(numbers, k, objects.PortQueue(uint16(k)))
		}
		slices.Sort(numbers)
		numbers = slices.Compact(numbers)
		numbers = slices.DeleteFunc(numbers, func(k uint32) bool { return k > maxSRQN })
		scan := func(op iwarp.Op, m *iwarp.MR, good uint32) {
			t.Helper()
			for list := range slices.Chunk(numbers, 32) {
				for _, k := range list {
					w := tagged(op, k, m, local)
					must(t, errOf(qp.PostSend(w)))
				}
				for range list {
					c := nextOf(t, cq)
					want := iwarp.RemoteAccess
					if good != 0 && c.ID == uint64(good) {
						want = iwarp.Success
					}
					if c.Status != want {
						t.Fatalf("%v with number %#x: %v, want %v", op, c.ID, c.Status, want)
					}
				}
			}
		}
		for _, op := range taggedOps {
			scan(op, my, 0)
			scan(op, mx, qx.Num())
		}
		if qp.Err() != nil || ch.Err() != nil {
			t.Error(qp.Err(), ch.Err())
		}
		y.noticesNothing(my)
		if qy.Query().Posted != 4 {
			t.Errorf("%+v", qy.Query())
		}
		// Job Y's queue by job X's target, too: as a queue that there is not (dossier, test 39).
		w := aMessage(ch, 6)
		w.Queue = qy.Num()
		client.send(ch, w)
		client.want(6, iwarp.RemoteInvalidRD, iwarp.OpSend)
		client.says(ch, 7)
		if qy.Query().Posted != 4 {
			t.Errorf("%+v", qy.Query())
		}
	})
}

// A peer that lacks the capability reaches no region, whose key ever it knows.
func TestPeersThatNameNoQueueReachNothing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := newNet(t, unpaced)
		b := n.host(2)
		x := b.app("")
		x.serve(1, 4, 64)
		mx := x.region(64, everyRight)
		q, err := b.NewQueue("application")
		must(t, err)
		defer q.Close()
		owner := b.Regions().NewOwner(mr.OwnerConfig{})
		greet := hello{generation: 1, link: 1, queue: 0x200000, initiator: anInitiator(0x400009, 1), target: anInitiator(0x800009, 1)}.bytes()
		qp, cq, _, err := rawLink(t, n, 1, b, greet, &iwarp.SharedParams{Send: true, Queues: noQueues{}, Incarnation: 5})
		must(t, err)
		refused := func(key mr.Key) {
			t.Helper()
			must(t, errOf(qp.PostSend(iwarp.WorkRequest{Op: iwarp.OpWrite, Flags: iwarp.Signaled, RemoteKey: key, Inline: []byte("x")})))
			c := nextOf(t, cq)
			if c.Status != iwarp.RemoteAccess {
				t.Error(c.Status)
			}
		}
		refused(mx.Key())
		for _, d := range []*mr.Domain{b.Domain(), q.Domain()} {
			key, err := owner.Map(make([]byte, 8), mr.Options{Domain: d, Rights: everyRight})
			must(t, err)
			refused(key)
		}
		x.noticesNothing(mx)
	})
}

//go:build live

package xrc

import (
	"bytes"
	"testing"

	"github.com/rds-go/rds/internal/rdstest"
	"github.com/rds-go/rds/mr"
	"github.com/rds-go/rds/transport/iwarp"
)

// Two applications of one host, behind one daemon: a process has a target in the domain of a job, and
// the other one in the domain of another job. The other one scans all small numbers, with messages,
// and with Writes and reads by a key of the first job: it finds the queue of its own job alone. The
// process that is in the first job goes on, and its job gets that process's messages only.
func TestXRCREQ47AnApplicationDoesNotReachItsNeighboursJob(t *testing.T) {
	t.Parallel()
	l := rdstest.NewLab(t)
	near, far := newHost(t, &l), newHost(t, &l)
	own := startWorker(t, far, domainFile(t), 7)
	victim := newProcess(t, far, domainFile(t), 64, 1024)
	victim.advertise(t, 8)
	open, err := victim.pd.Alloc(64, mr.LocalWrite|mr.RemoteWrite|mr.RemoteRead)
	must(t, err)
	startProcess(t, nil, near.path, "8", far.addr.String()) // the neighbour
	took := func(least int) {
		t.Helper()
		for n := 0; ; n++ {
			if n >= least {
				var list [1]iwarp.Completion
				if victim.cq.Poll(list[:]) == 0 {
					return
				}
				victim.check(t, &list[0])
				continue
			}
			c := victim.poll(t)
			victim.check(t, &c)
		}
	}
	took(1) // the host has a target in the victim's domain
	intruder := newProcess(t, near, nil, 1, 1024)
	i := intruder.connect(t, far.addr, 7)
	numbers := []uint32{victim.srq.Num()}
	for k := uint32(2); k < 600; k++ {
		numbers = append(numbers, k)
	}
	hits := 0
	for _, k := range numbers {
		write := iwarp.WorkRequest{ID: 2, Op: iwarp.OpWrite, Flags: iwarp.Signaled, Queue: k, RemoteKey: open.Key(), RemoteAddr: open.Addr(), Inline: []byte("intruder")}
		read := write
		read.Op, read.Inline, read.SGE = iwarp.OpRead, nil, []iwarp.SGE{intruder.mem.SGE(0, 8)}
		list := []iwarp.WorkRequest{{ID: 1, Flags: iwarp.Signaled, Queue: k, Inline: make([]byte, 8)}, write, read}
		if k == own.srq {
			list = list[:1] // it takes messages whose number is 0 first, and has no regions
		}
		if n, err := i.PostSend(list...); err != nil || n != len(list) {
			t.Fatal(n, err)
		}
		for range list {
			switch c := intruder.poll(t); {
			case c.ID == 1 && c.Status == iwarp.Success && k == own.srq:
				hits++
			case c.ID == 1 && c.Status != iwarp.RemoteInvalidRD, c.ID == 2 && c.Status != iwarp.RemoteAccess:
				t.Fatalf("with number %#x, the victim's is %#x: %+v", k, victim.srq.Num(), c)
			}
		}
		took(0)
	}
	if hits != 1 {
		t.Errorf("%d messages to the own queue", hits)
	}
	took(1) // the neighbour goes on
	if !bytes.Equal(open.Bytes(), make([]byte, 64)) {
		t.Error("PROMISE: the region has changed")
	}
}

// check looks at a message that has come, which is one of beClient's, and posts its receive again.
func (p *process) check(t testing.TB, c *iwarp.Completion) {
	t.Helper()
	if c.Status != iwarp.Success || c.Len != 5 || c.Target == 0 {
		t.Fatalf("%+v", *c)
	}
	p.receive(t, c.ID)
}

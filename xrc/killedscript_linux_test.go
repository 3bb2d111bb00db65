package xrc

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"strconv"
	"sync"
	"syscall"
	"testing"

	"github.com/rds-go/rds/internal/rdstest"
	"github.com/rds-go/rds/mr"
	"github.com/rds-go/rds/transport/iwarp"
	"github.com/rds-go/rds/xrc/objects"
)

// A process runs a script that makes, uses and closes objects of all kinds, and is killed with SIGKILL
// at a random point of the script, 200 times. The tables of both daemons are then as they were, the
// target that the processes had registered with lives, and messages to another process go on.
func TestXRCREQ30ProcessKilledAtAnyPointLeavesNothing(t *testing.T) {
	const kills, steps = 200, 60
	l := rdstest.NewLab(t)
	near, far := newHost(t, &l), newHost(t, &l)
	f := domainFile(t)
	server, stays := newProcess(t, far, nil, 64, 1024), newProcess(t, near, f, 64, 1024)
	server.advertise(t, 7)
	stays.advertise(t, 8)
	from := server.connect(t, near.addr, 8) // the scripts register with its target
	drained := make(chan struct{})
	ctx, cancel := context.WithCancel(context.Background())
	go func() { // receives what the scripts send
		defer close(drained)
		drain(ctx, server, 64)
	}()
	kill := func(seed, after int) {
		victim := startProcess(t, f, scriptRole, near.path, far.addr.String(), fmt.Sprint(from.Target()), fmt.Sprint(seed))
		for range after {
			victim.hear("step")
		}
		if victim.kill(); victim.cmd.ProcessState.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
			t.Errorf("seed %d: %v", seed, victim.cmd.ProcessState)
		}
	}
	type tables struct {
		near, far objects.Stats
		sessions  int // attached applications
		owners    int // of regions
		live      int // regions
		dirty     int
		holders   int // sessions registered with the target that the scripts register with
	}
	look := func() (x tables) {
		x.near, x.far = near.node.Xrc.Objects().Stats(), far.node.Xrc.Objects().Stats()
		for _, s := range []*objects.Stats{&x.near, &x.far} {
			s.Resting, s.EventsLost = 0, 0
		}
		r := near.node.Regions().Stats()
		info, err := stays.QueryTarget(stays.dom, from.Target())
		if err != nil {
			t.Fatal(err)
		}
		x.sessions, x.owners, x.live, x.dirty, x.holders = len(near.svc.Sessions()), r.Owners, r.Registered.Live, r.Registered.Dirty, info.Registered
		return x
	}
	if _, err := stays.Register(stays.dom, from.Target()); err != nil {
		t.Fatal(err)
	}
	baseline := look()
	rnd := rand.New(rand.NewPCG(30, 0))
	places := make(chan struct{}, 4)
	var crowd sync.WaitGroup
	for seed := range kills {
		places <- struct{}{}
		after := rnd.IntN(steps)
		crowd.Go(func() {
			defer func() { <-places }()
			kill(seed, after)
		})
	}
	crowd.Wait()
	var now tables
	if !rdstest.Holds(rdstest.Patience, func() bool { now = look(); return now == baseline }) {
		t.Errorf("after %d kills %+v\nbefore %+v", kills, now, baseline)
	}
	m := stream{p: server, i: from, queue: stays.srq.Num()}
	if err := m.send(); err != nil {
		t.Fatal(err)
	}
	if c := stays.poll(t); c.Status != iwarp.Success {
		t.Errorf("a message by the target that the scripts had registered with: %+v", c)
	}
	cancel()
	<-drained
}

// drain takes what arrives at a process with n receives until ctx ends.
func drain(ctx context.Context, p *process, n int) {
	list := make([]iwarp.Completion, n)
	for p.cq.Wait(ctx) == nil {
		for _, c := range list[:p.cq.Poll(list)] {
			if c.Op != iwarp.OpReceive {
				continue
			}
			if _, err := p.srq.PostReceive(iwarp.ReceiveRequest{ID: c.ID, SGE: []iwarp.SGE{p.mem.SGE(int(c.ID)*slot, slot)}}); err != nil {
				return
			}
		}
	}
}

// script is a process's objects of each kind.
type script struct {
	s          *Session
	rnd        *rand.Rand
	remote     netip.Addr // host with service 7
	target     uint32     // that another process keeps
	file       *os.File
	domains    []*Domain
	pds        []*PD
	regions    []*Region
	cqs        []*CQ
	srqs       []*SRQ
	initiators []*Initiator
	closers    []func(context.Context) error // of all objects made
	targets    []uint32
}

const scriptRole = "script"

// beScript is the process: path remote target seed. It says each step that it has made.
func beScript(args []string) error {
	s, err := openAt(args[0])
	if err != nil {
		return err
	}
	target, _ := strconv.ParseUint(args[2], 10, 32)
	seed, _ := strconv.ParseUint(args[3], 10, 64)
	x := &script{s: s, rnd: rand.New(rand.NewPCG(seed, 1)), remote: netip.MustParseAddr(args[1]), target: uint32(target), file: os.NewFile(3, "domain")}
	for step := 0; ; step++ {
		if err := x.step(step); err != nil {
			return fmt.Errorf("step %d: %w", step, err)
		}
		fmt.Println("step", step)
	}
}

// step makes, uses or closes an object. The first steps make one of each kind.
func (x *script) step(n int) (err error) {
	kind := n
	if n > 9 {
		kind = x.rnd.IntN(14)
	}
	made := func(o interface{ Close(context.Context) error }) { x.closers = append(x.closers, o.Close) }
	simple := func(o interface{ Close() error }) {
		x.closers = append(x.closers, func(context.Context) error { return o.Close() })
	}
	switch kind {
	case 0:
		var d *Domain
		if d, err = x.s.OpenDomain(x.file, os.O_CREATE); err == nil {
			x.domains = append(x.domains, d)
			simple(d)
		}
	case 1:
		var p *PD
		if p, err = x.s.AllocPD(); err == nil {
			x.pds = append(x.pds, p)
			simple(p)
		}
	case 2:
		var m *Region
		if m, err = pick(x, x.pds).Alloc(4096, mr.LocalWrite|mr.RemoteWrite|mr.RemoteRead); err == nil {
			x.regions = append(x.regions, m)
			simple(m)
		}
	case 3:
		var q *CQ
		if q, err = x.s.CreateCQ(256); err == nil {
			x.cqs = append(x.cqs, q)
			made(q)
		}
	case 4:
		var q *SRQ
		if q, err = x.s.CreateSRQ(SRQAttr{Domain: pick(x, x.domains), PD: pick(x, x.pds), CQ: pick(x, x.cqs), MaxWR: 8}); err == nil {
			x.srqs = append(x.srqs, q)
			made(q)
		}
	case 5:
		var v *Service
		if v, err = x.s.Advertise(ServiceAttr{ID: x.rnd.Uint64(), Domain: pick(x, x.domains), SRQ: pick(x, x.srqs)}); err == nil {
			x.closers = append(x.closers, v.Withdraw)
		}
	case 6:
		var i *Initiator
		if i, err = x.s.Connect(context.Background(), InitiatorAttr{PD: pick(x, x.pds), CQ: pick(x, x.cqs), Remote: x.remote, Service: 7, MaxSend: 16}); err == nil {
			x.initiators = append(x.initiators, i)
			made(i)
		}
	case 7:
		_, err = x.s.Register(pick(x, x.domains), x.target)
	case 8:
		var n uint32
		if n, err = x.s.CreateTarget(pick(x, x.domains)); err == nil {
			x.targets = append(x.targets, n)
		}
	case 9:
		var t *Target
		if t, err = x.s.OpenTarget(pick(x, x.domains), x.target); err == nil {
			x.closers = append(x.closers, t.Destroy)
		}
	default:
		err = x.use(kind)
	}
	if n <= 9 {
		return err // nothing has been closed yet
	}
	// Objects that a step uses may be closed, and sends and receives may have no room.
	for _, ok := range []error{syscall.EINVAL, syscall.EBUSY, syscall.ENOMEM, syscall.EAGAIN, net.ErrClosed} {
		if errors.Is(err, ok) {
			return nil
		}
	}
	return err
}

// use is a step that makes nothing.
func (x *script) use(kind int) (err error) {
	switch kind {
	case 10:
		i := pick(x, x.initiators)
		_, err = i.PostSend(iwarp.WorkRequest{Flags: iwarp.Signaled, Queue: i.Queue().SRQN, Inline: []byte("hello")})
	case 11:
		m := pick(x, x.regions)
		_, err = pick(x, x.srqs).PostReceive(iwarp.ReceiveRequest{SGE: []iwarp.SGE{m.SGE(0, 64)}})
	case 12: // to the state of error, whose event nobody reads
		err = x.s.ModifyTarget(x.domains[0], x.targets[0], objects.Attr{State: objects.StateError}, objects.MaskState)
	case 13:
		i := x.rnd.IntN(len(x.closers))
		if x.closers[i](context.Background()) == nil { // what is used by others stays
			x.closers = append(x.closers[:i], x.closers[i+1:]...)
		}
	}
	return err
}

func pick[T any](x *script, list []T) T { return list[x.rnd.IntN(len(list))] }

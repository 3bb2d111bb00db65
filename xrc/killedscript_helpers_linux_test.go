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
	"syscall"

	"github.com/rds-go/rds/mr"
	"github.com/rds-go/rds/transport/iwarp"
	"github.com/rds-go/rds/xrc/objects"
)

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
	need(err)
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

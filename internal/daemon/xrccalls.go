package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"syscall"

	"github.com/rds-go/rds/internal/ipc"
	"github.com/rds-go/rds/internal/work"
	"github.com/rds-go/rds/mr"
	"github.com/rds-go/rds/rds/datagram"
	"github.com/rds-go/rds/transport/iwarp"
	"github.com/rds-go/rds/transport/xrc"
	"github.com/rds-go/rds/xrc/objects"
)

// xrcCall does what a call about objects of XRC asks for. The file, if one came, stays the caller's.
func (x *session) xrcCall(c *ipc.XRCCall, file *os.File) (*ipc.XRCReply, error) {
	if c == nil {
		return nil, errNoObject
	}
	if slices.Contains(xrcMakes, c.Op) {
		if err := x.svc.hasMemory(x.user); err != nil {
			return nil, err
		}
	}
	r := new(ipc.XRCReply)
	if c.Op == ipc.XRCPosts {
		return r, x.openXRC(c)
	}
	xs := x.xrc.Load()
	if xs == nil {
		return nil, errNoObject
	}
	if c.Op == ipc.XRCClose {
		x.xrc.CompareAndSwap(xs, nil)
		xs.end()
		return r, nil
	}
	return r, xs.call(c, file, r)
}

// call does what a call asks for, but for the first and the last one.
func (xs *xrcSession) call(c *ipc.XRCCall, file *os.File, r *ipc.XRCReply) error {
	if c.Op == ipc.XRCOpenDomain {
		return xs.openDomain(c, file, r)
	}
	if call := xrcCalls[c.Op]; call != nil {
		return call(xs, c, r)
	}
	return errNoObject
}

// xrcMakes are the calls that take memory.
var xrcMakes = []string{ipc.XRCPosts, ipc.XRCRegister, ipc.XRCCreateCQ, ipc.XRCCreateSRQ, ipc.XRCConnect}

// xrcCalls are the calls that take no file.
var xrcCalls = map[string]func(*xrcSession, *ipc.XRCCall, *ipc.XRCReply) error{
	ipc.XRCAllocPD: (*xrcSession).allocPD, ipc.XRCRegister: (*xrcSession).register, ipc.XRCCreateCQ: (*xrcSession).createCQ,
	ipc.XRCCreateSRQ: (*xrcSession).createSRQ, ipc.XRCModifySRQ: (*xrcSession).modifySRQ, ipc.XRCQuerySRQ: (*xrcSession).querySRQ,
	ipc.XRCAdvertise: (*xrcSession).advertise, ipc.XRCConnect: (*xrcSession).connect, ipc.XRCJoin: (*xrcSession).join,
	ipc.XRCResolve: (*xrcSession).resolve, ipc.XRCDestroy: (*xrcSession).destroy,
	ipc.XRCCreateTarget: (*xrcSession).createTarget, ipc.XRCOpenTarget: (*xrcSession).openTarget, ipc.XRCRegisterWith: (*xrcSession).registerWith,
	ipc.XRCUnregister: (*xrcSession).unregister, ipc.XRCQueryTarget: (*xrcSession).queryTarget, ipc.XRCModifyTarget: (*xrcSession).modifyTarget,
	ipc.XRCEvent: (*xrcSession).event, ipc.XRCAck: (*xrcSession).ack,
}

func (xs *xrcSession) allocPD(_ *ipc.XRCCall, r *ipc.XRCReply) error {
	p, err := xs.s.AllocPD()
	if err == nil {
		r.Object = xs.add(p)
	}
	return err
}

// register makes a region of the owner's memory, where its first byte has its offset as address.
func (xs *xrcSession) register(c *ipc.XRCCall, r *ipc.XRCReply) error {
	pd, err := get[*objects.PD](xs, c.PD)
	if err != nil {
		return err
	}
	mem := xs.owner.piece(c.Offset, c.Length)
	if len(mem) == 0 || c.Access > 0xff {
		return errNoPlace
	}
	m, err := pd.RegMR(mem, mr.Rights(c.Access), uint64(c.Offset))
	if err == nil {
		r.Object, r.Number = xs.add(m), uint32(m.Key())
	}
	return err
}

func (xs *xrcSession) createCQ(c *ipc.XRCCall, r *ipc.XRCReply) error {
	ring, err := workQueue(xs.owner, c, work.CompletionSize, true)
	if err != nil {
		return err
	}
	cq, err := xs.s.CreateCQ(c.Entries)
	if err != nil {
		return err
	}
	o := &xrcCQ{CQ: cq, owner: xs.owner, ring: ring, queues: make(map[uint32]*xrcSRQ)}
	cq.Divert(o.deliver)
	xs.add(o)
	r.Object, r.Number, r.Generation = o.id, cq.Ref().Number, cq.Ref().Generation
	return nil
}

func (xs *xrcSession) openDomain(c *ipc.XRCCall, file *os.File, r *ipc.XRCReply) error {
	if file == nil {
		return xs.openDomainOf(-1, c, r)
	}
	rc, err := file.SyscallConn()
	if err != nil {
		return err
	}
	if e := rc.Control(func(fd uintptr) { err = xs.openDomainOf(int(fd), c, r) }); e != nil {
		return e
	}
	return err
}

func (xs *xrcSession) openDomainOf(fd int, c *ipc.XRCCall, r *ipc.XRCReply) error {
	d, err := xs.s.OpenDomain(fd, c.Flags)
	if err == nil {
		r.Object, r.Tag = xs.add(d), d.Tag()
	}
	return err
}

func (xs *xrcSession) createSRQ(c *ipc.XRCCall, r *ipc.XRCReply) error {
	dom, err := get[*objects.Domain](xs, c.Domain)
	if err != nil {
		return err
	}
	pd, err := get[*objects.PD](xs, c.PD)
	if err != nil {
		return err
	}
	cq, err := get[*xrcCQ](xs, c.CQ)
	if err != nil {
		return err
	}
	ring, err := workQueue(xs.owner, c, work.RequestSize, false)
	if err != nil {
		return err
	}
	srq, err := xs.s.CreateSRQ(objects.SRQAttr{Domain: dom, PD: pd, CQ: cq.CQ, MaxWR: c.Entries, Limit: c.Limit})
	if err != nil {
		return err
	}
	q := &xrcSRQ{SRQ: srq, cq: cq, ring: ring}
	cq.mu.Lock()
	cq.queues[srq.Num()] = q
	cq.mu.Unlock()
	r.Object, r.Number, r.Generation = xs.add(q), srq.Num(), srq.Ref().Generation
	return nil
}

func (xs *xrcSession) modifySRQ(c *ipc.XRCCall, _ *ipc.XRCReply) error {
	q, err := get[*xrcSRQ](xs, c.Object)
	if err != nil {
		return err
	}
	return q.Modify(objects.SRQLimit, 0, c.Limit)
}

func (xs *xrcSession) querySRQ(c *ipc.XRCCall, r *ipc.XRCReply) error {
	q, err := get[*xrcSRQ](xs, c.Object)
	if err == nil {
		info := q.Query()
		r.Posted, r.Limit = info.Posted, info.Limit
	}
	return err
}

func (xs *xrcSession) advertise(c *ipc.XRCCall, r *ipc.XRCReply) error {
	dom, err := get[*objects.Domain](xs, c.Domain)
	if err != nil {
		return err
	}
	a := objects.ServiceAttr{ID: c.Service, Domain: dom, Hosts: c.Hosts, Access: mr.Rights(c.Access)}
	if c.SRQ != 0 {
		q, err := get[*xrcSRQ](xs, c.SRQ)
		if err != nil {
			return err
		}
		a.SRQ = q.SRQ
	}
	if err := xs.owner.mayAdvertise(c.Service); err != nil {
		return err
	}
	var withdrawn func()
	noted := make(chan struct{})
	a.Ended = func() {
		<-noted
		withdrawn()
	}
	v, err := xs.s.Advertise(a)
	if err != nil {
		return err
	}
	withdrawn = xs.owner.advertised(c.Service)
	close(noted)
	r.Object = xs.add(v)
	return nil
}

func (xs *xrcSession) connect(c *ipc.XRCCall, r *ipc.XRCReply) error {
	pd, err := get[*objects.PD](xs, c.PD)
	if err != nil {
		return err
	}
	cq, err := get[*xrcCQ](xs, c.CQ)
	if err != nil {
		return err
	}
	ring, err := workQueue(xs.owner, c, work.RequestSize, false)
	if err != nil {
		return err
	}
	if !xs.mayConnect(c.Entries) {
		return objects.ErrLimit
	}
	if !cq.reserve(c.Entries) {
		xs.mayConnect(-c.Entries)
		return fmt.Errorf("the completion queue has no room for %d requests more: %w", c.Entries, syscall.ENOMEM)
	}
	ctx, cancel := context.WithTimeout(xs.ctx, connectWait)
	defer cancel()
	ch, err := xs.t.Connect(ctx, xs.s, xrc.ChannelAttr{PD: pd, CQ: cq.CQ, Local: c.Local, Remote: c.Remote, Service: c.Service,
		MaxSend: c.Entries, Reads: c.Reads, MTU: c.MTU})
	if err != nil {
		cq.reserve(-c.Entries)
		xs.mayConnect(-c.Entries)
		return refusal(err)
	}
	o := &xrcChannel{Channel: ch, cq: cq, maxSend: c.Entries, ring: ring}
	answer, ref := ch.Queue(), ch.Ref()
	r.Number, r.Generation = ref.Number, ref.Generation
	r.Object, r.Target, r.SRQ, r.Tag, r.Reads = xs.add(o), ch.Target().Number, answer.SRQN, answer.Tag, ch.Reads()
	return nil
}

// mayConnect counts the requests that initiators may have outstanding.
func (xs *xrcSession) mayConnect(n int) bool {
	xs.mu.Lock()
	defer xs.mu.Unlock()
	if xs.sends+n > maxXRCSends {
		return false
	}
	xs.sends += n
	return true
}

// refusal gives the answer of a peer a number: that of its status is not one of Linux.
func refusal(err error) error {
	var refused *xrc.StatusError
	switch {
	case !errors.As(err, &refused):
		return err
	case refused.Status == objects.StatusBusy:
		return &xrcRefusal{syscall.EAGAIN, err}
	}
	return &xrcRefusal{syscall.ECONNREFUSED, err}
}

// xrcRefusal is an error with a number.
type xrcRefusal struct {
	errno syscall.Errno
	error
}

func (e *xrcRefusal) Unwrap() []error { return []error{e.errno, e.error} }

func (xs *xrcSession) join(c *ipc.XRCCall, r *ipc.XRCReply) error {
	ch, err := get[*xrcChannel](xs, c.Object)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(xs.ctx, connectWait)
	defer cancel()
	a, err := ch.Join(ctx, c.Service)
	r.SRQ, r.Tag = a.SRQN, a.Tag
	return refusal(err)
}

func (xs *xrcSession) resolve(c *ipc.XRCCall, r *ipc.XRCReply) error {
	ctx, cancel := context.WithTimeout(xs.ctx, connectWait)
	defer cancel()
	a, err := xs.t.Resolve(ctx, c.Local, c.Remote, c.Service)
	r.SRQ, r.Tag = a.SRQN, a.Tag
	return refusal(err)
}

// destroy ends an object. Its events have to be acknowledged first; whoever has not done so by then is told
// that the object is in use.
func (xs *xrcSession) destroy(c *ipc.XRCCall, _ *ipc.XRCReply) error {
	o, err := get[any](xs, c.Object)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(xs.ctx, destroyWait)
	defer cancel()
	switch o := o.(type) {
	case *objects.PD:
		err = o.Close()
	case *iwarp.MR:
		err = o.Dereg(ctx)
	case *xrcCQ:
		if err = o.CQ.Close(ctx); err == nil {
			o.close()
		}
	case *objects.Domain:
		err = o.Close()
	case *xrcSRQ:
		if err = o.SRQ.Close(ctx); err == nil {
			o.close()
			o.cq.forget(o)
		}
	case *objects.Service:
		err = o.Withdraw(ctx)
	case *xrcChannel:
		if err = o.Channel.Close(ctx); err == nil {
			o.close()
			o.cq.reserve(-o.maxSend)
			xs.mayConnect(-o.maxSend)
		}
	case *objects.Handle:
		err = o.Destroy(ctx)
	}
	if err == nil {
		xs.remove(c.Object)
	}
	return err
}

func (xs *xrcSession) createTarget(c *ipc.XRCCall, r *ipc.XRCReply) error {
	dom, err := get[*objects.Domain](xs, c.Domain)
	if err != nil {
		return err
	}
	ref, err := xs.s.CreateTarget(objects.TargetAttr{Domain: dom})
	r.Target = ref.Number
	return err
}

func (xs *xrcSession) openTarget(c *ipc.XRCCall, r *ipc.XRCReply) error {
	dom, err := get[*objects.Domain](xs, c.Domain)
	if err != nil {
		return err
	}
	h, err := xs.s.OpenTarget(dom, c.Target)
	if err == nil {
		r.Object = xs.add(h)
	}
	return err
}

func (xs *xrcSession) registerWith(c *ipc.XRCCall, r *ipc.XRCReply) error {
	dom, err := get[*objects.Domain](xs, c.Domain)
	if err != nil {
		return err
	}
	info, err := xs.s.Register(dom, c.Target)
	if err != nil {
		return err
	}
	return describe(&info, r)
}

func (xs *xrcSession) unregister(c *ipc.XRCCall, _ *ipc.XRCReply) error {
	dom, err := get[*objects.Domain](xs, c.Domain)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(xs.ctx, destroyWait)
	defer cancel()
	return xs.s.Unregister(ctx, dom, c.Target)
}

func (xs *xrcSession) queryTarget(c *ipc.XRCCall, r *ipc.XRCReply) error {
	dom, err := get[*objects.Domain](xs, c.Domain)
	if err != nil {
		return err
	}
	info, err := xs.s.QueryTarget(dom, c.Target)
	if err != nil {
		return err
	}
	return describe(&info, r)
}

// describe puts what a query has found into a reply.
func describe(info *objects.Info, r *ipc.XRCReply) (err error) {
	if info.Cause != nil {
		r.Cause, info.Cause = info.Cause.Error(), nil
	}
	r.Info, err = json.Marshal(info)
	return err
}

func (xs *xrcSession) modifyTarget(c *ipc.XRCCall, _ *ipc.XRCReply) error {
	dom, err := get[*objects.Domain](xs, c.Domain)
	if err != nil {
		return err
	}
	var a objects.Attr
	if err := json.Unmarshal(c.Attr, &a); err != nil {
		return objects.ErrAttribute
	}
	return xs.s.ModifyTarget(dom, c.Target, a, objects.Mask(c.Mask))
}

// event waits for an event, unless another call does.
func (xs *xrcSession) event(_ *ipc.XRCCall, r *ipc.XRCReply) error {
	if xs.hears.Swap(true) {
		return datagram.ErrBusy
	}
	defer xs.hears.Store(false)
	return xs.nextEvent(r)
}

// nextEvent waits for an event. The caller has set hears.
func (xs *xrcSession) nextEvent(r *ipc.XRCReply) error {
	e, err := xs.s.NextEvent(xs.ctx)
	if err != nil {
		return err
	}
	xs.mu.Lock()
	if e.Kind != objects.EventsLost {
		xs.serial++
		r.Serial = xs.serial
		xs.unread[r.Serial] = e
	}
	xs.mu.Unlock()
	r.Event, err = json.Marshal(e)
	return err
}

func (xs *xrcSession) ack(c *ipc.XRCCall, _ *ipc.XRCReply) error {
	xs.mu.Lock()
	e, ok := xs.unread[c.Serial]
	delete(xs.unread, c.Serial)
	xs.mu.Unlock()
	if !ok {
		return objects.ErrAcked
	}
	return xs.s.Ack(e)
}

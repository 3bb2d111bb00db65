package loop

import (
	"encoding/binary"
	"net/netip"
	"syscall"

	"github.com/rds-go/rds/mr"
	"github.com/rds-go/rds/transport"
)

// chunk is how much one section copies: what an invalidation waits for.
const chunk = 64 << 10

// operator does a link's operations. All but far is the writer's.
type operator struct {
	far     func(port uint16) *mr.Domain // protection domains at the other end
	use     mr.Use                       // operation that is being done
	reader  *mr.Reader                   // nil before it is needed
	refused bool                         // a write of the last operations was: their message is not delivered
}

// operateOn makes l carry operations on the memory of the transport it leads to.
func (l *link) operateOn(memory func(local netip.Addr) func(port uint16) *mr.Domain) {
	if memory == nil {
		return
	}
	far := memory(l.remote.Addr())
	if far == nil {
		return
	}
	l.ops = &operator{far: far}
}

// operate does ops on memory of the program that has a port of the other end's, if all that
// was sent before is delivered. An error is about ops.
func (l *link) operate(ops []*transport.Operation, port uint16) (done bool, err error) {
	o := l.ops
	if o == nil {
		return false, &transport.FrameError{Err: syscall.EOPNOTSUPP}
	}
	for _, op := range ops {
		if err := op.Validate(); err != nil {
			return false, &transport.FrameError{Err: err}
		}
	}
	if !l.send.idle() {
		return false, nil
	}
	domain := o.far(port)
	if o.reader == nil && domain != nil {
		o.reader = domain.Device().NewReader("link from "+l.local.String(), func() { l.Close(transport.Abort) })
	}
	o.refused = false
	for _, op := range ops {
		status := transport.OpSuccess
		fault := mr.WrongDomain
		if domain != nil {
			fault = o.execute(op, domain, l.local.Addr())
			domain.Device().Finish(&o.use, fault == mr.None)
		}
		if fault != mr.None {
			status = transport.OpRefused
			o.refused = o.refused || op.Kind == transport.OpWrite
		}
		op.Done(op, status)
	}
	return true, nil
}

// execute does one operation of the host from, on memory of a domain. What is wrong with any part of it is
// found before a byte is copied, unless the region ends in the midst.
func (o *operator) execute(op *transport.Operation, domain *mr.Domain, from netip.Addr) mr.Fault {
	req := mr.Request{Key: mr.Key(op.Key), Domain: domain, From: from, Use: &o.use, Addr: op.Addr, Len: op.Size()}
	switch op.Kind {
	case transport.OpWrite:
		req.Rights = mr.RemoteWrite
	case transport.OpRead:
		req.Rights = mr.RemoteRead
	default:
		req.Rights = mr.RemoteAtomic
		return o.atomic(op, &req)
	}
	o.reader.Enter()
	_, fault := o.reader.Check(&req)
	o.reader.Leave()
	for _, p := range op.Local {
		for len(p) > 0 && fault == mr.None {
			part := p[:min(len(p), chunk)]
			req.Len = uint64(len(part))
			fault = o.copy(part, &req)
			req.Addr += req.Len
			p = p[len(part):]
		}
	}
	return fault
}

// copy moves the bytes of one section.
func (o *operator) copy(local []byte, req *mr.Request) mr.Fault {
	o.reader.Enter()
	defer o.reader.Leave()
	mem, fault := o.reader.Check(req)
	switch {
	case fault != mr.None:
	case req.Rights == mr.RemoteWrite:
		copy(mem, local)
	default:
		copy(local, mem)
	}
	return fault
}

func (o *operator) atomic(op *transport.Operation, req *mr.Request) mr.Fault {
	o.reader.Enter()
	defer o.reader.Leave()
	word, fault := o.reader.Check(req)
	if fault != mr.None {
		return fault
	}
	var old uint64
	if op.Kind == transport.OpFetchAdd {
		old = mr.FetchAdd(word, op.Add, op.AddMask)
	} else {
		old = mr.CompareSwap(word, op.Compare, op.CompareMask, op.Swap, op.SwapMask)
	}
	binary.NativeEndian.PutUint64(op.Local[0], old)
	return fault
}

// close gives the reader back, when nobody uses the link any more.
func (o *operator) close() {
	if o.reader != nil {
		o.reader.Close()
	}
}

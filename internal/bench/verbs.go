package bench

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"runtime"
	"syscall"

	"github.com/rds-go/rds/mr"
	"github.com/rds-go/rds/transport/iwarp"
)

// regionBase is the address of a region's first byte.
const regionBase = 1 << 20

// creditBytes are at the end of the client's region, for what the server says
// about its receive requests.
const (
	credits     = 16
	creditBytes = credits * numberEnd
)

// verbs is one side of an RDMA work: a device, a queue pair, one region that
// the peer may read and write.
type verbs struct {
	w      *Work
	dev    *iwarp.Device
	pd     *iwarp.PD
	qp     *iwarp.QP
	send   *iwarp.CQ
	recv   *iwarp.CQ
	region *iwarp.MR
	mem    []byte // the region's
	remote remoteRegion
	shared *iwarp.SharedParams // nil for a plain connection

	ctx   context.Context
	close func() // ends everything; what waits in take returns
}

// remoteRegion is what a peer tells in its private data.
type remoteRegion struct {
	key  mr.Key
	addr uint64
}

const privateLen = 12

func (r remoteRegion) private() []byte {
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint32(nil, uint32(r.key)), r.addr)
}

func parsePrivate(b []byte) (remoteRegion, error) {
	if len(b) < privateLen { // an MPA Request of revision 1 may have more
		return remoteRegion{}, fmt.Errorf("private data of %d bytes", len(b))
	}
	return remoteRegion{mr.Key(binary.BigEndian.Uint32(b)), binary.BigEndian.Uint64(b[4:])}, nil
}

// openVerbs opens a device with a region of n bytes.
func openVerbs(w *Work, o *TCPSettings, n int) (v *verbs, err error) {
	ctx, cancel := context.WithCancel(context.Background())
	v = &verbs{w: w, ctx: ctx, mem: make([]byte, n)}
	v.dev, err = iwarp.Open(iwarp.Config{
		EventLoops: o.Loops, Congestion: o.Congestion, MaxULPDU: w.ULPDU,
		SendBuffer: o.Buffers.Send, ReceiveBuffer: o.Buffers.Receive,
	})
	if err != nil {
		cancel()
		return nil, err
	}
	v.close = func() { cancel(); v.dev.Close() }
	if err := v.create(); err != nil {
		v.close()
		return nil, err
	}
	return v, nil
}

func (v *verbs) create() error {
	pd, err := v.dev.AllocPD()
	if err != nil {
		return err
	}
	v.pd = pd
	sends := v.w.sends() + 2*credits
	receives := v.w.receives() + credits
	if v.send, err = v.dev.CreateCQ(sends); err != nil {
		return err
	}
	if v.recv, err = v.dev.CreateCQ(receives); err != nil {
		return err
	}
	v.qp, err = pd.CreateQP(iwarp.QPConfig{SendCQ: v.send, RecvCQ: v.recv, MaxSend: sends, MaxReceive: receives, MaxInline: inlineMost})
	if err != nil {
		return err
	}
	rights := mr.LocalWrite | mr.RemoteWrite | mr.RemoteRead
	if v.w.Kind == Atomic {
		rights |= mr.RemoteAtomic
	}
	v.region, err = pd.RegMR(v.mem, rights, regionBase)
	return err
}

// params are the connection's, on both sides.
func (v *verbs) params() iwarp.ConnParams {
	reads := 16
	for v.w.Op == OpRead && reads < v.w.Depth {
		reads *= 2
	}
	own := remoteRegion{v.region.Key(), v.region.Base()}
	return iwarp.ConnParams{NoCRC: !v.w.CRC, IRD: reads, ORD: reads, Private: own.private(), Shared: v.shared}
}

// connect is the client's side of setting up the connection.
func (v *verbs) connect(ctx context.Context, from netip.Addr, to netip.AddrPort) error {
	e, err := v.dev.ConnectFrom(ctx, v.qp, netip.AddrPortFrom(from, 0), to, v.params())
	if err != nil {
		return err
	}
	if e.CRC != v.w.CRC {
		return fmt.Errorf("the connection has CRC %t, not %t", e.CRC, v.w.CRC)
	}
	v.remote, err = parsePrivate(e.Private)
	return err
}

// accept is the server's side.
func (v *verbs) accept(l *iwarp.Listener) error {
	in, err := l.Accept(v.ctx)
	if err != nil {
		return err
	}
	if v.remote, err = parsePrivate(in.Private); err != nil {
		in.Reject(nil)
		return err
	}
	_, err = in.Accept(v.ctx, v.qp, v.params())
	return err
}

// dialVerbs opens the client's end of c's work, with n bytes of memory before
// the credits. It is closed when the run is lost; the function returned closes
// it.
func (c *cell) dialVerbs(n int, prepare func(*verbs) error) (*verbs, func(), error) {
	v, err := openVerbs(c.work, &c.hello.TCPSettings, n+creditBytes)
	if err != nil {
		return nil, nil, err
	}
	stop := context.AfterFunc(c.hard, v.close)
	end := func() { stop(); v.close() }
	if prepare != nil {
		err = prepare(v)
	}
	if err == nil {
		err = v.connect(c.hard, c.ip, c.addrs[0])
	}
	if err != nil {
		end()
		return nil, nil, err
	}
	return v, end, nil
}

// take waits for completions and returns how many there are in dst. One that
// has failed is an error.
func (v *verbs) take(cq *iwarp.CQ, dst []iwarp.Completion) (int, error) {
	for {
		n := cq.Poll(dst)
		for i := range dst[:n] {
			if c := &dst[i]; c.Status != iwarp.Success {
				return 0, v.failed(c)
			}
		}
		if n > 0 {
			return n, nil
		}
		if v.w.Busy && v.ctx.Err() == nil {
			runtime.Gosched()
			continue
		}
		if err := cq.Wait(v.ctx); err != nil {
			return 0, err
		}
	}
}

// failed tells why a work request did not succeed.
func (v *verbs) failed(c *iwarp.Completion) error {
	err := fmt.Errorf("%v: %v", c.Op, c.Status)
	if c.Status == iwarp.Flushed {
		if e := v.qp.Err(); e != nil {
			err = e
		}
	}
	return err
}

// remoteRequest is a Write of, or a Read to, the region's memory at at, from or to n bytes of the peer's.
func (v *verbs) remoteRequest(op iwarp.Op, at, there, n int) iwarp.WorkRequest {
	return iwarp.WorkRequest{Op: op, SGE: []iwarp.SGE{v.region.SGE(at, n)}, RemoteKey: v.remote.key, RemoteAddr: v.remote.addr + uint64(there)}
}

// gone tells whether an error means that the peer has ended the connection,
// which is how a client ends a work; if it is too early, the client knows.
func gone(err error) bool {
	return errors.Is(err, iwarp.ErrPeerClosed) || errors.Is(err, iwarp.ErrClosed) || errors.Is(err, syscall.ECONNRESET) ||
		errors.Is(err, syscall.EPIPE) || errors.Is(err, context.Canceled)
}

// ungone is err, unless it means that the client has gone.
func ungone(err error) error {
	if gone(err) {
		return nil
	}
	return err
}

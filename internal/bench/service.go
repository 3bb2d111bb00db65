package bench

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"sync"
	"syscall"

	"github.com/rds-go/rds/mr"
	"github.com/rds-go/rds/rds"
)

// service is what a server runs for one work over one transport.
type service struct {
	addrs []netip.AddrPort
	tally *tally
	fail  func(error) // the work cannot go on; from any goroutine

	words [][]byte // words that are exposed and added to
	keys  []uint64 // keys or cookies of the memory that is exposed

	wg     sync.WaitGroup
	mu     sync.Mutex // guards the rest
	open   ends
	closed bool
}

// own has c closed with the service. It returns false, with c closed, when the
// service ends already.
func (v *service) own(c io.Closer) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.closed {
		c.Close()
		return false
	}
	v.open.add(func() { c.Close() })
	return true
}

// run has f serve in a goroutine. What it returns before the service ends is a
// failure.
func (v *service) run(f func() error) {
	v.wg.Go(func() {
		err := f()
		v.mu.Lock()
		closed := v.closed
		v.mu.Unlock()
		if err != nil && !closed {
			v.fail(err)
		}
	})
}

// close ends the service and waits for its goroutines.
func (v *service) close() {
	v.mu.Lock()
	v.closed = true
	v.mu.Unlock()
	v.open.close()
	v.wg.Wait()
}

// serveRDS binds what w needs and serves it.
func serveRDS(p rds.Provider, ip netip.Addr, w *Work, fail func(error)) (*service, error) {
	if w.Kind == Chernobyl {
		return serveChernobylSockets(p, ip, w, fail)
	}
	v := &service{tally: newTally(), fail: fail}
	n := 1
	if w.Kind == Mux || w.Kind == Stress || w.Kind == Stopped {
		n = w.Peers
	}
	socks := make([]*rds.Socket, n)
	for i := range socks {
		var err error
		if socks[i], err = v.bind(p, ip); err != nil {
			return nil, err
		}
	}
	if w.Kind == Atomic { // nothing is received
		words, err := v.expose(socks[0], w.Words*wordSize, rds.MRReadWrite)
		v.words = [][]byte{words}
		return v, err
	}
	if w.Kind == Mux && w.Stopped > 0 && w.Processes == 0 {
		socks = socks[:n-w.Stopped] // the others receive nothing
	}
	for _, s := range socks {
		v.run(func() error {
			switch w.Kind {
			case Latency, Fair, Attach:
				return echoRDS(s, w)
			case OneWay, Stopped:
				return sinkRDS(s, w, v.tally)
			case Fetch:
				return fetchedRDS(s, w)
			}
			return replyRDS(s, w)
		})
	}
	return v, nil
}

// bind binds a socket that is closed with the service, also if that fails.
func (v *service) bind(p rds.Provider, ip netip.Addr) (*rds.Socket, error) {
	s, err := p.Bind(netip.AddrPortFrom(ip, 0))
	if err != nil {
		v.close()
		return nil, err
	}
	v.own(s)
	v.addrs = append(v.addrs, s.LocalAddrPort())
	return s, nil
}

// expose exposes n bytes of memory. It closes the service if that fails.
func (v *service) expose(s *rds.Socket, n int, flags rds.MRFlags) ([]byte, error) {
	m, err := s.AllocMemory(n)
	var cookie rds.Cookie
	if err == nil {
		cookie, err = s.GetMR(m.B, flags)
	}
	if err != nil {
		v.close()
		return nil, err
	}
	v.keys = append(v.keys, uint64(cookie))
	return m.B, nil
}

// sum adds up the words.
func (v *service) sum() (sum uint64) {
	for _, b := range v.words {
		for ; len(b) > 0; b = b[wordSize:] {
			sum += mr.FetchAdd(b[:wordSize], 0, 0) // peers may still be adding
		}
	}
	return sum
}

// receive waits for messages: as many as there is room for, or with room for one by the call
// for a single message.
func receive(s *rds.Socket, ms []rds.Message) (n int, err error) {
	if len(ms) > 1 {
		return s.RecvBatch(context.Background(), ms)
	}
	ms[0], err = s.Recv(context.Background())
	return 1, err
}

// answer answers each message by one, in batches of up to n. each completes the i-th of a batch.
func answer(s *rds.Socket, n int, each func(i int, m *rds.Message, out *rds.Outgoing) error) error {
	ms, out := make([]rds.Message, n), make([]rds.Outgoing, n)
	for {
		k, err := receive(s, ms)
		if err != nil {
			return err
		}
		for i := range ms[:k] {
			out[i] = rds.Outgoing{To: ms[i].From}
			err = errors.Join(err, each(i, &ms[i], &out[i]))
		}
		switch {
		case err != nil:
		case n > 1:
			_, err = s.SendBatch(context.Background(), out[:k])
		default:
			err = s.SendMessage(context.Background(), &out[0])
		}
		for i := range ms[:k] {
			ms[i].Release() // gives back memory that was not sent
		}
		if err != nil {
			return err
		}
	}
}

// echoRDS sends every message back, without a copy if the work says so.
func echoRDS(s *rds.Socket, w *Work) error {
	return answer(s, 1, func(_ int, m *rds.Message, out *rds.Outgoing) error {
		if out.Data = m.Data; w.ZeroCopy {
			out.Data, out.Buffer = nil, m
		}
		return nil
	})
}

// sinkRDS counts messages and checks their numbers.
func sinkRDS(s *rds.Socket, w *Work, t *tally) error {
	ms := make([]rds.Message, max(w.Batch, 1))
	for n := uint64(0); ; {
		k, err := receive(s, ms)
		if err != nil {
			return err
		}
		for i := range ms[:k] {
			if e := checkMessage(ms[i].Data, w.Size, n); e != nil {
				err = e
			}
			ms[i].Release()
			n++
		}
		if err != nil {
			return err
		}
		t.add(k)
	}
}

// replyRDS answers each request with w.Reply bytes that carry its stamp. In a
// Stress it verifies requests and fills its replies.
func replyRDS(s *rds.Socket, w *Work) error {
	replies := make([]byte, w.Batch*w.Reply)
	var v *verifier
	if w.Kind == Stress {
		v = newVerifier(s.LocalAddrPort(), kindRequest)
	}
	return answer(s, w.Batch, func(i int, m *rds.Message, out *rds.Outgoing) error {
		out.Data = replies[i*w.Reply : (i+1)*w.Reply]
		if v != nil {
			if err := v.check(m.From, m.Data); err != nil {
				return err
			}
			v.fill(out.Data, m.From, kindReply)
		}
		copy(out.Data[numberEnd:stampEnd], m.Data[numberEnd:stampEnd])
		return nil
	})
}

// serveTCP listens on ip and serves the baseline of w on each connection.
func serveTCP(ip netip.Addr, w *Work, o *TCPSettings, fail func(error)) (*service, error) {
	l, err := o.listen(ip)
	if err != nil {
		return nil, err
	}
	v := &service{tally: newTally(), fail: fail}
	v.own(l)
	v.addrs = []netip.AddrPort{l.Addr().(*net.TCPAddr).AddrPort()}
	v.run(func() error {
		for {
			c, err := l.Accept()
			if err != nil {
				return err
			}
			if v.own(c) {
				v.run(func() error { return serveStream(newStream(c, bufferFor(w)), w, v.tally) })
			}
		}
	})
	return v, nil
}

// serveStream serves one connection until it ends.
func serveStream(s *stream, w *Work, t *tally) error {
	if w.shape() == RDMA {
		if err := serveBlocks(s, w); !gone(err) && !errors.Is(err, io.EOF) && !errors.Is(err, net.ErrClosed) {
			return err
		}
		return nil
	}
	reply := make([]byte, w.Reply)
	var n uint64
	fresh := 0 // messages not yet in t
	for {
		m, err := s.recv()
		if err != nil {
			if errors.Is(err, io.EOF) || errors.Is(err, net.ErrClosed) || errors.Is(err, syscall.ECONNRESET) {
				return nil // the client has gone; if too early, it knows
			}
			return err
		}
		switch w.shape() {
		case Latency:
			err = s.send(m)
		case OneWay:
			if err := checkMessage(m, w.Size, n); err != nil {
				return err
			}
			n++
			if fresh++; s.r.Buffered() == 0 {
				t.add(fresh)
				fresh = 0
			}
			continue
		default:
			copy(reply[numberEnd:stampEnd], m[numberEnd:stampEnd])
			err = s.send(reply)
		}
		if err == nil {
			err = s.flush()
		}
		if err != nil {
			return nil // the client has gone
		}
	}
}

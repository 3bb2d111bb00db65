//go:build interop

package interop

import (
	"context"
	"fmt"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/rds-go/rds/test/interop/peer"
)

// bufferSize is room for a message of the largest size and more, on both
// sides; Linux refuses messages larger than the send buffer.
const bufferSize = 4 << 20

// socket is a bound socket of a process.
type socket struct {
	*process
	id   int
	addr netip.AddrPort
}

// bind makes a socket on a port that the stack chooses. A receive buffer of 0
// is the stack's default.
func (p *process) bind(t *testing.T, sendBuffer, receiveBuffer int) socket {
	t.Helper()
	s, err := p.tryBind(t.Context(), p.addr, sendBuffer, receiveBuffer)
	must(t, err)
	t.Cleanup(func() { s.close(context.Background()) })
	return s
}

// close closes the socket. Errors do not matter: the process may be gone, or
// what was sent to a dead peer unacknowledged.
func (s socket) close(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	_ = s.Call(ctx, peer.OpClose, peer.SocketArgs{Socket: s.id}, nil)
}

func (p *process) tryBind(ctx context.Context, addr netip.Addr, sendBuffer, receiveBuffer int) (socket, error) {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	var r peer.BindResult
	args := peer.BindArgs{Local: netip.AddrPortFrom(addr, 0), SendBuffer: sendBuffer, ReceiveBuffer: receiveBuffer}
	if err := p.Call(ctx, peer.OpBind, args, &r); err != nil {
		return socket{}, fmt.Errorf("%s: %w", p.name, err)
	}
	return socket{p, r.Socket, r.Local}, nil
}

// ping has a socket ping a host and returns the round trip.
func (s socket) ping(ctx context.Context, to netip.Addr) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, pingTime)
	defer cancel()
	var r peer.PingResult
	if err := s.Call(ctx, peer.OpPing, peer.PingArgs{Socket: s.id, To: to}, &r); err != nil {
		return 0, fmt.Errorf("%s pings %v: %w", s.name, to, err)
	}
	return time.Duration(r.Microseconds) * time.Microsecond, nil
}

// flow is a stream of messages from one socket to another.
type flow struct {
	from, to socket
	stream   peer.Stream
	try      bool // first send each message without waiting
	monitor  bool // has the end of congestion told
	rate     int  // messages a second; 0: as many as the stack takes
	ping     int  // with try: ping after each that many messages, until the first refusal
	anyOrder bool // each message comes once, and no order is checked
}

// running is a flow under way.
type running struct {
	flow
	send, recv *peer.Call
}

func (f flow) startRecv() (*peer.Call, error) {
	return f.to.Start(peer.OpRecv, peer.RecvArgs{Socket: f.to.id, From: f.from.addr, Stream: f.stream, AnyOrder: f.anyOrder})
}

func (f flow) startSend() (*peer.Call, error) {
	return f.from.Start(peer.OpSend, peer.SendArgs{Socket: f.from.id, To: f.to.addr, Stream: f.stream, Rate: f.rate, PingEvery: f.ping, Try: f.try, Monitor: f.monitor})
}

func (f flow) start() (r running, err error) {
	r.flow = f
	if r.recv, err = f.startRecv(); err != nil {
		return r, err
	}
	r.send, err = f.startSend()
	return r, err
}

// startAll starts flows, and tells how many messages they are. Their work ends with them, or
// fails.
func startAll(t *testing.T, ctx context.Context, flows []flow, work *sync.WaitGroup, fail func(error)) (all []running, messages int) {
	t.Helper()
	for _, f := range flows {
		r, err := f.start()
		must(t, err)
		all = append(all, r)
		messages += f.stream.Count
		work.Go(func() {
			if _, err := r.wait(ctx); err != nil {
				fail(err)
			}
		})
	}
	return all, messages
}

// wait waits until everything was sent and received as it should. If one end fails the
// other one is ended.
func (r running) wait(ctx context.Context) (peer.SendResult, error) {
	var sent peer.SendResult
	var got peer.RecvResult
	recvErr := make(chan error, 1)
	go func() {
		err := r.recv.Wait(ctx, &got)
		if err != nil {
			_ = r.send.Cancel(ctx)
		}
		recvErr <- err
	}()
	sendErr := r.send.Wait(ctx, &sent)
	if sendErr != nil {
		_ = r.recv.Cancel(ctx)
	}
	if err := <-recvErr; err != nil {
		return sent, fmt.Errorf("%v to %v, seed %d: %w (sender: %d messages, %v)",
			r.from.addr, r.to.addr, r.stream.Seed, err, sent.Messages, sendErr)
	}
	if sendErr != nil {
		return sent, fmt.Errorf("%v to %v: %w", r.from.addr, r.to.addr, sendErr)
	}
	if got.Messages != sent.Messages || got.Bytes != sent.Bytes {
		return sent, fmt.Errorf("PROMISE: %v to %v: sent %+v, received %+v", r.from.addr, r.to.addr, sent, got)
	}
	return sent, nil
}

// bothWays adds to each flow one in the other direction, with another seed.
func bothWays(flows []flow) []flow {
	var all []flow
	for _, f := range flows {
		back := f
		back.from, back.to = f.to, f.from
		back.stream.Seed++
		all = append(all, f, back)
	}
	return all
}

// exchange runs flows side by side and waits for all.
func exchange(ctx context.Context, flows []flow) error {
	ctx, cancel := context.WithTimeoutCause(ctx, runTime, fmt.Errorf("flows not done after %v", runTime))
	defer cancel()
	var wg sync.WaitGroup
	errs := make([]error, len(flows))
	for i, f := range flows {
		r, err := f.start()
		if err != nil {
			cancel()
			wg.Wait()
			return err
		}
		wg.Go(func() { _, errs[i] = r.wait(ctx) })
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	for _, f := range flows {
		if err := f.quiet(ctx); err != nil {
			return err
		}
	}
	return nil
}

// quiet checks that nothing follows the end of a stream, such as a message
// doubled. The sender's pong says that all it sent before its ping was
// received; then the receiver's own pong must be the next it gets.
func (f flow) quiet(ctx context.Context) error {
	if _, err := f.from.ping(ctx, f.to.addr.Addr()); err != nil {
		return err
	}
	_, err := f.to.ping(ctx, f.from.addr.Addr())
	return err
}

// pairs binds n pairs of sockets and has each ping the other side, so that the
// number of paths is agreed on: until then Linux may reorder what non-blocking
// senders send (net/rds/send.c, rds_send_mprds_hash).
func pairs(t *testing.T, a, b *process, n int, receiveBuffer int) []flow {
	t.Helper()
	var flows []flow
	for range n {
		f := flow{from: a.bind(t, bufferSize, receiveBuffer), to: b.bind(t, bufferSize, receiveBuffer)}
		warm(t, f)
		flows = append(flows, f)
	}
	return flows
}

func warm(t *testing.T, f flow) {
	t.Helper()
	for _, s := range [][2]socket{{f.from, f.to}, {f.to, f.from}} {
		if _, err := s[0].ping(t.Context(), s[1].addr.Addr()); err != nil {
			t.Fatal(err)
		}
	}
}

package bench

import (
	"context"
	"fmt"
	"net/netip"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/rds-go/rds/rds"
)

// readEvery: of so many operations of a socket one is a read of what was written
// last. The others are writes with a message behind them, which the server answers.
const readEvery = 4

// The token of a socket's operation, of which it has one under way.
const socketToken = 1

// socketsRun is the client's side of a run with sockets.
type socketsRun struct {
	thirdsRun
	ctx     context.Context // context of all waiting
	workers []*socketWorker
	rogue   *socketWorker
}

// socketWorker is a socket of the client and the region it uses, of a socket of its
// own on the server. One goroutine uses it.
type socketWorker struct {
	run    *socketsRun
	index  int
	s      *rds.Socket
	to     netip.AddrPort
	cookie rds.Cookie
	local  *rds.Memory // memory that writes copy from and reads copy to
	hist   *hdrhistogram.Histogram
	writes uint64
}

// chernobylSockets has sockets write, read and send over the one connection, and at
// times one more whose keys are bad.
func (c *cell) chernobylSockets() (Result, error) {
	ctx, cancel := context.WithCancel(c.hard)
	defer cancel()
	r := &socketsRun{thirdsRun: thirdsRun{c: c}, ctx: ctx}
	var open ends
	defer open.close()
	for i := range c.work.Workers + 1 {
		w, end, err := r.newWorker(i)
		if err != nil {
			return Result{}, err
		}
		open.add(end)
		if i < c.work.Workers {
			r.workers = append(r.workers, w)
		} else {
			r.rogue = w
		}
	}
	reset, err := r.resets()
	if err != nil {
		return Result{}, err
	}
	var workers sync.WaitGroup
	defer workers.Wait()
	defer cancel()
	for _, w := range r.workers {
		workers.Go(func() {
			if err := w.work(); err != nil && ctx.Err() == nil {
				r.errors.Add(1)
				c.lose(fmt.Errorf("socket %d: %w", w.index, err))
			}
		})
	}
	c.sleep(c.opts.Warmup)
	res, err := r.measured(socketRounds, r.rogue.provoke)
	r.stop.Store(true)
	if err != nil {
		return res, err
	}
	workers.Wait()
	return res, r.confirm(&res, reset)
}

// resets is how many connections have ended so far.
func (r *socketsRun) resets() (uint64, error) {
	info, err := r.c.provider().Info()
	if err != nil {
		return 0, err
	}
	for _, n := range info.Counters {
		if n.Name == "conn_reset" {
			return n.Value, nil
		}
	}
	return 0, fmt.Errorf("the provider does not count connections that end")
}

// newWorker binds a socket and learns the key of its region.
func (r *socketsRun) newWorker(i int) (w *socketWorker, end func(), err error) {
	s, end, err := r.c.bind()
	if err != nil {
		return nil, nil, err
	}
	w = &socketWorker{run: r, index: i, s: s, to: r.c.addrs[i], hist: newSmallHist()}
	if w.local, err = s.AllocMemory(2 * r.c.work.Size); err == nil {
		err = s.Send(r.ctx, w.to, nil)
	}
	var m rds.Message
	if err == nil {
		m, err = s.Recv(r.ctx)
	}
	if err == nil && !m.HasDest {
		err = fmt.Errorf("no key came, but %v", &m)
	}
	if err != nil {
		end()
		return nil, nil, err
	}
	w.cookie = m.Dest
	m.Release()
	return w, end, nil
}

// work writes, tells of it and reads until the run stops. Every operation has to
// succeed, and every answer and every byte that is read to be right.
func (w *socketWorker) work() error {
	for n := 1; !w.run.stop.Load(); n++ {
		begun := time.Now()
		operate := w.write
		if n%readEvery == 0 {
			operate = w.read
		}
		if err := operate(); err != nil {
			return err
		}
		if w.run.measure.Load() {
			w.hist.RecordValue(min(int64(time.Since(begun)), maxLatency))
		}
		w.run.done.Add(1)
	}
	return nil
}

// write writes to the next place, and sends a message that builds on it. It is over
// when the server has seen both, and the fate has come.
func (w *socketWorker) write() error {
	size, n := w.run.c.work.Size, w.writes
	fillPlace(w.local.B[:size], w.index, n)
	var note [messageSize]byte
	putMessage(note[:], w.index, n)
	err := w.s.SendMessage(w.run.ctx, &rds.Outgoing{
		To: w.to, Data: note[:], Notify: true, Token: socketToken,
		RDMA: &rds.RDMA{Cookie: w.cookie, Offset: n % places * uint64(size), Local: [][]byte{w.local.B[:size]}, Write: true},
	})
	if err != nil {
		return err
	}
	w.writes++
	for fate, answer := false, false; !fate || !answer; {
		m, err := w.s.Recv(w.run.ctx)
		if err != nil {
			return err
		}
		if m.Kind == rds.KindStatus {
			fate, err = true, succeeded(&m)
		} else {
			answer, err = true, answered(m.Data, w.index, n)
		}
		m.Release()
		if err != nil {
			return err
		}
	}
	return nil
}

// read reads what was written last.
func (w *socketWorker) read() error {
	size, n := w.run.c.work.Size, w.writes-1
	b := w.local.B[size : 2*size]
	clear(b)
	err := w.s.SendMessage(w.run.ctx, &rds.Outgoing{
		To: w.to, Notify: true, Token: socketToken,
		RDMA: &rds.RDMA{Cookie: w.cookie, Offset: n % places * uint64(size), Local: [][]byte{b}, Silent: true},
	})
	if err != nil {
		return err
	}
	m, err := w.s.Recv(w.run.ctx)
	if err == nil {
		err = succeeded(&m)
		m.Release()
	}
	if err != nil {
		return err
	}
	return checkPlace(b, w.index, n)
}

func succeeded(m *rds.Message) error {
	if m.Kind != rds.KindStatus || m.Token != socketToken || m.Status != rds.StatusSuccess {
		return fmt.Errorf("the operation has ended with %v", m)
	}
	return nil
}

// answered checks the server's answer.
func answered(b []byte, index int, n uint64) error {
	worker, number, err := parseMessage(b)
	if err == nil && (worker != uint64(index) || number != n) {
		err = fmt.Errorf("answer %d to %d came where %d was due", number, worker, n)
	}
	return err
}

// provoke sends bad requests until end is closed, at least once: without the right, with a stale
// key, beyond the end of the region, which is to be read only, and messages that
// build on writes. Each of them has to be refused, or not to begin
// since others were.
func (w *socketWorker) provoke(end <-chan struct{}) error {
	size := w.run.c.work.Size
	local := [][]byte{w.local.B[:size]}
	stale, beyond := w.cookie^1, uint64((places-1)*size+1)
	note := make([]byte, messageSize)
	bad := []rds.Outgoing{
		{Data: note, RDMA: &rds.RDMA{Cookie: w.cookie, Local: local, Write: true}},
		{Data: note, RDMA: &rds.RDMA{Cookie: stale, Local: local, Write: true}},
		{RDMA: &rds.RDMA{Cookie: stale, Local: local, Silent: true}},
		{RDMA: &rds.RDMA{Cookie: w.cookie, Offset: beyond, Local: local, Silent: true}},
		{RDMA: &rds.RDMA{Cookie: stale, Local: local, Write: true, Silent: true}},
	}
	ended := make([]bool, len(bad)) // operations of a round that have ended, in whatever order
	for i := range bad {
		bad[i].To, bad[i].Notify, bad[i].Token = w.to, true, uint64(i)
	}
	for {
		if n, err := w.s.SendBatch(w.run.ctx, bad); err != nil {
			return fmt.Errorf("rogue, after %d: %w", n, err)
		}
		clear(ended)
		refused := uint64(0)
		for range bad {
			m, err := w.s.Recv(w.run.ctx)
			if err != nil {
				return fmt.Errorf("rogue: %w", err)
			}
			if m.Kind != rds.KindStatus || m.Token >= uint64(len(bad)) || ended[m.Token] || m.Status != rds.StatusRemoteError && m.Status != rds.StatusAgain {
				return fmt.Errorf("a bad request was not refused: %v", &m)
			}
			ended[m.Token] = true
			m.Release()
			if m.Status == rds.StatusRemoteError {
				refused++
			}
		}
		if w.run.refused.Add(refused); refused == 0 {
			time.Sleep(time.Millisecond) // the requests may be tried a little later
		}
		select {
		case <-end:
			return nil
		default:
		}
	}
}

// confirm completes the result when the workers have ended: the server has as many
// messages as were answered, and the connection is the one that was there before.
func (r *socketsRun) confirm(res *Result, reset uint64) error {
	res.hist = newHist()
	writes := uint64(0)
	for _, w := range r.workers {
		res.hist.Merge(w.hist)
		writes += w.writes
	}
	res.Latency = latencyOf(res.hist)
	now, err := r.resets()
	if err != nil {
		return err
	}
	res.Thirds.Errors, res.Thirds.Cut, res.TCPConns = r.errors.Load(), now-reset, r.c.rdsConns()
	if res.Thirds.Cut != 0 || res.TCPConns != 1 {
		return fmt.Errorf("%d connections were cut, %d are there", res.Thirds.Cut, res.TCPConns)
	}
	_, err = r.c.ask(request{Op: opConfirm, Count: writes})
	return err
}

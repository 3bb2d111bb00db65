package bench

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"time"

	"github.com/rds-go/rds/rds"
)

// cell is one run: a work over one transport.
type cell struct {
	work      *Work
	opts      *Options
	providers providers
	ip        netip.Addr       // our RDS address
	addrs     []netip.AddrPort // RDS addresses of the server's sockets
	keys      []uint64         // keys or cookies of the server's memory
	hello     *hello           // the hello that this side was told
	transport Transport
	control   *controller
	servers   children // who serves: the server, or applications
	runner    *Runner
	daemons   *daemons // nil if we have none

	soft context.Context         // ends when the user interrupts: stop measuring, keep the figures
	hard context.Context         // ends when the run is lost: sockets are closed
	lose context.CancelCauseFunc // ends hard
}

// meter takes the time and the CPU time of both sides.
type meter struct {
	start  time.Time
	cpu    time.Duration
	server snapshot
}

func (c *cell) begin() (meter, error) {
	snap, err := c.ask(request{Op: opSnap})
	return c.beginAt(snap), err
}

// beginAt begins with what the server has just told.
func (c *cell) beginAt(server snapshot) meter {
	cpu := c.cpu()
	return meter{start: time.Now(), cpu: cpu, server: server}
}

// cpu is the CPU time of our side so far: this process and its daemon.
func (c *cell) cpu() time.Duration { return cpuTime() + c.daemonCPU(clientSide) }

func (c *cell) daemonCPU(s side) time.Duration {
	if c.transport == TCP || c.transport == Node || c.transport == OverTCP { // the daemons have no part in it
		return 0
	}
	return c.daemons.cpu(s)
}

// ask has the server answer with a snapshot of its side.
func (c *cell) ask(q request) (sum snapshot, err error) {
	all, err := c.servers.call(func(int) request { return q })
	sum.CPU = c.daemonCPU(serverSide)
	for i := range all {
		sum.add(&all[i].Snap)
	}
	return sum, err
}

// end makes the result of what happened since begin: n messages, and bytes of
// payload for each.
func (c *cell) end(m meter, n uint64, bytesEach int) (Result, error) {
	elapsed := time.Since(m.start)
	cpu := c.cpu() - m.cpu
	server, err := c.ask(request{Op: opSnap})
	if err != nil {
		return Result{}, err
	}
	return m.result(elapsed, cpu, server, n, bytesEach), nil
}

func (m meter) result(elapsed, cpu time.Duration, server snapshot, n uint64, bytesEach int) Result {
	each := func(d time.Duration) float64 { return float64(d) / 1e3 / float64(max(n, 1)) }
	rate := float64(n) / elapsed.Seconds()
	return Result{
		Seconds: elapsed.Seconds(), Messages: n, Rate: rate, MBPerSecond: rate * float64(bytesEach) / 1e6,
		ClientCPU: each(cpu), ServerCPU: each(server.CPU - m.server.CPU),
	}
}

// run does the work once.
func (c *cell) run() (Result, error) {
	if c.work.Kind == Sessions {
		return c.lost(c.sessions())
	}
	c.servers = children{{controller: c.control}}
	if c.work.Kind == Mux && c.work.Processes > 0 {
		apps, end, err := c.applications(serverSide, c.work.Processes)
		if err != nil {
			return c.lost(Result{}, err)
		}
		defer end()
		c.servers = apps
	}
	opened, err := c.servers.call(func(int) request { return request{Op: opOpen, Work: c.work, Transport: c.transport} })
	if err != nil {
		return c.lost(Result{}, err)
	}
	c.addrs, c.keys = nil, opened[0].Keys
	for _, r := range opened {
		c.addrs = append(c.addrs, r.Addrs...)
	}
	var res Result
	switch c.work.shape() {
	case Fair:
		res, err = c.fair()
	case Attach:
		res, err = c.attach()
	case OneWay:
		res, err = c.oneWay()
	case Latency, Mux, Stress, Atomic, RDMA:
		res, err = c.crowd()
	case Chernobyl:
		res, err = c.chernobyl()
	default:
		err = fmt.Errorf("no work of kind %q", c.work.Kind)
	}
	var few errDescriptors
	if res, err = c.lost(res, err); err != nil && !errors.As(err, &few) {
		return res, err
	}
	_, e := c.ask(request{Op: opClose})
	return res, errors.Join(err, e)
}

// lost puts the reason of a lost run in the place of what came of it.
func (c *cell) lost(res Result, err error) (Result, error) {
	if c.hard.Err() != nil {
		return res, context.Cause(c.hard)
	}
	return res, err
}

// provider is where the sockets of this run come from.
func (c *cell) provider() rds.Provider {
	if p := c.providers[c.transport]; p != nil {
		return p
	}
	return c.providers[RDS] // Alone has the same provider as RDS
}

// dial makes a baseline connection that is closed when the run is lost. The
// function returned closes it.
func (c *cell) dial() (*stream, func(), error) {
	conn, err := c.opts.dial(c.hard, c.addrs[0])
	if err != nil {
		return nil, nil, err
	}
	stop := context.AfterFunc(c.hard, func() { conn.Close() })
	return newStream(conn, bufferFor(c.work)), func() { stop(); conn.Close() }, nil
}

// bind makes an RDS socket that is closed when the run is lost. The function
// returned closes it.
func (c *cell) bind() (*rds.Socket, func(), error) {
	s, err := c.provider().Bind(netip.AddrPortFrom(c.ip, 0))
	if err != nil {
		return nil, nil, err
	}
	stop := context.AfterFunc(c.hard, func() { s.Close() })
	return s, func() { stop(); s.Close() }, nil
}

// rdsConns counts the TCP connections under RDS.
func (c *cell) rdsConns() int { return connsOf(c.provider()) }

func connsOf(p rds.Provider) int {
	info, err := p.Info()
	if err != nil {
		return 0
	}
	n := 0
	for i := range info.Connections {
		if p := &info.Connections[i]; p.Connected {
			n += max(p.Paths, 1)
		}
	}
	return n
}

// sleep waits for d or an interruption.
func (c *cell) sleep(d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-c.soft.Done():
	case <-c.hard.Done():
	}
}

func (c *cell) interrupted() bool { return c.soft.Err() != nil || c.hard.Err() != nil }

// ends closes what a run has opened.
type ends struct {
	all  []func()
	once sync.Once
}

func (e *ends) add(end func()) { e.all = append(e.all, end) }

// close calls all at the same time, since an RDS socket with unacknowledged
// messages lingers. It may be called more than once.
func (e *ends) close() {
	e.once.Do(func() {
		var wg sync.WaitGroup
		for _, end := range e.all {
			wg.Go(end)
		}
		wg.Wait()
	})
}

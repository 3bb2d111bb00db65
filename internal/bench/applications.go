package bench

import (
	"context"
	"net/netip"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// applications starts n processes on a side that attach to its daemon, if there is
// one. They have as many processors as a user's program has, but over OneProcessor. The
// function returned ends them.
func (c *cell) applications(s side, n int) (children, func(), error) {
	var (
		apps  children
		flags []string
	)
	if c.transport == OneProcessor {
		flags = []string{"--procs", "1"}
	}
	end := func() { apps.end() }
	for i := range n {
		ip := c.runner.ip(s)
		if c.daemons == nil {
			ip = appHost(i)
		}
		a, err := c.runner.startOn("application", s, ip, flags...)
		if err != nil {
			end()
			return nil, nil, err
		}
		a.watch(c.lose)
		context.AfterFunc(c.hard, a.kill)
		apps = append(apps, a)
	}
	_, err := apps.call(func(int) request {
		return request{Op: opHello, Hello: c.appHello(s)}
	})
	if err != nil {
		end()
		return nil, nil, err
	}
	return apps, end, nil
}

// processes is mux with many processes on each side, each attached to its
// side's one daemon.
func (c *cell) processes() (Result, error) {
	w := c.work
	receivers, end, err := c.applications(serverSide, w.Processes)
	if err != nil {
		return Result{}, err
	}
	defer end()
	senders, end, err := c.applications(clientSide, w.Processes)
	if err != nil {
		return Result{}, err
	}
	defer end()
	opened, err := receivers.call(func(int) request { return request{Op: opOpen, Work: w, Transport: RDS} })
	if err != nil {
		return Result{}, err
	}
	if w.Stopped > 0 {
		if senders, receivers, err = c.stopProcesses(senders, receivers, opened); err != nil {
			return Result{}, err
		}
	}
	var addrs []netip.AddrPort
	for _, r := range opened {
		addrs = append(addrs, r.Addrs...)
	}
	if _, err := senders.call(func(i int) request {
		if w.Stopped > 0 { // pairs
			return request{Op: opSend, Work: w, Addrs: opened[i].Addrs}
		}
		return request{Op: opSend, Work: w, Addrs: addrs, First: i * w.Sockets}
	}); err != nil {
		return Result{}, err
	}
	c.sleep(c.opts.Warmup)
	before, err := c.snaps(receivers, senders, opMeasure)
	if err != nil {
		return Result{}, err
	}
	c.sleep(c.opts.Duration)
	conns := c.rdsConns()
	after, err := c.snaps(receivers, senders, opStop)
	if err != nil {
		return Result{}, err
	}
	return after.since(before, c.meanBytes(), conns), nil
}

// stopProcesses stops the last of the receivers and has their senders flood them,
// but over Active, where they are left alone. It returns the others.
func (c *cell) stopProcesses(senders, receivers children, opened []response) (_, _ children, err error) {
	n := len(receivers) - c.work.Stopped
	if c.transport == Active {
		return senders[:n], receivers[:n], nil
	}
	for _, r := range receivers[n:] {
		if err := r.suspend(); err != nil {
			return nil, nil, err
		}
	}
	flood := &Work{Kind: OneWay, Size: floodSize, Batch: 1, ZeroCopy: true}
	_, err = senders[n:].call(func(i int) request { return request{Op: opSend, Work: flood, Addrs: opened[n+i].Addrs} })
	return senders[:n], receivers[:n], err
}

// crowd is what the processes of both sides have done so far.
type crowd struct {
	client, server snapshot
	sent           []*sent
}

// snaps has everybody tell, the senders with the operation that begins or ends
// their figures.
func (c *cell) snaps(receivers, senders children, op string) (crowd, error) {
	told, err := senders.call(func(int) request { return request{Op: op} })
	if err != nil {
		return crowd{}, err
	}
	heard, err := receivers.call(func(int) request { return request{Op: opSnap} })
	if err != nil {
		return crowd{}, err
	}
	out := crowd{client: snapshot{CPU: c.daemonCPU(clientSide)}, server: snapshot{CPU: c.daemonCPU(serverSide)}}
	for i := range told {
		out.client.CPU += told[i].Snap.CPU
		out.server.CPU += heard[i].Snap.CPU
		out.sent = append(out.sent, told[i].Sent)
	}
	return out, nil
}

// since makes the result of what happened between two looks. Each sender has
// its own time, for they begin and stop one after the other.
func (a crowd) since(b crowd, bytesEach, conns int) Result {
	h := newHist()
	var res Result
	for _, s := range a.sent {
		res.Messages += s.Count
		res.Seconds = max(res.Seconds, s.Seconds)
		res.Rate += float64(s.Count) / s.Seconds
		h.Merge(hdrhistogram.Import(s.Hist))
	}
	each := 1e3 * float64(max(res.Messages, 1))
	res.ClientCPU, res.ServerCPU = float64(a.client.CPU-b.client.CPU)/each, float64(a.server.CPU-b.server.CPU)/each
	res.MBPerSecond = res.Rate * float64(bytesEach) / 1e6
	res.hist, res.Latency, res.TCPConns = h, latencyOf(h), conns
	return res
}

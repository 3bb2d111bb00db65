package bench

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	"github.com/rds-go/rds/rds"
)

// crew is those who send in a work that counts on both sides: this process, or
// several that it has started.
type crew struct {
	local *sender
	apps  children
}

// crew starts it. Its sockets or connections are those of c's transport.
func (c *cell) crew() (*crew, func(), error) {
	if c.work.Processes == 0 {
		s, err := startSender(c, 0, c.lose)
		if err != nil {
			return nil, nil, err
		}
		return &crew{local: s}, s.open.close, nil
	}
	apps, end, err := c.applications(clientSide, c.work.Processes)
	if err != nil {
		return nil, nil, err
	}
	_, err = apps.call(func(i int) request {
		return request{Op: opSend, Work: c.work, Transport: c.transport, Addrs: c.addrs, Cookie: uint64(c.cookie), First: i * max(c.work.Workers, c.work.Sockets)}
	})
	if err != nil {
		end()
		return nil, nil, err
	}
	return &crew{apps: apps}, end, nil
}

// measure has the figures count from now, and returns the CPU time so far.
func (k *crew) measure(c *cell) (snapshot, error) {
	if k.local != nil {
		k.local.measure()
		return snapshot{CPU: c.cpu()}, nil
	}
	return k.ask(c, opMeasure, nil)
}

// stop ends the crew and returns what each has to tell.
func (k *crew) stop(c *cell) (snapshot, []*sent, error) {
	if k.local != nil {
		cpu := c.cpu()
		s, err := k.local.stop()
		return snapshot{CPU: cpu}, []*sent{s}, err
	}
	var all []*sent
	snap, err := k.ask(c, opStop, func(r response) { all = append(all, r.Sent) })
	return snap, all, err
}

func (k *crew) ask(c *cell, op string, each func(response)) (snapshot, error) {
	told, err := k.apps.call(func(int) request { return request{Op: op} })
	snap := snapshot{CPU: c.daemonCPU(clientSide)}
	for _, r := range told {
		snap.CPU += r.Snap.CPU
		if each != nil {
			each(r)
		}
	}
	return snap, err
}

// result adds up what all have told.
func (k *crew) result(all []*sent, client, server time.Duration) (res Result) {
	for _, s := range all {
		res.Messages += s.Count
		res.Seconds = max(res.Seconds, s.Seconds)
		res.Rate += float64(s.Count) / s.Seconds
	}
	each := 1e3 * float64(max(res.Messages, 1))
	res.ClientCPU, res.ServerCPU = float64(client)/each, float64(server)/each
	return res
}

// atomic has the crew change words and compares their sum with what all say that
// they have changed.
func (c *cell) atomic() (Result, error) {
	k, end, err := c.crew()
	if err != nil {
		return Result{}, err
	}
	defer end()
	c.sleep(c.opts.Warmup)
	m, err := c.begin()
	if err != nil {
		return Result{}, err
	}
	before, err := k.measure(c)
	if err != nil {
		return Result{}, err
	}
	c.sleep(c.opts.Duration)
	after, all, err := k.stop(c)
	if err != nil {
		return Result{}, err
	}
	server, err := c.ask(request{Op: opSnap})
	if err != nil {
		return Result{}, err
	}
	var total uint64
	for _, s := range all {
		total += s.Total
	}
	if server.Sum != total {
		return Result{}, fmt.Errorf("the words add up to %d, and %d changes were made", server.Sum, total)
	}
	res := k.result(all, after.CPU-before.CPU, server.CPU-m.server.CPU)
	res.MBPerSecond = res.Rate * wordSize / 1e6
	res.Total = total
	res.TCPConns = c.work.Workers * max(c.work.Processes, 1)
	if !c.work.Verbs {
		res.TCPConns = max(c.work.Processes, 1)
		if c.daemons != nil {
			res.TCPConns = c.rdsConns()
		}
	}
	return res, nil
}

// appHost is the address of the i-th further application that is a node by itself.
func appHost(i int) netip.Addr { return netip.AddrFrom4([4]byte{127, 0, 3, byte(i + 1)}) }

// appHello is what an application is told. One without a daemon is a node on an
// address of its own.
func (c *cell) appHello(s side) *hello {
	h := *c.hello
	if c.daemons != nil {
		h = hello{Version: controlVersion, Provider: rds.ProviderDaemon, Socket: c.daemons.socket(s)}
	}
	return &h
}

// startAtomics starts the workers of one process.
func (s *sender) startAtomics(first int, fail func(error)) error {
	c := s.run.c
	for i := range c.work.Workers {
		var (
			a   atomics
			end func()
			err error
		)
		if c.work.Verbs {
			a, end, err = c.newVerbsAtomics()
		} else {
			a, end, err = c.newSocketAtomics()
		}
		if err != nil {
			return err
		}
		s.open.add(end)
		s.workers = append(s.workers, newAtomicWorker(s.run, a, first+i))
	}
	for _, k := range s.workers {
		s.run.wg.Go(func() {
			if err := k.work(); err != nil && context.Cause(c.hard) == nil {
				fail(err)
			}
		})
	}
	return nil
}

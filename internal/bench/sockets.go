package bench

import (
	"errors"
	"io"
	"net/netip"
	"os"
	"runtime"
	"runtime/debug"
	"time"

	"github.com/rds-go/rds/rds"
)

// bindSockets measures what binding many sockets takes: time, live heap with
// stacks, and physical memory. It needs no server.
func (r *Runner) bindSockets(n int) (Result, error) {
	ip := r.ip(clientSide)
	port, err := freePort(r.Options.Port, ip)
	if err != nil {
		return Result{}, err
	}
	p, err := openProvider(r.Config, ip, r.Options.Provider, port, &hello{Paths: r.Options.Paths})
	if err != nil {
		return Result{}, err
	}
	defer p.Close()
	bind := func() (io.Closer, error) { return p.Bind(netip.AddrPortFrom(ip, 0)) }
	first, err := bind() // binds one socket first: what that sets up is not a socket's cost
	if err != nil {
		return Result{}, err
	}
	defer first.Close()
	return measureEach(n, bind, cpuTime, func() (heap, resident int64, err error) {
		heap, resident = memoryInUse()
		return heap, resident, nil
	})
}

// sessions measures what attached applications take: time, and memory of the
// daemon, shared memory included.
func (c *cell) sessions() (Result, error) {
	attach := func() (io.Closer, error) { return rds.Dial(c.daemons.socket(clientSide)) }
	return measureEach(c.work.Sockets, attach, c.cpu, func() (heap, resident int64, err error) {
		told, err := c.daemons.side[clientSide].call(request{Op: opMemory})
		return told.Snap.Heap, told.Snap.Resident, err
	})
}

// measureEach opens n, and measures what each of them takes.
func measureEach(n int, open func() (io.Closer, error), cpu func() time.Duration, memory func() (heap, resident int64, err error)) (res Result, err error) {
	all := make([]io.Closer, n)
	defer func() {
		for _, c := range all {
			if c != nil {
				err = errors.Join(err, c.Close())
			}
		}
	}()
	heap, resident, err := memory()
	if err != nil {
		return res, err
	}
	used, start := cpu(), time.Now()
	for i := range all {
		c, err := open()
		if err != nil {
			return res, err
		}
		all[i] = c
	}
	elapsed := time.Since(start)
	res = meter{}.result(elapsed, cpu()-used, snapshot{}, uint64(n), 0)
	heapAfter, residentAfter, err := memory()
	each := func(before, after int64) float64 { return float64(max(after-before, 0)) / float64(n) }
	res.Memory = &Memory{HeapEach: each(heap, heapAfter), ResidentEach: each(resident, residentAfter), BindMillis: elapsed.Seconds() * 1e3}
	return res, err
}

// memoryInUse collects garbage and returns the bytes in live objects and
// stacks, and the physical memory of the process.
func memoryInUse() (heap, resident int64) {
	debug.FreeOSMemory() // returns memory that an earlier run has freed, which would hide what this run takes
	debug.FreeOSMemory() // returns memory that pools let go in the first call
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	resident, _ = physicalMemory(os.Getpid())
	return int64(m.HeapAlloc + m.StackInuse), resident
}

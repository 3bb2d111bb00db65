package bench

import (
	"errors"
	"net/netip"
	"os"
	"runtime"
	"runtime/debug"
	"time"

	"github.com/rds-go/rds/rds"
)

// bindSockets measures what binding many sockets takes: time, live heap with
// stacks, and physical memory. It needs no server.
func bindSockets(p rds.Provider, ip netip.Addr, n int) (Result, error) {
	first, err := p.Bind(netip.AddrPortFrom(ip, 0)) // binds one socket first: what that sets up is not a socket's cost
	if err != nil {
		return Result{}, err
	}
	defer first.Close()
	socks := make([]*rds.Socket, n)
	heap, resident := memoryInUse()
	cpu, start := cpuTime(), time.Now()
	for i := range socks {
		if socks[i], err = p.Bind(netip.AddrPortFrom(ip, 0)); err != nil {
			break
		}
	}
	elapsed := time.Since(start)
	cpu = cpuTime() - cpu
	heapAfter, residentAfter := memoryInUse()
	var errs []error
	for _, s := range socks {
		if s != nil {
			errs = append(errs, s.Close())
		}
	}
	if err := errors.Join(append(errs, err)...); err != nil {
		return Result{}, err
	}
	each := func(before, after int64) float64 { return float64(max(after-before, 0)) / float64(n) }
	return Result{
		Seconds: elapsed.Seconds(), Messages: uint64(n), Rate: float64(n) / elapsed.Seconds(),
		ClientCPU: float64(cpu) / 1e3 / float64(n),
		Memory: &Memory{
			HeapEach: each(heap, heapAfter), ResidentEach: each(resident, residentAfter),
			BindMillis: elapsed.Seconds() * 1e3,
		},
	}, nil
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

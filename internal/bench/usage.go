package bench

import (
	"syscall"
	"time"
)

// cpuTime is the CPU time of this process so far, user and system.
func cpuTime() time.Duration {
	var r syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &r) != nil {
		return 0
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

// descriptorLimit is how many descriptors this process may have open. Go has
// raised the soft limit to the hard one at start.
func descriptorLimit() int {
	var l syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l) != nil {
		return 1024
	}
	return int(min(uint64(l.Cur), 1<<30))
}

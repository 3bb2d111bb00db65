package ebpf

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// call is a system call in which threads sleep, or by which they wake others.
type call struct {
	name       string
	number     int32
	descriptor bool // the first argument is a descriptor that tells what the thread is there for
}

// calls are those that all architectures have. Those of the older ones are in
// callsOfArchitecture.
var calls = []call{
	{"epoll_pwait", unix.SYS_EPOLL_PWAIT, true},
	{"read", unix.SYS_READ, true},
	{"write", unix.SYS_WRITE, true},
	{"readv", unix.SYS_READV, true},
	{"writev", unix.SYS_WRITEV, true},
	{"recvmsg", unix.SYS_RECVMSG, false},
	{"sendmsg", unix.SYS_SENDMSG, false},
	{"recvfrom", unix.SYS_RECVFROM, false},
	{"sendto", unix.SYS_SENDTO, false},
	{"sendmmsg", unix.SYS_SENDMMSG, false},
	{"recvmmsg", unix.SYS_RECVMMSG, false},
	{"futex", unix.SYS_FUTEX, false},
	{"nanosleep", unix.SYS_NANOSLEEP, false},
	{"clock_nanosleep", unix.SYS_CLOCK_NANOSLEEP, false},
	{"ppoll", unix.SYS_PPOLL, false},
	{"pselect6", unix.SYS_PSELECT6, false},
	{"epoll_ctl", unix.SYS_EPOLL_CTL, false},
	{"close", unix.SYS_CLOSE, false},
	{"tgkill", unix.SYS_TGKILL, false},
	{"kill", unix.SYS_KILL, false},
	{"wait4", unix.SYS_WAIT4, false},
	{"waitid", unix.SYS_WAITID, false},
	{"rt_sigtimedwait", unix.SYS_RT_SIGTIMEDWAIT, false},
	{"sched_yield", unix.SYS_SCHED_YIELD, false},
	{"clone", unix.SYS_CLONE, false},
	{"clone3", unix.SYS_CLONE3, false},
	{"exit", unix.SYS_EXIT, false},
	{"exit_group", unix.SYS_EXIT_GROUP, false},
	{"madvise", unix.SYS_MADVISE, false},
	{"munmap", unix.SYS_MUNMAP, false},
	{"mprotect", unix.SYS_MPROTECT, false},
	{"fsync", unix.SYS_FSYNC, false},
	{"flock", unix.SYS_FLOCK, false},
	{"io_uring_enter", unix.SYS_IO_URING_ENTER, false},
	{"restart_syscall", unix.SYS_RESTART_SYSCALL, false},
}

var callNames = func() map[int32]string {
	m := make(map[int32]string)
	for _, c := range append(calls, callsOfArchitecture...) {
		m[c.number] = c.name
	}
	return m
}()

// callName is the name of a system call; "" for none (-1).
func callName(n int32) string {
	name, ok := callNames[n]
	switch {
	case n < 0:
		return ""
	case !ok:
		return fmt.Sprintf("system call %d", n)
	}
	return name
}

// callsOfDescriptors is fd_calls of wakeups.bpf.c.
func callsOfDescriptors() (list [8]int32) {
	n := 0
	for _, c := range append(calls, callsOfArchitecture...) {
		if c.descriptor {
			list[n] = c.number
			n++
		}
	}
	for ; n < len(list); n++ {
		list[n] = -1
	}
	return list
}

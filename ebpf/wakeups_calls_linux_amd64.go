package ebpf

import "golang.org/x/sys/unix"

var callsOfArchitecture = []call{
	{"epoll_wait", unix.SYS_EPOLL_WAIT, true},
	{"poll", unix.SYS_POLL, false},
	{"select", unix.SYS_SELECT, false},
	{"pause", unix.SYS_PAUSE, false},
}

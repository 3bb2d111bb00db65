package main

import (
	"bufio"
	"bytes"
	"fmt"
	"math/bits"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

// hist is a log-linear latency histogram in nanoseconds: 128 buckets for each
// power of two, so a percentile is within 0.8 % of the sample.
type hist struct {
	b      [40 * 128]atomic.Uint32
	n, sum atomic.Int64
}

func (h *hist) add(d time.Duration) {
	v := uint64(max(d, 0))
	i := int(v)
	if v >= 256 {
		s := bits.Len64(v) - 8
		i = s*128 + int(v>>s)
	}
	h.b[min(i, len(h.b)-1)].Add(1)
	h.n.Add(1)
	h.sum.Add(int64(d))
}

func (h *hist) reset() {
	for i := range h.b {
		h.b[i].Store(0)
	}
	h.n.Store(0)
	h.sum.Store(0)
}

// us is the q-quantile in microseconds.
func (h *hist) us(q float64) float64 {
	want, seen := int64(q*float64(h.n.Load())), int64(0)
	for i := range h.b {
		if seen += int64(h.b[i].Load()); seen > want {
			if i < 256 {
				return float64(i) / 1e3
			}
			s := i/128 - 1
			return float64(uint64(i-s*128)<<s) / 1e3
		}
	}
	return 0
}

func (h *hist) mean() float64 { return float64(h.sum.Load()) / float64(max(h.n.Load(), 1)) / 1e3 }

// ownCPU is the CPU time of this process in seconds, user and system.
func ownCPU() float64 {
	var r syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &r)
	return float64(r.Utime.Nano()+r.Stime.Nano()) / 1e9
}

// cpuSec is that and the broker's, if there is one (in clock ticks of 10 ms).
func (e *env) cpuSec() float64 {
	sec := ownCPU()
	if e.broker != 0 {
		b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", e.broker))
		if f := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:])); len(f) > 12 {
			u, _ := strconv.ParseFloat(f[11], 64)
			s, _ := strconv.ParseFloat(f[12], 64)
			sec += (u + s) / 100
		}
	}
	return sec
}

func rssKB(pid string) int64 {
	b, _ := os.ReadFile("/proc/" + pid + "/statm")
	f := strings.Fields(string(b))
	if len(f) < 2 {
		return 0
	}
	n, _ := strconv.ParseInt(f[1], 10, 64)
	return n * int64(os.Getpagesize()) / 1024
}

func (e *env) brokerKB() int64 {
	if e.broker == 0 {
		return 0
	}
	return rssKB(strconv.Itoa(e.broker))
}

// tcpConns counts the established TCP connections of this process.
func tcpConns() (n int) {
	mine := map[string]bool{} // inodes of its sockets
	fds, _ := os.ReadDir("/proc/self/fd")
	for _, e := range fds {
		l, _ := os.Readlink("/proc/self/fd/" + e.Name())
		if s, ok := strings.CutPrefix(l, "socket:["); ok {
			mine[strings.TrimSuffix(s, "]")] = true
		}
	}
	f, err := os.Open("/proc/net/tcp")
	if err != nil {
		return 0
	}
	defer f.Close()
	for r := bufio.NewScanner(f); r.Scan(); {
		if f := bytes.Fields(r.Bytes()); len(f) > 9 && string(f[3]) == "01" && mine[string(f[9])] {
			n++
		}
	}
	return n
}

// slabKB is the kernel's slab memory, all of the machine's.
func slabKB() int64 {
	b, _ := os.ReadFile("/proc/meminfo")
	for _, l := range strings.Split(string(b), "\n") {
		if f := strings.Fields(l); len(f) > 1 && f[0] == "Slab:" {
			n, _ := strconv.ParseInt(f[1], 10, 64)
			return n
		}
	}
	return 0
}

//go:build interop

package interop

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rds-go/rds/rds"
	"github.com/rds-go/rds/test/interop/peer"
)

// testQuestions counts, on the bridge, what a guest gets on the port of XRC, which it does
// not listen on, while messages go both ways on TCP: the first contact, and then questions,
// each a SYN that is refused, at intervals that double. The connection on TCP lives on.
func testQuestions(t *testing.T, l *lab, guest *process, intervals []time.Duration) {
	total := 2 * time.Second
	for _, d := range intervals {
		total += d
	}
	ctx, cancel := context.WithTimeout(t.Context(), total+runTime)
	defer cancel()
	addr := netip.MustParseAddr("10.77.15.1") // smaller than the guest's: it dials, and asks
	l.addAddr(t, addr)
	segments := l.capture(t, addr, rds.DefaultXRCPort)
	node := l.startApplication(t, addr, 1)
	defer func() { node.show(t); guest.show(t) }()
	f := flow{from: node.bind(t, bufferSize, bufferSize), to: guest.bind(t, bufferSize, bufferSize), rate: 200}
	warm(t, f)
	conns := node.connections(t, ctx, guest)
	met := time.Now()
	contact := segments()
	f.stream = peer.Stream{Seed: 11, Count: f.rate * int(total/time.Second)}
	var all []running
	for _, f := range bothWays([]flow{f}) {
		r, err := f.start()
		must(t, err)
		all = append(all, r)
	}
	for _, r := range all {
		if _, err := r.wait(ctx); err != nil {
			t.Fatal(err)
		}
	}
	must(t, f.quiet(ctx))
	node.kept(t, ctx, guest, conns)
	questions := segments()[len(contact):]
	t.Logf("%d messages each way; in contact after %d segments", f.stream.Count, len(contact))
	for _, s := range questions {
		t.Logf("%s after %v", s.kind, s.at.Sub(met).Round(time.Millisecond))
	}
	if len(contact) > 4 || len(questions) != 2*len(intervals) {
		t.Fatalf("want at most 2 refused SYNs at first, then %d", len(intervals))
	}
	for i, s := range append(contact, questions...) {
		if want := []string{"SYN", "RST"}[i%2]; s.kind != want {
			t.Errorf("segment %d: %v, want %s", i, s, want)
		}
	}
	last := met
	for i, d := range intervals {
		at := questions[2*i].at
		if wait := at.Sub(last); wait < d*3/4 || wait > d+2*time.Second {
			t.Errorf("question %d comes after %v, want %v or an eighth less", i, wait, d)
		}
		last = at
	}
}

// segment is one that capture has seen.
type segment struct {
	at   time.Time
	kind string // SYN from us, RST from the peer, or what it was else
}

// capture notes, until the test ends, the segments between an address of ours and a port
// on others, and returns what returns those seen so far.
func (l *lab) capture(t *testing.T, addr netip.Addr, port uint16) func() []segment {
	t.Helper()
	f, err := l.packets(port)
	must(t, err)
	var mu sync.Mutex
	var list []segment
	done := make(chan struct{})
	go func() {
		defer close(done)
		b := make([]byte, 64<<10)
		for {
			n, err := f.Read(b)
			if err != nil {
				return
			}
			s := segment{time.Now(), "not TCP on IPv4"}
			if p := b[:n]; n >= 40 && p[0] == 0x45 {
				src, dst := netip.AddrFrom4([4]byte(p[12:])), netip.AddrFrom4([4]byte(p[16:]))
				if src != addr && dst != addr {
					continue
				}
				switch flags := p[33]; {
				case src == addr && flags&0x3f == 0x02:
					s.kind = "SYN"
				case dst == addr && flags&0x04 != 0:
					s.kind = "RST"
				default:
					s.kind = fmt.Sprintf("%v to %v, flags %#x", src, dst, flags)
				}
			}
			mu.Lock()
			list = append(list, s)
			mu.Unlock()
		}
	}()
	t.Cleanup(func() { _ = f.Close(); <-done })
	return func() []segment {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(list)
	}
}

// packets opens a packet socket on the bridge that gets TCP segments from and to a port.
func (l *lab) packets(port uint16) (*os.File, error) {
	// The thread has to come back: with it would end the processes that it has started.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	home, err1 := os.Open("/proc/thread-self/ns/net")
	there, err2 := os.Open("/run/netns/" + l.netns)
	if err := errors.Join(err1, err2); err != nil {
		return nil, err
	}
	defer func() { _, _ = home.Close(), there.Close() }()
	if err := unix.Setns(int(there.Fd()), unix.CLONE_NEWNET); err != nil {
		return nil, os.NewSyscallError("setns", err)
	}
	defer func() {
		if err := unix.Setns(int(home.Fd()), unix.CLONE_NEWNET); err != nil {
			panic(err)
		}
	}()
	bridge, err := net.InterfaceByName("br0")
	if err != nil {
		return nil, err
	}
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, os.NewSyscallError("socket", err)
	}
	// Protocol 6 in an IPv4 header, and the port at either end behind it.
	filter := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_B | unix.BPF_ABS, K: 9},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: unix.IPPROTO_TCP, Jf: 5},
		{Code: unix.BPF_LDX | unix.BPF_B | unix.BPF_MSH, K: 0},
		{Code: unix.BPF_LD | unix.BPF_H | unix.BPF_IND, K: 0},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: uint32(port), Jt: 3},
		{Code: unix.BPF_LD | unix.BPF_H | unix.BPF_IND, K: 2},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: uint32(port), Jt: 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: 0},
		{Code: unix.BPF_RET | unix.BPF_K, K: 1 << 16},
	}
	all := binary.NativeEndian.Uint16(binary.BigEndian.AppendUint16(nil, unix.ETH_P_ALL)) // what we send, too
	err = errors.Join(
		unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}),
		unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: all, Ifindex: bridge.Index}))
	if err != nil {
		_ = unix.Close(fd)
		return nil, err
	}
	return os.NewFile(uintptr(fd), "packets"), nil
}

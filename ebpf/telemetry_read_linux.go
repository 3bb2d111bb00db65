package ebpf

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// Snapshot lists the connections that are up, opening or closing, of all network namespaces
// that this process finds and may enter: those of processes and those named in /run/netns.
// Entering takes CAP_SYS_ADMIN; without it, the namespace of the calling thread is all. Each
// namespace costs the kernel one walk through its table of connections.
func (t *Telemetry) Snapshot() ([]Connection, error) {
	var all []Connection
	err := eachNetns(func() error {
		some, err := t.SnapshotLocal()
		all = append(all, some...)
		return err
	})
	return all, err
}

// SnapshotLocal lists the connections of the network namespace of the calling thread.
func (t *Telemetry) SnapshotLocal() ([]Connection, error) {
	var connections []Connection
	f, err := t.connections()
	if err != nil {
		return nil, telemetryConnections.err(err)
	}
	defer f.Close()
	buf := make([]byte, 64<<10) // more than the kernel gives at a time
	have := 0
	for {
		n, err := f.Read(buf[have:])
		have += n
		list := buf[:have]
		for ; len(list) >= recordSize; list = list[recordSize:] {
			connections = append(connections, parseConnection(list[:recordSize]))
		}
		have = copy(buf, list)
		switch {
		case err == io.EOF:
			return connections, nil
		case err != nil:
			return nil, telemetryConnections.err(err)
		}
	}
}

// Drops counts the packets of connections with our ports that the kernel has dropped since
// telemetry was loaded, of all network namespaces, by reason, the most frequent first. Packets
// that were to open a connection count; those of other connections do not. It is an error of the
// kind of constructors' if drops are not counted.
func (t *Telemetry) Drops() ([]Drop, error) {
	if t.drops == nil {
		for _, f := range t.features {
			if f.Name == telemetryDrops.name && f.Err != nil {
				return nil, f.Err
			}
		}
		return nil, telemetryDrops.err(ErrNotSupported)
	}
	var drops []Drop
	var code uint32
	value := make([]byte, t.drops.ValueSize())
	for code = range t.drops.MaxEntries() {
		if err := t.drops.Lookup(code, value); err != nil {
			return nil, telemetryDrops.err(err)
		}
		n := binary.NativeEndian.Uint64(value)
		if n == 0 {
			continue
		}
		name, _, _ := bytes.Cut(value[8:], []byte{0})
		d := Drop{Reason: string(name), Packets: n}
		if d.Reason == "" {
			d.Reason = fmt.Sprintf("REASON_%d", code)
		}
		drops = append(drops, d)
	}
	slices.SortStableFunc(drops, func(a, b Drop) int { return cmp.Compare(b.Packets, a.Packets) })
	return drops, nil
}

// headSize is the size of struct connection of telemetry.bpf.c, recordSize that of it and of
// the two histograms that follow it.
const (
	headSize   = 112
	recordSize = headSize + 2*histogramSize
)

// tcpStates are the states of TCP of the kernel, from 1 on.
var tcpStates = [...]string{"", "established", "syn-sent", "syn-received", "fin-wait-1", "fin-wait-2", "time-wait",
	"closed", "close-wait", "last-ack", "listen", "closing", "syn-received"}

func parseConnection(b []byte) Connection {
	u16, u32, u64 := binary.NativeEndian.Uint16, binary.NativeEndian.Uint32, binary.NativeEndian.Uint64
	address := func(at int) netip.Addr { return netip.AddrFrom16([16]byte(b[at : at+16])).Unmap() }
	us := func(at int) time.Duration { return time.Duration(u32(b[at:])) * time.Microsecond }
	c := Connection{
		Local: netip.AddrPortFrom(address(0), u16(b[32:])), Remote: netip.AddrPortFrom(address(16), u16(b[34:])),
		Timed: b[37] != 0, UID: u32(b[40:]), Netns: u32(b[44:]), Inode: u64(b[48:]),
		Cookie: u64(b[56:]), Acked: u64(b[64:]), Received: u64(b[72:]),
		RTT: us(80) / 8, MinRTT: us(84), Cwnd: u32(b[88:]), Retransmits: u32(b[92:]),
		ReceiveQueue: u32(b[96:]), Unacked: u32(b[100:]), Unsent: u32(b[104:]),
		RTTs: parseHistogram(b[headSize:]), Waits: parseHistogram(b[headSize+histogramSize:]),
	}
	if state := int(b[36]); state < len(tcpStates) {
		c.State = tcpStates[state]
	}
	switch c.State {
	case "close-wait", "last-ack", "closing":
		// The FIN of the other end counts as an octet.
		if c.ReceiveQueue > 0 {
			c.ReceiveQueue--
		}
	}
	return c
}

// readIter reads all that an iterator writes.
func readIter(open func() (io.ReadCloser, error)) ([]byte, error) {
	f, err := open()
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(f)
}

// eachNetns calls f in each network namespace that this process finds and may enter, beginning
// with that of the calling thread, until f fails.
func eachNetns(f func() error) error {
	others := otherNetns()
	if err := f(); err != nil || len(others) == 0 {
		return err
	}
	return onMovingThread(func() error { return inEach(others, f) })
}

// inEach moves the calling thread from one network namespace to the next and calls f in each.
func inEach(paths []string, f func() error) error {
	for _, path := range paths {
		if enterNetns(path) != nil {
			continue // gone with its process, not permitted, or being made or removed
		}
		if err := f(); err != nil {
			return err
		}
	}
	return nil
}

// otherNetns finds network namespaces that are not the calling thread's.
func otherNetns() (paths []string) {
	type inode struct{ dev, ino uint64 }
	seen := make(map[inode]bool)
	isNew := func(path string) bool {
		var st unix.Stat_t
		if unix.Stat(path, &st) != nil || seen[inode{uint64(st.Dev), st.Ino}] {
			return false
		}
		seen[inode{uint64(st.Dev), st.Ino}] = true
		return true
	}
	isNew(fmt.Sprintf("/proc/self/task/%d/ns/net", unix.Gettid()))
	for _, place := range []struct{ dir, file string }{{"/run/netns", ""}, {"/proc", "ns/net"}} {
		for _, name := range names(place.dir) {
			if place.dir == "/proc" && (name[0] < '1' || name[0] > '9') {
				continue // no process
			}
			if path := filepath.Join(place.dir, name, place.file); isNew(path) {
				paths = append(paths, path)
			}
		}
	}
	return paths
}

// names are those in a directory; none if it cannot be read.
func names(dir string) []string {
	f, err := os.Open(dir)
	if err != nil {
		return nil
	}
	defer f.Close()
	all, _ := f.Readdirnames(-1)
	return all
}

//go:build !live

package report

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"github.com/rds-go/rds/conn"
	"github.com/rds-go/rds/internal/rdstest"
	"github.com/rds-go/rds/rds"
	"github.com/rds-go/rds/transport"
	"github.com/rds-go/rds/xrc/objects"
)

var update = flag.Bool("update", false, "rewrite testdata")

func at(s string) netip.AddrPort { return netip.MustParseAddrPort(s) }

// busy has something in every report.
func busy() *rds.Info {
	return &rds.Info{
		Provider: "node", Time: time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC),
		Counters: []transport.Counter{{Name: "conn_reset", Value: 2}, {Name: "recv_bytes_freed_fromsock", Value: 1<<64 - 1}, {Name: "a_name_longer_than_the_column", Value: 7}},
		Sockets: []rds.SocketInfo{
			{Bound: at("10.9.0.2:4000"), SendBuffer: 4 << 20, ReceiveBuf: 4 << 20},
			{Bound: at("192.168.100.200:65535"), Connected: at("10.9.0.3:4001"), SendBuffer: 212992, ReceiveBuf: 212992, Inode: 12345678},
		},
		Connections: []rds.ConnectionInfo{
			{Local: netip.MustParseAddr("10.9.0.2"), Remote: netip.MustParseAddr("10.9.0.3"), Transport: "xrc", NextTX: 12, NextRX: 1, Connected: true, Paths: 1,
				Path: []conn.PathInfo{{Index: 0, State: "up", Outbound: true, NextTX: 12, Unsent: 1, Unacked: 2, Written: 9000, Acked: 8500}},
				TCP:  []rds.PathTCP{{RTT: 1234, MinRTT: 56, Retransmitted: 7, Cwnd: 10, MSS: 1448, DeliveryRate: 125_000_000, Busy: 1000, ReceiverLimited: 0.25, SendBufferLimited: 0.5}}},
			{Local: netip.MustParseAddr("10.9.0.2"), Remote: netip.MustParseAddr("10.9.0.1"), TOS: 8, NextTX: 1795229339506784381, Sending: true, Connecting: true, Paths: 8,
				Path: []conn.PathInfo{{Index: 0, State: "up"}, {Index: 1, State: "connecting", NextTX: 1, Resets: 3}}},
		},
		SendQueue:  []rds.QueuedInfo{{Local: at("10.9.0.2:4000"), Remote: at("10.9.0.3:4001"), Sequence: 11, Bytes: 1 << 20}},
		Retransmit: []rds.QueuedInfo{{Sequence: 10, Bytes: 64, TOS: 3}},
		Receive:    []rds.QueuedInfo{{Local: at("10.9.0.2:4000"), Remote: at("10.9.0.3:4001"), Sequence: 5}},
		TCP: []rds.TCPInfo{{Local: at("10.9.0.2:36001"), Remote: at("10.9.0.3:16385"), HeaderRemaining: 48,
			SentNext: 1<<32 + 5, ExpectedUna: 1<<32 + 53, SeenUna: 1<<32 + 53}},
		Memory: &rds.MemoryInfo{
			Pools: []rds.MemoryPoolInfo{{Name: "small", Live: 1000, Dirty: 2, Clean: 348158, Resting: 4, Pinned: 8192000, Full: 6}, {Name: "large"}, {Name: "registered", Live: 1, Pinned: 98765432101234}},
			Stale: 1, Invalidations: 7, Batches: 8, LargestBatch: 5, StuckReaders: 9, Refused: 10,
			BadKeys:   []rds.BadKeysInfo{{Reason: "mr: no such region", Count: 11}, {Reason: "mr: stale key"}, {Reason: "mr: out of bounds", Count: 2}},
			Offenders: map[netip.Addr]uint64{netip.MustParseAddr("10.9.0.3"): 3, netip.MustParseAddr("10.9.0.1"): 9, {}: 1},
		},
		Admission: &rds.AdmissionInfo{
			Allow: []netip.Prefix{netip.MustParsePrefix("10.9.0.0/24"), netip.MustParsePrefix("fd00:1:2:3::/64")}, Rejected: 1234, Others: 4,
			Kernel:   &rds.KernelFilterInfo{Active: true, Deny: "silent", Hooks: []string{"tcx on eth0", "tcx on eth1"}, Ports: []uint16{16385, 18634}, Prefixes: 12, Passed: 17, Refused: 5301},
			Prefixes: []rds.RejectedInfo{{Prefix: netip.MustParsePrefix("192.168.100.0/24"), Count: 1230, Last: time.Date(2026, 5, 4, 3, 2, 0, 0, time.UTC)}},
		},
		XRC: []rds.XRCInfo{
			{Local: at("10.9.0.2:36001"), Remote: at("10.9.0.3:18634"), Operations: 3, Written: 98765432101234, Acked: 98765432100000},
			{Local: at("10.9.0.2:18634"), Remote: at("192.168.100.200:36002"), Path: 7, CRC: true},
		},
	}
}

// someObjects is what the XRC device of a node with an application have.
func someObjects() *objects.Objects {
	ref := func(k objects.Kind, number, generation uint32) objects.Ref {
		return objects.Ref{Kind: k, Number: number, Generation: generation}
	}
	host, now := netip.MustParseAddr("10.9.0.3"), busy().Time
	first, dead, tomb := ref(objects.KindTarget, 0x800000, 1849948411), ref(objects.KindTarget, 0x800001, 7), ref(objects.KindTarget, 0x800002, 8)
	qp := func(r objects.Ref, state objects.State, peer objects.Ref) objects.QPEntry {
		return objects.QPEntry{Ref: r, State: state, Peer: objects.Peer{Host: host, Incarnation: 5, QP: peer}}
	}
	o := &objects.Objects{
		Incarnation: 1 << 63,
		Sessions: []objects.SessionEntry{{ID: 1, Name: "rds", Domains: 1, PDs: 1, CQs: 1, SRQs: 1, Initiators: 2, Targets: 3, Registrations: 3},
			{ID: 2, Name: "application 1", Domains: 1, PDs: 1, SRQs: 1, Registrations: 1}, {ID: 3, Name: "a\nb", Services: 2}},
		Domains: []objects.DomainEntry{{Tag: 1, Private: true, Refs: 5}, {Tag: 2, Device: 0xfe00, Inode: 10111187, Refs: 2}},
		Targets: []objects.TargetEntry{
			{QPEntry: qp(first, objects.StateRTR, ref(objects.KindInitiator, 0x400000, 9)), Domain: 1, Registered: 2},
			{QPEntry: qp(dead, objects.StateError, ref(objects.KindInitiator, 0x400001, 9)), Domain: 1, Registered: 1},
			{QPEntry: qp(tomb, objects.StateError, ref(objects.KindInitiator, 0x400002, 9)), Domain: 1, Registered: 1, Tombstone: true},
		},
		Initiators: []objects.InitiatorEntry{
			{QPEntry: qp(ref(objects.KindInitiator, 0x400000, 3), objects.StateRTS, ref(objects.KindTarget, 0x800000, 4)), Session: 1, SessionName: "rds"},
			{QPEntry: objects.QPEntry{Ref: ref(objects.KindInitiator, 0x400001, 4)}, Session: 1, SessionName: "rds"},
		},
		SRQs: []objects.SRQEntry{
			{Ref: ref(objects.KindSRQ, 0x100, 5), Session: 3, SessionName: "a\nb", Domain: 2, MaxWR: 64, Posted: 12, Limit: 8},
			{Ref: ref(objects.KindSRQ, 0x101, 5), Session: 3, SessionName: "a\nb", Domain: 2, MaxWR: 64, Failed: true},
			{Ref: ref(objects.KindSRQ, 4096, 5), Session: 2, SessionName: "application 1", Domain: 1, Sink: true},
		},
		Registrations: []objects.RegistrationEntry{
			{Session: 1, SessionName: "rds", Target: first, ByNumber: true, Handles: 1}, {Session: 2, SessionName: "application 1", Target: first, ByNumber: true, Handles: 1},
			{Session: 1, SessionName: "rds", Target: dead, ByNumber: true, Handles: 2}, {Session: 1, SessionName: "rds", Target: tomb, Handles: 1},
		},
		NotListed: 17,
	}
	o.Targets[0].Connected = true
	o.Targets[1].Since, o.Targets[1].Cause = now.Add(-90*time.Second), objects.ErrPeerGone.Error()
	o.Targets[2].Since, o.Targets[2].Cause = now.Add(-26*time.Hour), objects.ErrGrace.Error()
	o.Initiators[0].Suspended, o.Initiators[0].Since, o.Initiators[0].Deadline = true, now.Add(-1234*time.Millisecond), now.Add(28*time.Second)
	return o
}

// attached is a node with applications, one of which has a name that would
// break a line and colour a terminal.
func attached() *rds.Info {
	i := busy()
	i.Sockets[0].PID, i.Sockets[0].UID, i.Sockets[0].Command = 4711, 1001, "oracle"
	i.Objects = someObjects()
	i.Users = []rds.UserInfo{{UID: 1001, Sessions: 1, Sockets: 12, Addresses: 2, Peers: 3, Memory: 45 << 20}, {UID: 65534, Sessions: 1, OverMemory: true}}
	i.Sessions = []rds.SessionInfo{
		{ID: 1, PID: 4711, UID: 1001, GID: 54321, Command: "oracle", Since: time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC), Sockets: 12, SendQueued: 1 << 20, SendBudget: 32 << 20,
			ReceiveArena: 32 << 20, ReceiveLent: 16 << 20, Waiting: 3, Queue: 4096, Backlog: 9 << 20, NotReady: true, SentMessages: 1234567890, SentBytes: 98765432101234, RecvMessages: 5, RecvBytes: 6, Stalled: 7},
		{ID: 2, PID: 4194304, UID: 65534, Command: "my\nvery \x1b[31mlong\xffname"},
		{ID: 3, PID: 1, Command: "süß"},
	}
	return i
}

// earlier is attached two seconds before, when a counter was higher, as that of another
// process of the node.
func earlier() *rds.Info {
	i := attached()
	i.Time = i.Time.Add(-2 * time.Second)
	i.Counters = []transport.Counter{{Name: "conn_reset", Value: 3}, {Name: "recv_bytes_freed_fromsock", Value: 1<<64 - 11}}
	i.Sessions = i.Sessions[:1]
	i.Sessions[0].SentMessages -= 500
	i.Connections[0].Path[0].Written -= 1000
	return i
}

// filtered is a node without an allow-list whose program knows of the filter in the kernel.
func filtered(k rds.KernelFilterInfo) *rds.Info {
	return &rds.Info{Provider: "node", Admission: &rds.AdmissionInfo{Kernel: &k}}
}

func ipv6() *rds.Info {
	return &rds.Info{
		Provider:    "node",
		Sockets:     []rds.SocketInfo{{Bound: at("[2001:db8:1234:5678:9abc:def0:1234:5678]:4000"), SendBuffer: 1, ReceiveBuf: 1}, {Bound: at("10.0.0.1:1"), SendBuffer: 1, ReceiveBuf: 1}},
		Connections: []rds.ConnectionInfo{{Local: netip.MustParseAddr("::1"), Remote: netip.MustParseAddr("2001:db8:1234:5678:9abc:def0:1234:5678"), Connected: true}},
	}
}

func TestGolden(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		info    *rds.Info
		kinds   []Kind
		verbose bool
		json    bool
		before  *rds.Info
	}{
		{"all", busy(), Kinds(), false, false, nil},
		{"verbose", busy(), []Kind{Connections}, true, false, nil},
		{"order", busy(), []Kind{Retransmit, Counters, TCP}, false, false, nil},
		{"empty", &rds.Info{Provider: "node"}, Kinds(), true, false, nil},
		{"attached", attached(), []Kind{Sockets, Applications}, false, false, nil},
		{"attached_json", attached(), []Kind{Sockets, Applications}, false, true, nil},
		{"objects", attached(), []Kind{Objects}, false, false, nil},
		{"objects_json", attached(), []Kind{Objects}, false, true, nil},
		{"ipv6", ipv6(), []Kind{Sockets, Connections}, false, false, nil},
		{"all_json", busy(), Kinds(), false, true, nil},
		{"rates", attached(), []Kind{Counters, Applications, Connections}, true, false, earlier()},
		{"no_filter", filtered(rds.KernelFilterInfo{Why: "no pins in /sys/fs/bpf/rds"}), []Kind{Admission}, false, false, nil},
		{"no_filter_json", filtered(rds.KernelFilterInfo{Why: "no pins in /sys/fs/bpf/rds"}), []Kind{Admission}, false, true, nil},
		{"other_filter", filtered(rds.KernelFilterInfo{Why: "not permitted", Deny: "refuse", Hooks: []string{"sk_lookup"}, Ports: []uint16{16385}, Prefixes: 1}), []Kind{Admission}, false, false, nil},
		{"empty_json", &rds.Info{Provider: "kernel"}, []Kind{Sockets, TCP}, false, true, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var got bytes.Buffer
			var err error
			if c.json {
				err = WriteJSON(&got, c.info, c.kinds)
			} else {
				err = Write(&got, View{Info: c.info, Before: c.before, Verbose: c.verbose}, c.kinds)
			}
			rdstest.Must(t, err)
			golden := filepath.Join("testdata", c.name+".txt")
			if *update {
				rdstest.Must(t, os.WriteFile(golden, got.Bytes(), 0o644))
			}
			want, err := os.ReadFile(golden)
			rdstest.Must(t, err)
			if !bytes.Equal(got.Bytes(), want) {
				t.Errorf("%s differs (-update rewrites it):\n%s\nwant:\n%s", golden, &got, want)
			}
		})
	}
}

// What WriteJSON writes is an rds.Info again.
func TestJSONReadsBack(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	want := attached()
	want.Sessions = want.Sessions[:1] // JSON has no bytes that are no text
	rdstest.Must(t, WriteJSON(&b, want, Kinds()))
	var got rds.Info
	rdstest.Must(t, json.Unmarshal(b.Bytes(), &got))
	if !reflect.DeepEqual(&got, want) {
		t.Errorf("got %+v\nwant %+v", &got, want)
	}
}

type full struct{}

var errFull = errors.New("full")

func (full) Write([]byte) (int, error) { return 0, errFull }

func TestWriteErrors(t *testing.T) {
	t.Parallel()
	if err := Write(full{}, View{Info: busy()}, Kinds()); !errors.Is(err, errFull) {
		t.Errorf("Write: %v", err)
	}
	if err := WriteJSON(full{}, busy(), Kinds()); !errors.Is(err, errFull) {
		t.Errorf("WriteJSON: %v", err)
	}
}

//go:build !live

package node

import (
	"flag"
	"net/netip"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/rds-go/rds/internal/rdstest"
	"github.com/rds-go/rds/rds/config"
	"github.com/rds-go/rds/rds/info"
	"github.com/rds-go/rds/xrc/objects"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// The counters are Linux's, in Linux's order (net/rds/stats.c,
// rds_stat_names), then ours, then the transport's (net/rds/tcp_stats.c).
func TestCounterNames(t *testing.T) {
	rdstest.Bubble(t, func(t *testing.T) {
		n := newMemLab(t).node(config.Node{})
		var names []string
		for _, c := range n.List() {
			names = append(names, c.Name)
		}
		got := strings.Join(names, "\n") + "\n"
		const golden = "testdata/counters.txt"
		if *update {
			rdstest.Must(t, os.WriteFile(golden, []byte(got), 0o644))
		}
		want, err := os.ReadFile(golden)
		rdstest.Must(t, err)
		if got != string(want) {
			t.Errorf("counters are\n%s", got)
		}
		const linux = "conn_reset recv_drop_bad_checksum recv_drop_old_seq recv_drop_no_sock recv_drop_dead_sock recv_deliver_raced " +
			"recv_delivered recv_queued recv_immediate_retry recv_delayed_retry recv_ack_required recv_rdma_bytes recv_ping " +
			"send_queue_empty send_queue_full send_lock_contention send_lock_queue_raced send_immediate_retry send_delayed_retry " +
			"send_drop_acked send_ack_required send_queued send_rdma send_rdma_bytes send_pong page_remainder_hit page_remainder_miss " +
			"copy_to_user copy_from_user cong_update_queued cong_update_received cong_send_error cong_send_blocked " +
			"recv_bytes_added_to_sock recv_bytes_freed_fromsock send_stuck_rm"
		if fields := strings.Fields(linux); !reflect.DeepEqual(names[:len(fields)], fields) {
			t.Errorf("the first %d differ from Linux's: %v", len(fields), names)
		}
	})
}

// A report agrees with what was done.
func TestInfo(t *testing.T) {
	bubble(t, newMemLab, func(t *testing.T, l *lab) {
		na, nb := l.node(config.Node{SendBuffer: 50_000, ReceiveBuffer: 60_000}), l.node(config.Node{Wire: config.WireTCP})
		a, b := l.bind(na), l.bind(nb)
		rdstest.Must(t, a.Connect(b.LocalAddrPort()))
		lost := rdstest.Nowhere()
		rdstest.MustSend(t, a, b.LocalAddrPort(), make([]byte, 100))
		rdstest.MustSend(t, a, b.LocalAddrPort(), make([]byte, 20))
		rdstest.MustSend(t, a, lost, make([]byte, 3000))
		rdstest.Eventually(t, "arrival", func() bool { return rdstest.Counter(t, nb, "recv_queued") == 2 })
		rdstest.Eventually(t, "acknowledgement", func() bool { return halfOf(a).Account.Messages() == 1 })
		rdstest.Eventually(t, "the end of the handshake", func() bool { // each has probed and answered, and the other has it
			i, _ := na.Info()
			ours, theirs := i.Connections[0], rdstest.Report(t, nb).Connections[0]
			return rdstest.Counter(t, na, "send_pong") == 2 && rdstest.Counter(t, nb, "send_pong") == 2 && ours.Queued+theirs.Queued == 0 &&
				ours.NextTX == theirs.NextRX && ours.NextRX == theirs.NextTX
		})

		ia, err := na.Info()
		rdstest.Must(t, err)
		ib, err := nb.Info()
		rdstest.Must(t, err)
		if ia.Provider != info.ProviderNode || len(ia.Sockets) != 1 || len(ib.Sockets) != 1 {
			t.Fatalf("%+v", ia)
		}
		if s, want := ia.Sockets[0], (info.Socket{Bound: a.LocalAddrPort(), Connected: b.LocalAddrPort(), SendBuffer: 50_000, ReceiveBuf: 60_000, SendQueued: 3000}); s != want {
			t.Errorf("%+v\nwant %+v", s, want)
		}
		if s, want := ib.Sockets[0], (info.Socket{Bound: b.LocalAddrPort(), SendBuffer: config.DefaultBuffer, ReceiveBuf: config.DefaultBuffer, RecvQueued: 120, RecvMessages: 2}); s != want {
			t.Errorf("%+v\nwant %+v", s, want)
		}
		if len(ia.Connections) != 2 || len(ib.Connections) != 1 {
			t.Fatalf("%+v %+v", ia.Connections, ib.Connections)
		}
		up, down, theirs := ia.Connections[0], ia.Connections[1], ib.Connections[0]
		if up.Remote != b.LocalAddrPort().Addr() || !up.Connected || up.Paths != 1 || up.Generation != nb.Generation || up.Queued != 0 || len(up.Path) != 1 || !up.Path[0].Outbound {
			t.Errorf("%+v", up)
		}
		if down.Remote != lost.Addr() || down.Connected || down.Paths != 0 || down.Queued < 3000 {
			t.Errorf("%+v", down)
		}
		if theirs.Local != up.Remote || theirs.Remote != up.Local || theirs.NextRX != up.NextTX || theirs.Path[0].Outbound {
			t.Errorf("%+v\nof %+v", theirs, up)
		}
		if q := ia.SendQueue; len(q) != 1 || q[0].Bytes != 3000 || q[0].Local != a.LocalAddrPort() || q[0].Remote != lost {
			t.Errorf("send queue %+v", q)
		}
		if len(ia.Retransmit) != 0 {
			t.Errorf("retransmit queue %+v", ia.Retransmit)
		}
		if q := ib.Receive; len(q) != 2 || q[0].Bytes != 100 || q[1].Bytes != 20 || q[1].Sequence != q[0].Sequence+1 ||
			q[0].Local != b.LocalAddrPort() || q[0].Remote != a.LocalAddrPort() {
			t.Errorf("receive queue %+v", q)
		}
		if len(ia.TCP) != 1 || len(ib.TCP) != 1 {
			t.Fatalf("%+v %+v", ia.TCP, ib.TCP)
		}
		if x, y := ia.TCP[0], ib.TCP[0]; x.Local != y.Remote || x.Remote != y.Local || x.Remote.Port() != l.Port ||
			x.HeaderRemaining != 48 || x.PayloadRemaining != 0 || x.SeenUna != x.ExpectedUna || x.SentNext > x.ExpectedUna {
			t.Errorf("%+v\n%+v", x, y)
		}
		for name, want := range map[string]uint64{"send_queued": 3, "recv_queued": 0, "conn_reset": 0} {
			if got := rdstest.Counter(t, na, name); got != want {
				t.Errorf("%s %d, want %d", name, got, want)
			}
		}
	})
}

// A user is told of the sessions, queues and registrations of the user's applications, and of
// RDS's queue pairs of connections that these use.
func TestObjectsOfOneUser(t *testing.T) {
	t.Parallel()
	ref := func(k objects.Kind, n uint32) objects.Ref { return objects.Ref{Kind: k, Number: n, Generation: 1} }
	used, registered, strange := rdstest.NewAddr(), rdstest.NewAddr(), rdstest.NewAddr()
	all := info.Report{
		Sessions:    []info.Session{{ID: 1, UID: 7, Queue: 100}, {ID: 2, UID: 8, Queue: 101}, {ID: 3, UID: 9}},
		Connections: []info.Connection{{Remote: used, Users: []uint32{7}}, {Remote: strange, Users: []uint32{8}}},
		Objects: &objects.Objects{
			Sessions: []objects.SessionEntry{{ID: 1, Name: "rds"}, {ID: 2, Name: "mine"}, {ID: 3, Name: "other"}},
			Domains:  []objects.DomainEntry{{Tag: 1, Refs: 9}, {Tag: 2, Refs: 9}},
			SRQs: []objects.SRQEntry{{Ref: ref(objects.KindSRQ, 99), Session: 1, Domain: 1}, {Ref: ref(objects.KindSRQ, 100), Session: 2, Domain: 1},
				{Ref: ref(objects.KindSRQ, 101), Session: 3, Domain: 2}},
			Registrations: []objects.RegistrationEntry{{Session: 1, Target: ref(objects.KindTarget, 1)}, {Session: 1, Target: ref(objects.KindTarget, 2)},
				{Session: 2, Target: ref(objects.KindTarget, 2)}, {Session: 1, Target: ref(objects.KindTarget, 3)}, {Session: 3, Target: ref(objects.KindTarget, 3)}},
		},
	}
	for i, host := range []netip.Addr{used, registered, strange} {
		n := uint32(i) + 1
		qp := objects.QPEntry{Implied: true, Peer: objects.Peer{Host: host}}
		qp.Ref = ref(objects.KindTarget, n)
		all.Objects.Targets = append(all.Objects.Targets, objects.TargetEntry{QPEntry: qp, Domain: 1, Registered: 2})
		qp.Ref = ref(objects.KindInitiator, n)
		all.Objects.Initiators = append(all.Objects.Initiators, objects.InitiatorEntry{QPEntry: qp, Session: 1})
	}
	o := all.Objects
	mine := o.Targets[1]
	mine.Registered = 1
	theirs := o.Targets[0]
	theirs.Registered = 0
	want := &objects.Objects{Sessions: o.Sessions[1:2], Domains: []objects.DomainEntry{{Tag: 1, Refs: 3}}, SRQs: o.SRQs[1:2], Registrations: o.Registrations[2:3],
		Targets: []objects.TargetEntry{theirs, mine}, Initiators: o.Initiators[:1]}
	if got := all.Of(7).Objects; !reflect.DeepEqual(got, want) {
		t.Errorf("%+v\nwant %+v", got, want)
	}
	if got := all.Of(9).Objects; !reflect.DeepEqual(got, &objects.Objects{}) {
		t.Errorf("a user without a queue is told of %+v", got)
	}
	all.Objects = nil
	if got := all.Of(7).Objects; got != nil {
		t.Errorf("%+v", got)
	}
}

func TestConfigValidate(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		cfg  config.Node
		want []string // fields complained of
	}{
		{"zero", config.Node{}, nil},
		{"one path", config.Node{Paths: 1}, nil},
		{"eight paths", config.Node{Paths: 8, MaxMessage: 8192, Linger: -1}, nil},
		{"two paths", config.Node{Paths: 2}, []string{"Paths"}},
		{"negative paths", config.Node{Paths: -1}, []string{"Paths"}},
		{"small messages", config.Node{MaxMessage: 8191}, []string{"MaxMessage"}},
		{"large messages", config.Node{MaxMessage: config.MaxMessage + 1}, []string{"MaxMessage"}},
		{"negative sizes", config.Node{SendBuffer: -1, ReceiveBuffer: -1, ReceiveOverrun: -1, PeerBudget: -1},
			[]string{"SendBuffer", "ReceiveBuffer", "ReceiveOverrun", "PeerBudget"}},
		{"negative times", config.Node{ReconnectMin: -1, ReconnectMax: -1, ReceiveStall: -1}, []string{"ReconnectMin", "ReconnectMax", "ReceiveStall"}},
		{"TCP", config.Node{TCP: config.TCP{SendBuffer: -1, ReceiveBuffer: -1, Burst: -1, KeepAliveIdle: -1, KeepAliveInterval: -1, KeepAliveCount: -1, UserTimeout: -1, Silence: 1, Congestion: "", EventLoops: -1, DrainTimeout: -1}},
			[]string{"TCP.SendBuffer", "TCP.ReceiveBuffer", "TCP.KeepAliveIdle", "TCP.KeepAliveInterval", "TCP.KeepAliveCount", "TCP.UserTimeout", "TCP.Silence", "TCP.Burst", "TCP.EventLoops", "TCP.DrainTimeout"}},
		{"wire", config.Node{Wire: "ib"}, []string{"Wire"}},
		{"patience", config.Node{XRC: config.XRC{Patience: -1}}, []string{"XRC.Patience"}},
		{"operations", config.Node{XRC: config.XRC{Operations: 4097}}, []string{"XRC.Operations"}},
		{"one port for two", config.Node{XRC: config.XRC{Port: config.DefaultPort}}, []string{"XRC.Port"}},
		{"one port for two, again", config.Node{Port: 17000, XRC: config.XRC{Port: 17000}}, []string{"XRC.Port"}},
		{"one port for one", config.Node{Wire: config.WireXRC, XRC: config.XRC{Port: config.DefaultPort}}, nil},
		{"peers", config.Node{PeerWires: map[netip.Addr]config.Wire{rdstest.NewAddr(): config.WireTCP, rdstest.NewAddr(): config.WireXRC}}, nil},
		{"peers of any", config.Node{PeerWires: map[netip.Addr]config.Wire{rdstest.NewAddr(): config.WireAuto}}, []string{"PeerWires"}},
		{"peers that are none", config.Node{PeerWires: map[netip.Addr]config.Wire{netip.IPv4Unspecified(): config.WireTCP}}, []string{"PeerWires"}},
		{"peers and one wire", config.Node{Wire: config.WireTCP, PeerWires: map[netip.Addr]config.Wire{rdstest.NewAddr(): config.WireTCP}}, []string{"PeerWires"}},
		{"addresses", config.Node{Addresses: []netip.Addr{{}, netip.IPv4Unspecified(), netip.MustParseAddr("ff02::1")}}, []string{"Addresses", "Addresses", "Addresses"}},
	} {
		err := c.cfg.Validate()
		var text string
		if err != nil {
			text = err.Error()
		}
		if got := strings.Count(text, "rds: Config."); got != len(c.want) {
			t.Errorf("%s: %d complaints: %v", c.name, got, err)
		}
		for _, f := range c.want {
			if !strings.Contains(text, "Config."+f+" = ") {
				t.Errorf("%s: %q does not name %s", c.name, text, f)
			}
		}
		if n, err := New(c.cfg); err == nil {
			_ = n.Close()
			if c.want != nil {
				t.Errorf("%s: a node", c.name)
			}
		} else if c.want == nil {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

package rds

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// The counters are Linux's, in Linux's order (net/rds/stats.c,
// rds_stat_names), then ours, then the transport's (net/rds/tcp_stats.c).
func TestCounterNames(t *testing.T) {
	t.Parallel()
	n := newLab(t).node(Config{})
	var names []string
	for _, c := range n.list() {
		names = append(names, c.Name)
	}
	got := strings.Join(names, "\n") + "\n"
	const golden = "testdata/counters.txt"
	if *update {
		if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
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
}

// A report agrees with what was done.
func TestInfo(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	na, nb := l.node(Config{SendBuffer: 50_000, ReceiveBuffer: 60_000}), l.node(Config{Wire: WireTCP})
	a, b := l.bind(na), l.bind(nb)
	if err := a.Connect(b.LocalAddrPort()); err != nil {
		t.Fatal(err)
	}
	lost := nowhere()
	mustSend(t, a, b.LocalAddrPort(), make([]byte, 100))
	mustSend(t, a, b.LocalAddrPort(), make([]byte, 20))
	mustSend(t, a, lost, make([]byte, 3000))
	eventually(t, "arrival", func() bool { return counter(t, nb, "recv_queued") == 2 })
	eventually(t, "acknowledgement", func() bool { return halfOf(a).account.Messages() == 1 })
	eventually(t, "the end of the handshake", func() bool { // each has probed and answered, and the other has it
		i, _ := na.Info()
		ours, theirs := i.Connections[0], connections(t, nb)[0]
		return counter(t, na, "send_pong") == 2 && counter(t, nb, "send_pong") == 2 && ours.Queued+theirs.Queued == 0 &&
			ours.NextTX == theirs.NextRX && ours.NextRX == theirs.NextTX
	})

	ia, err := na.Info()
	if err != nil {
		t.Fatal(err)
	}
	ib, err := nb.Info()
	if err != nil {
		t.Fatal(err)
	}
	if ia.Provider != ProviderNode || len(ia.Sockets) != 1 || len(ib.Sockets) != 1 {
		t.Fatalf("%+v", ia)
	}
	if s, want := ia.Sockets[0], (SocketInfo{Bound: a.LocalAddrPort(), Connected: b.LocalAddrPort(), SendBuffer: 50_000, ReceiveBuf: 60_000, SendQueued: 3000}); s != want {
		t.Errorf("%+v\nwant %+v", s, want)
	}
	if s, want := ib.Sockets[0], (SocketInfo{Bound: b.LocalAddrPort(), SendBuffer: DefaultBuffer, ReceiveBuf: DefaultBuffer, RecvQueued: 120, RecvMessages: 2}); s != want {
		t.Errorf("%+v\nwant %+v", s, want)
	}
	if len(ia.Connections) != 2 || len(ib.Connections) != 1 {
		t.Fatalf("%+v %+v", ia.Connections, ib.Connections)
	}
	up, down, theirs := ia.Connections[0], ia.Connections[1], ib.Connections[0]
	if up.Remote != b.LocalAddrPort().Addr() || !up.Connected || up.Paths != 1 || up.Generation != nb.generation || up.Queued != 0 || len(up.Path) != 1 || !up.Path[0].Outbound {
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
	if x, y := ia.TCP[0], ib.TCP[0]; x.Local != y.Remote || x.Remote != y.Local || x.Remote.Port() != l.port ||
		x.HeaderRemaining != 48 || x.PayloadRemaining != 0 || x.SeenUna != x.ExpectedUna || x.SentNext > x.ExpectedUna {
		t.Errorf("%+v\n%+v", x, y)
	}
	for name, want := range map[string]uint64{"send_queued": 3, "recv_queued": 0, "conn_reset": 0} {
		if got := counter(t, na, name); got != want {
			t.Errorf("%s %d, want %d", name, got, want)
		}
	}
}

// A report is as good through the control socket.
func TestControlSocket(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "c")
	l := newLab(t)
	n := l.node(Config{Control: path})
	s := l.bind(n)
	mustSend(t, s, nowhere(), make([]byte, 77))
	got, err := FetchInfo(background(t), path)
	if err != nil {
		t.Fatal(err)
	}
	want, _ := n.Info()
	if len(got.Sockets) != 1 || got.Sockets[0] != want.Sockets[0] || len(got.Counters) != len(want.Counters) ||
		!reflect.DeepEqual(got.SendQueue, want.SendQueue) || got.Connections[0].Remote != want.Connections[0].Remote {
		a, _ := json.Marshal(got)
		b, _ := json.Marshal(want)
		t.Errorf("%s\nwant\n%s", a, b)
	}
	_, err = NewNode(Config{Port: l.port, Control: path})
	wantErr(t, "a second node on the path", err)
	if err := n.Close(); err != nil && !errors.As(err, new(*DroppedError)) {
		t.Fatal(err)
	}
	_, err = FetchInfo(background(t), path)
	wantErr(t, "after Close", err)
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the socket file remains: %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, err = FetchInfo(ctx, filepath.Join(dir, "nobody"))
	wantErr(t, "nobody there", err)
}

func TestConfigValidate(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		cfg  Config
		want []string // fields complained of
	}{
		{"zero", Config{}, nil},
		{"one path", Config{Paths: 1}, nil},
		{"eight paths", Config{Paths: 8, MaxMessage: 8192, Linger: -1}, nil},
		{"two paths", Config{Paths: 2}, []string{"Paths"}},
		{"negative paths", Config{Paths: -1}, []string{"Paths"}},
		{"small messages", Config{MaxMessage: 8191}, []string{"MaxMessage"}},
		{"large messages", Config{MaxMessage: MaxMessage + 1}, []string{"MaxMessage"}},
		{"negative sizes", Config{SendBuffer: -1, ReceiveBuffer: -1, ReceiveOverrun: -1, PeerBudget: -1},
			[]string{"SendBuffer", "ReceiveBuffer", "ReceiveOverrun", "PeerBudget"}},
		{"negative times", Config{ReconnectMin: -1, ReconnectMax: -1}, []string{"ReconnectMin", "ReconnectMax"}},
		{"TCP", Config{TCP: TCPConfig{-1, -1, -1, -1, -1, -1, -1, 1, "", -1, -1}},
			[]string{"TCP.SendBuffer", "TCP.ReceiveBuffer", "TCP.KeepAliveIdle", "TCP.KeepAliveInterval", "TCP.KeepAliveCount", "TCP.UserTimeout", "TCP.Silence", "TCP.Burst", "TCP.EventLoops", "TCP.DrainTimeout"}},
		{"wire", Config{Wire: "ib"}, []string{"Wire"}},
		{"patience", Config{XRC: XRCConfig{Patience: -1}}, []string{"XRC.Patience"}},
		{"operations", Config{XRC: XRCConfig{Operations: 4097}}, []string{"XRC.Operations"}},
		{"one port for two", Config{XRC: XRCConfig{Port: DefaultPort}}, []string{"XRC.Port"}},
		{"one port for two, again", Config{Port: 17000, XRC: XRCConfig{Port: 17000}}, []string{"XRC.Port"}},
		{"one port for one", Config{Wire: WireXRC, XRC: XRCConfig{Port: DefaultPort}}, nil},
		{"peers", Config{PeerWires: map[netip.Addr]Wire{newAddr(): WireTCP, newAddr(): WireXRC}}, nil},
		{"peers of any", Config{PeerWires: map[netip.Addr]Wire{newAddr(): WireAuto}}, []string{"PeerWires"}},
		{"peers that are none", Config{PeerWires: map[netip.Addr]Wire{netip.IPv4Unspecified(): WireTCP}}, []string{"PeerWires"}},
		{"peers and one wire", Config{Wire: WireTCP, PeerWires: map[netip.Addr]Wire{newAddr(): WireTCP}}, []string{"PeerWires"}},
		{"addresses", Config{Addresses: []netip.Addr{{}, netip.IPv4Unspecified(), netip.MustParseAddr("ff02::1")}}, []string{"Addresses", "Addresses", "Addresses"}},
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
		if n, err := NewNode(c.cfg); err == nil {
			_ = n.Close()
			if c.want != nil {
				t.Errorf("%s: a node", c.name)
			}
		} else if c.want == nil {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

//go:build !live

package main

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/rds-go/rds/ebpf"
	"github.com/rds-go/rds/rds"
)

const busyMetrics = `
# HELP rds_admission_kernel_active Whether a filter in the kernel turns strangers away before TCP answers them, by the daemon's list.
# TYPE rds_admission_kernel_active gauge
rds_admission_kernel_active 1
# HELP rds_admission_kernel_passed_total Attempts to connect that the filter in the kernel has let through since it was loaded.
# TYPE rds_admission_kernel_passed_total counter
rds_admission_kernel_passed_total 17
# HELP rds_admission_kernel_prefixes Prefixes on the list of the filter in the kernel; without any everybody may connect.
# TYPE rds_admission_kernel_prefixes gauge
rds_admission_kernel_prefixes 12
# HELP rds_admission_kernel_refused_total Attempts of strangers to connect that the filter in the kernel has refused since it was loaded.
# TYPE rds_admission_kernel_refused_total counter
rds_admission_kernel_refused_total 5301
# HELP rds_application_backlog_bytes Memory of the messages that wait.
# TYPE rds_application_backlog_bytes gauge
rds_application_backlog_bytes{command="bad?name",uid="0"} 0
rds_application_backlog_bytes{command="oracle",uid="1001"} 304
# HELP rds_application_cong_send_blocked_total Sends that waited for congestion to end.
# TYPE rds_application_cong_send_blocked_total counter
rds_application_cong_send_blocked_total{command="bad?name",uid="0"} 0
rds_application_cong_send_blocked_total{command="oracle",uid="1001"} 8
# HELP rds_application_cong_send_error_total Sends refused for congestion.
# TYPE rds_application_cong_send_error_total counter
rds_application_cong_send_error_total{command="bad?name",uid="0"} 0
rds_application_cong_send_error_total{command="oracle",uid="1001"} 9
# HELP rds_application_not_ready Processes for which peers keep what they have.
# TYPE rds_application_not_ready gauge
rds_application_not_ready{command="bad?name",uid="0"} 0
rds_application_not_ready{command="oracle",uid="1001"} 1
# HELP rds_application_received_bytes_total Payload taken by the application.
# TYPE rds_application_received_bytes_total counter
rds_application_received_bytes_total{command="bad?name",uid="0"} 0
rds_application_received_bytes_total{command="oracle",uid="1001"} 640
# HELP rds_application_send_queue_full_total Sends that met a full send buffer, ring or arena.
# TYPE rds_application_send_queue_full_total counter
rds_application_send_queue_full_total{command="bad?name",uid="0"} 0
rds_application_send_queue_full_total{command="oracle",uid="1001"} 10
# HELP rds_application_send_budget_bytes Bound of the memory queued or unacknowledged.
# TYPE rds_application_send_budget_bytes gauge
rds_application_send_budget_bytes{command="bad?name",uid="0"} 0
rds_application_send_budget_bytes{command="oracle",uid="1001"} 2000
# HELP rds_application_sent_messages_total Messages accepted from the application.
# TYPE rds_application_sent_messages_total counter
rds_application_sent_messages_total{command="bad?name",uid="0"} 1
rds_application_sent_messages_total{command="oracle",uid="1001"} 15
# HELP rds_application_sessions Processes attached.
# TYPE rds_application_sessions gauge
rds_application_sessions{command="bad?name",uid="0"} 1
rds_application_sessions{command="oracle",uid="1001"} 2
# HELP rds_application_stalls_total Times it had to wait for its turn on a connection.
# TYPE rds_application_stalls_total counter
rds_application_stalls_total{command="bad?name",uid="0"} 0
rds_application_stalls_total{command="oracle",uid="1001"} 57
# HELP rds_application_waiting_messages Messages received that wait for room in the shared memory.
# TYPE rds_application_waiting_messages gauge
rds_application_waiting_messages{command="bad?name",uid="0"} 0
rds_application_waiting_messages{command="oracle",uid="1001"} 3
# HELP rds_connections Connections to other hosts, by their state.
# TYPE rds_connections gauge
rds_connections{state="connecting"} 1
rds_connections{state="down"} 1
rds_connections{state="up"} 1
# HELP rds_path_receiver_limited_ratio Share of the busy time during which the peer's window was full.
# TYPE rds_path_receiver_limited_ratio gauge
rds_path_receiver_limited_ratio{local="10.0.0.1",path="0",peer="10.0.0.2"} 0.25
rds_path_receiver_limited_ratio{local="10.0.0.1",path="1",peer="10.0.0.2"} 0
# HELP rds_path_retransmitted_segments_total Segments that TCP sent again.
# TYPE rds_path_retransmitted_segments_total counter
rds_path_retransmitted_segments_total{local="10.0.0.1",path="0",peer="10.0.0.2"} 7
rds_path_retransmitted_segments_total{local="10.0.0.1",path="1",peer="10.0.0.2"} 0
# HELP rds_path_rtt_seconds Smoothed round-trip time of the path's TCP connection.
# TYPE rds_path_rtt_seconds gauge
rds_path_rtt_seconds{local="10.0.0.1",path="0",peer="10.0.0.2"} 0.0015
rds_path_rtt_seconds{local="10.0.0.1",path="1",peer="10.0.0.2"} 0.0025
# HELP rds_paths Paths of all connections.
# TYPE rds_paths gauge
rds_paths 4
# HELP rds_paths_up Paths that carry messages.
# TYPE rds_paths_up gauge
rds_paths_up 2
# HELP rds_peer_queued_bytes Memory of the messages queued for peers or unacknowledged by them.
# TYPE rds_peer_queued_bytes gauge
rds_peer_queued_bytes 4100
# HELP rds_receive_arena_lent_bytes Of that memory, what holds messages.
# TYPE rds_receive_arena_lent_bytes gauge
rds_receive_arena_lent_bytes 33
# HELP rds_send_queued_total Counter send_queued of the node, as in rdsinfo -c.
# TYPE rds_send_queued_total counter
rds_send_queued_total 12
# HELP rds_sessions Applications attached.
# TYPE rds_sessions gauge
rds_sessions 3
# HELP rds_socket_receive_queued_bytes Payload that waits for applications to receive it.
# TYPE rds_socket_receive_queued_bytes gauge
rds_socket_receive_queued_bytes 23
# HELP rds_socket_receive_queued_messages Messages that wait for applications to receive them.
# TYPE rds_socket_receive_queued_messages gauge
rds_socket_receive_queued_messages 3
# HELP rds_socket_send_queued_bytes Payload that sockets have queued or unacknowledged.
# TYPE rds_socket_send_queued_bytes gauge
rds_socket_send_queued_bytes 101
# HELP rds_sockets Sockets bound.
# TYPE rds_sockets gauge
rds_sockets 2
# HELP rds_sockets_congested Sockets whose receive buffer is full, so that peers must not send to them.
# TYPE rds_sockets_congested gauge
rds_sockets_congested 1
# HELP rds_waits What waits, as in rdsinfo why, by peer and cause.
# TYPE rds_waits gauge
rds_waits{cause="budget",peer=""} 1
rds_waits{cause="unreachable",peer="10.0.0.3"} 2
`

func TestMetrics(t *testing.T) {
	t.Parallel()
	c := newCollector(constant(busy()))
	names := []string{}
	for line := range strings.Lines(busyMetrics) {
		if name, ok := strings.CutPrefix(line, "# TYPE "); ok {
			names = append(names, strings.Fields(name)[0])
		}
	}
	must(t, testutil.CollectAndCompare(c, strings.NewReader(busyMetrics), names...))
}

// What applications have done stays when they end, so that the sums only grow.
func TestApplicationsThatEnd(t *testing.T) {
	t.Parallel()
	info := busy()
	c := newCollector(func() (rds.Info, error) { return info, nil })
	sent := func(messages, sessions int) {
		t.Helper()
		want := fmt.Sprintf(`
# HELP rds_application_sent_messages_total Messages accepted from the application.
# TYPE rds_application_sent_messages_total counter
rds_application_sent_messages_total{command="oracle",uid="1001"} %d
# HELP rds_application_sessions Processes attached.
# TYPE rds_application_sessions gauge
rds_application_sessions{command="oracle",uid="1001"} %d
`, messages, sessions)
		must(t, testutil.CollectAndCompare(c, strings.NewReader(want), "rds_application_sent_messages_total", "rds_application_sessions"))
	}
	info.Sessions = info.Sessions[:2]
	sent(15, 2)
	info.Sessions = info.Sessions[1:]
	sent(15, 1)
	info.Sessions = nil
	sent(15, 0)
	info.Sessions = []rds.SessionInfo{{ID: 9, UID: 1001, Command: "oracle", SentMessages: 4}}
	sent(19, 1)
}

// Applications choose their names, so that the number of names is bounded.
func TestApplicationsAreBounded(t *testing.T) {
	t.Parallel()
	var a applications
	id := uint64(0)
	for round := range 3 {
		var sessions []rds.SessionInfo
		for range maxApplications {
			id++
			sessions = append(sessions, rds.SessionInfo{ID: id, Command: fmt.Sprint("c", id), SentMessages: 1})
		}
		a.update(sessions)
		if len(a.usage) > maxApplications+1 || len(a.last) != maxApplications {
			t.Fatalf("round %d: %d applications, %d sessions remembered", round, len(a.usage), len(a.last))
		}
	}
	a.update(nil)
	var all uint64
	for _, u := range a.usage {
		all += u.sentMessages
	}
	if all != id || a.usage[others].sentMessages != id-maxApplications {
		t.Errorf("%d messages in all, %d of others, want %d and %d", all, a.usage[others].sentMessages, id, id-maxApplications)
	}
}

func TestMetricsOfFailure(t *testing.T) {
	t.Parallel()
	c := newCollector(func() (rds.Info, error) { return rds.Info{}, errors.New("no snapshot today") })
	r := prometheus.NewRegistry()
	r.MustRegister(c)
	if _, err := r.Gather(); err == nil || !strings.Contains(err.Error(), "no snapshot today") {
		t.Errorf("error %v", err)
	}
}

func TestTelemetryOfPeerGoesOnWhenOneConnectionEnds(t *testing.T) {
	t.Parallel()
	connection := func(port uint16, n uint64, inodeAndCookie ...uint64) ebpf.Connection {
		id := append(inodeAndCookie, uint64(port), uint64(port))
		h := ebpf.Histogram{Sum: time.Duration(n) * time.Millisecond, Count: n}
		h.Buckets[19] = n
		return ebpf.Connection{Local: netip.MustParseAddrPort("10.0.0.1:16385"), RTTs: h, Waits: h, Inode: id[0], Cookie: id[1],
			Remote: netip.AddrPortFrom(netip.MustParseAddr("10.0.0.2"), port)}
	}
	m := &telemetryMetrics{}
	for _, step := range []struct {
		connections []ebpf.Connection
		want        uint64
	}{
		{[]ebpf.Connection{connection(1, 10), connection(2, 5)}, 15},
		{[]ebpf.Connection{connection(1, 12), connection(2, 5)}, 17},
		{[]ebpf.Connection{connection(2, 6)}, 18},                   // one has ended
		{[]ebpf.Connection{connection(2, 6), connection(3, 1)}, 19}, // one is new
		{[]ebpf.Connection{connection(2, 2), connection(3, 1)}, 21}, // telemetry was loaded anew
		{nil, 0},
		{[]ebpf.Connection{connection(2, 2, 0, 5)}, 2},   // not accepted yet
		{[]ebpf.Connection{connection(2, 7, 11, 5)}, 7},  // accepted
		{[]ebpf.Connection{connection(2, 8, 0, 5)}, 8},   // closed, and sends what is left
		{[]ebpf.Connection{connection(2, 9, 0, 6)}, 17},  // another one of the same ports, not accepted yet
		{[]ebpf.Connection{connection(2, 9, 12, 6)}, 17}, // accepted
	} {
		m.update(step.connections)
		var got, waits uint64
		for _, p := range m.peers {
			got, waits = p.rtts.Count, p.waits.Buckets[19]
		}
		if got != step.want || waits != step.want || len(m.peers) > 1 {
			t.Errorf("%d peers, %d round trips, %d waits, want %d", len(m.peers), got, waits, step.want)
		}
	}
}

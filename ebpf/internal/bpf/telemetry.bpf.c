//go:build ignore

// SPDX-License-Identifier: (GPL-2.0-only OR MIT)
/*
 * What the kernel sees of the TCP connections with one of our ports: how long round trips
 * take and how long data waits for its reader, by connection; why packets are dropped; and
 * a list of the connections.
 *
 * What is measured of a connection is kept in its socket (sk_storage) and goes with it.
 */
#include "rds.h"
#include "types.h"
#include <bpf/bpf_core_read.h>

#define ETH_P_IP	0x0800
#define ETH_P_IPV6	0x86dd
#define IPPROTO_TCP	6
#define SOL_TCP		6

#define TCP_ESTABLISHED	1
#define TCP_SYN_RECV	3
#define TCP_TIME_WAIT	6
#define TCP_CLOSE	7
#define TCP_LISTEN	10

/* What bpf_setsockopt calls the callback flags of a socket; Linux 6.12 has it. */
#define SOCK_OPS_CB_FLAGS	1008

/* What is measured of a connection. The kernel holds the socket's lock where this changes. */
struct measured {
	struct hist rtt;	/* round trips */
	struct hist wait;	/* from the arrival of data to the end of its reading */
	__u64 arrived;		/* when the data that is timed arrived; 0 if none is timed */
	__u32 end;		/* sequence number behind the data that is timed */
	__u32 pad;
};

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct measured);
} telemetry_sockets SEC(".maps");

#define DROP_REASONS	256	/* the last one counts all reasons from that number on */
#define DROP_NAME	56

struct drop {
	__u64 count;
	char name[DROP_NAME];	/* the loader writes it, before any packet is counted */
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, DROP_REASONS);
	__type(key, __u32);
	__type(value, struct drop);
} telemetry_drops SEC(".maps");

/* What is loaded, in JSON, for those who open the pins. The programs do not use it. */
struct about {
	char text[4096];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct about);
} telemetry_about SEC(".maps");

/* hist_add for a histogram that only one CPU at a time changes. */
static __always_inline void hist_add_locked(struct hist *h, __u64 ns)
{
	__u32 n = log2_u64(ns);

	if (n >= HIST_BUCKETS)
		n = HIST_BUCKETS - 1;
	h->bucket[n]++;
	h->sum += ns;
	h->count++;
}

static __always_inline bool ours(const struct sock_common *skc)
{
	return rds_port(skc->skc_num) || rds_port(bpf_ntohs(skc->skc_dport));
}

/* The callback for each round trip that TCP measures is asked for when a connection is up. */
SEC("sockops")
int telemetry_rtt(struct bpf_sock_ops *ops)
{
	struct measured *m;
	__u32 us;

	switch (ops->op) {
	case BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB:
	case BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB:
		if (!rds_port(ops->local_port) && !rds_port(bpf_ntohl(ops->remote_port)))
			break;
		if (!ops->sk)
			break;
		bpf_sk_storage_get(&telemetry_sockets, ops->sk, 0, BPF_SK_STORAGE_GET_F_CREATE);
		bpf_sock_ops_cb_flags_set(ops, ops->bpf_sock_ops_cb_flags | BPF_SOCK_OPS_RTT_CB_FLAG);
		break;
	case BPF_SOCK_OPS_RTT_CB:
		if (!ops->sk)
			break;
		m = bpf_sk_storage_get(&telemetry_sockets, ops->sk, 0, 0);
		if (!m)
			break;
		us = ops->args[0];		/* Linux 6.10 passes what it has measured */
		if (!us)
			us = ops->srtt_us >> 3;	/* before, the smoothed time has to do */
		hist_add_locked(&m->rtt, (__u64)us * 1000);
		break;
	}
	return 1;
}

/*
 * Data has come to a socket. If none is timed, this is, until the reader has got to its end.
 * The kernel calls this for sockets of every kind and for listeners.
 */
SEC("tp_btf/sk_data_ready")
int telemetry_arrival(__u64 *ctx)
{
	struct sock *sk = (struct sock *)ctx[0];
	struct measured *m;
	struct tcp_sock *tp;

	if (!ours(&sk->__sk_common) || sk->__sk_common.skc_state == TCP_LISTEN)
		return 0;
	m = bpf_sk_storage_get(&telemetry_sockets, sk, 0, 0);
	if (m && m->arrived)
		return 0;
	tp = bpf_skc_to_tcp_sock(sk);
	if (!tp)
		return 0;
	if (!m) {
		m = bpf_sk_storage_get(&telemetry_sockets, sk, 0, BPF_SK_STORAGE_GET_F_CREATE);
		if (!m)
			return 0;
	}
	m->end = tp->rcv_nxt;
	m->arrived = tp->tcp_clock_cache;	/* TCP has looked at the clock when the packet came */
	return 0;
}

/* A reader has taken data from a socket. */
SEC("tp_btf/tcp_rcv_space_adjust")
int telemetry_read(__u64 *ctx)
{
	struct sock *sk = (struct sock *)ctx[0];
	struct measured *m;
	struct tcp_sock *tp;

	if (!ours(&sk->__sk_common))
		return 0;
	m = bpf_sk_storage_get(&telemetry_sockets, sk, 0, 0);
	if (!m || !m->arrived)
		return 0;
	tp = bpf_skc_to_tcp_sock(sk);
	if (!tp || (__s32)(tp->copied_seq - m->end) < 0)
		return 0;
	hist_add_locked(&m->wait, bpf_ktime_get_ns() - m->arrived);
	m->arrived = 0;
	return 0;
}

/* A packet is dropped. */
SEC("tp_btf/kfree_skb")
int telemetry_drop(__u64 *ctx)
{
	struct sk_buff *skb = (struct sk_buff *)ctx[0];
	__u32 reason = ctx[2];
	struct drop *d;
	const unsigned char *ip;
	__be16 ports[2];
	__u8 first, protocol;
	__u32 header;

	ip = skb->head + skb->network_header;
	if (skb->protocol == bpf_htons(ETH_P_IP)) {
		if (bpf_probe_read_kernel(&first, 1, ip) || bpf_probe_read_kernel(&protocol, 1, ip + 9))
			return 0;
		header = (first & 15) * 4;
	} else if (skb->protocol == bpf_htons(ETH_P_IPV6)) {
		/* An extension header hides TCP. Nobody sends one in front of TCP. */
		if (bpf_probe_read_kernel(&protocol, 1, ip + 6))
			return 0;
		header = 40;
	} else {
		return 0;
	}
	if (protocol != IPPROTO_TCP || bpf_probe_read_kernel(ports, sizeof(ports), ip + header))
		return 0;
	if (!rds_port(bpf_ntohs(ports[0])) && !rds_port(bpf_ntohs(ports[1])))
		return 0;
	if (reason >= DROP_REASONS)
		reason = DROP_REASONS - 1;
	d = bpf_map_lookup_elem(&telemetry_drops, &reason);
	if (d)
		__sync_fetch_and_add(&d->count, 1);
	return 0;
}

/* A connection in the list, in the order of the machine. measured's histograms come next. */
struct connection {
	struct addr local;
	struct addr remote;
	__u16 local_port;
	__u16 remote_port;
	__u8 state;
	__u8 timed;		/* round trips are counted */
	__u16 pad;
	__u32 uid;
	__u32 netns;
	__u64 inode;
	__u64 cookie;		/* of the socket, also when it has no inode */
	__u64 bytes_acked;
	__u64 bytes_received;
	__u32 srtt_us;		/* 8 times the smoothed round-trip time */
	__u32 rtt_min_us;
	__u32 cwnd;
	__u32 retransmits;
	__u32 receive_queue;
	__u32 unacked;
	__u32 unsent;
	__u32 pad2;
};

/* What follows a connection of which nothing is measured. */
static const struct hist nothing[2];

static __always_inline void addr_map6(struct addr *to, const struct in6_addr *from)
{
	to->word[0] = from->in6_u.u6_addr32[0];
	to->word[1] = from->in6_u.u6_addr32[1];
	to->word[2] = from->in6_u.u6_addr32[2];
	to->word[3] = from->in6_u.u6_addr32[3];
}

/* The connection of an iterator's turn, if it is one of ours. */
static __always_inline struct tcp_sock *turn(struct bpf_iter__tcp *ctx)
{
	struct sock_common *skc = ctx->sk_common;

	if (!skc || !ours(skc))
		return 0;
	switch (skc->skc_state) {
	case TCP_LISTEN:
	case TCP_TIME_WAIT:
	case TCP_CLOSE:
		return 0;
	}
	return bpf_skc_to_tcp_sock(skc);
}

SEC("iter/tcp")
int telemetry_connections(struct bpf_iter__tcp *ctx)
{
	struct sock_common *skc = ctx->sk_common;
	struct seq_file *seq = ctx->meta->seq;
	struct tcp_sock *tp = turn(ctx);
	struct connection c = {};
	struct socket *socket;
	struct measured *m;

	if (!tp || !skc)
		return 0;
	if (skc->skc_family == AF_INET) {
		addr_map4(&c.local, skc->skc_rcv_saddr);
		addr_map4(&c.remote, skc->skc_daddr);
	} else {
		addr_map6(&c.local, &skc->skc_v6_rcv_saddr);
		addr_map6(&c.remote, &skc->skc_v6_daddr);
	}
	c.local_port = skc->skc_num;
	c.remote_port = bpf_ntohs(skc->skc_dport);
	c.state = skc->skc_state;
	c.timed = !!(tp->bpf_sock_ops_cb_flags & BPF_SOCK_OPS_RTT_CB_FLAG);
	c.uid = ctx->uid;
	c.netns = skc->skc_net.net->ns.inum;
	/* The kernel's own connections have no file, those that are closed no socket any more. */
	socket = ((struct sock *)tp)->sk_socket;
	if (socket)
		bpf_core_read(&c.inode, sizeof(unsigned long), &((struct socket_alloc *)socket)->vfs_inode.i_ino);
	c.cookie = bpf_get_socket_cookie(tp);
	c.bytes_acked = tp->bytes_acked;
	c.bytes_received = tp->bytes_received;
	c.srtt_us = tp->srtt_us;
	c.rtt_min_us = tp->rtt_min.s[0].v;
	c.cwnd = tp->snd_cwnd;
	c.retransmits = tp->total_retrans;
	c.receive_queue = tp->rcv_nxt - tp->copied_seq;
	c.unacked = tp->snd_nxt - tp->snd_una;
	c.unsent = tp->write_seq - tp->snd_nxt;
	bpf_seq_write(seq, &c, sizeof(c));
	m = bpf_sk_storage_get(&telemetry_sockets, tp, 0, 0);
	if (m)
		bpf_seq_write(seq, &m->rtt, sizeof(nothing));
	else
		bpf_seq_write(seq, nothing, sizeof(nothing));
	return 0;
}

/* Connections that are up when telemetry is loaded: round trips are asked for of them too. */
SEC("iter/tcp")
int telemetry_adopt(struct bpf_iter__tcp *ctx)
{
	struct seq_file *seq = ctx->meta->seq;
	struct tcp_sock *tp = turn(ctx);
	int flags, err;

	if (!tp)
		return 0;
	flags = tp->bpf_sock_ops_cb_flags | BPF_SOCK_OPS_RTT_CB_FLAG;
	bpf_sk_storage_get(&telemetry_sockets, tp, 0, BPF_SK_STORAGE_GET_F_CREATE);
	err = bpf_setsockopt(tp, SOL_TCP, SOCK_OPS_CB_FLAGS, &flags, sizeof(flags));
	bpf_seq_write(seq, &err, sizeof(err));
	return 0;
}

/* An octet for each socket of which something is kept. Only tests load this. */
SEC("iter/bpf_sk_storage_map")
int telemetry_kept(struct bpf_iter__bpf_sk_storage_map *ctx)
{
	char c = '.';

	if (ctx->sk && ctx->value)
		bpf_seq_write(ctx->meta->seq, &c, 1);
	return 0;
}

char _license[] SEC("license") = "Dual MIT/GPL";

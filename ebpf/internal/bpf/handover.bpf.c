//go:build ignore

// SPDX-License-Identifier: (GPL-2.0-only OR MIT)
/*
 * Handover: connections to the addresses of a prefix are handed over to one listening socket,
 * whatever address that socket is bound to. Several processes may have prefixes of one range.
 */
#include "rds.h"
#include <linux/in.h>

#define PREFIXES_MAX	131072
#define LISTENERS_MAX	16384

/* The longest prefix counts. An IPv6 prefix has no IPv4 addresses in it, not even ::/0. */
struct prefix_key {
	__u32 prefixlen;	/* bits that count, those of port, family and pad with them */
	__be16 port;
	__u8 family;		/* 4 or 6 */
	__u8 pad;
	struct addr addr;
};

struct prefix_value {
	__u64 cookie;		/* of the listening socket that has registered the prefix */
	__u32 prefixlen;	/* that of the key: user space learns which prefix a look-up has found */
	__u32 pad;
};

struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, PREFIXES_MAX);
	__type(key, struct prefix_key);
	__type(value, struct prefix_value);
} rds_prefixes SEC(".maps");

/*
 * Listening sockets by their cookies. A socket that is closed leaves the map by itself, and no
 * other socket ever has its cookie: prefixes that a dead process leaves lead nowhere.
 */
struct {
	__uint(type, BPF_MAP_TYPE_SOCKHASH);
	__uint(max_entries, LISTENERS_MAX);
	__type(key, __u64);
	__type(value, __u64);
} rds_listeners SEC(".maps");

struct totals {
	__u64 handed;	/* look-ups that have found a listener */
	__u64 vacant;	/* look-ups whose prefix is registered by a socket that is closed */
	__u64 refused;	/* the kernel has not taken the listener */
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct totals);
} rds_handed SEC(".maps");

/*
 * A filter that is asked last: the program of an admission that refuses. Among several programs
 * of a network namespace the choice of one beats the SK_DROP of another one. Within one program,
 * which this one and the filter are by the tail call, SK_DROP beats the choice.
 */
struct {
	__uint(type, BPF_MAP_TYPE_PROG_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} rds_filter SEC(".maps");

/* A note of user space to itself: with which options this was loaded. */
struct config {
	char json[4096];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct config);
} rds_handover SEC(".maps");

/*
 * handover_lookup runs when TCP looks for a listener. Without a filter the verdict is always
 * SK_PASS: with no socket chosen the kernel looks for a listener by itself. A choice of another
 * program stands.
 */
SEC("sk_lookup")
int handover_lookup(struct bpf_sk_lookup *ctx)
{
	struct prefix_key key = { .prefixlen = 32 + 128 };
	struct prefix_value *found;
	struct totals *totals;
	struct bpf_sock *sk;
	__u64 cookie;
	__u32 zero = 0;

	if (ctx->protocol != IPPROTO_TCP || !rds_port(ctx->local_port))
		return SK_PASS;
	key.port = bpf_htons(ctx->local_port);
	if (ctx->family == AF_INET) {
		key.family = 4;
		addr_map4(&key.addr, ctx->local_ip4);
	} else {
		/* The verifier refuses reads that the compiler has merged. */
		volatile __u32 *ip6 = ctx->local_ip6;

		key.family = 6;
		key.addr.word[0] = ip6[0];
		key.addr.word[1] = ip6[1];
		key.addr.word[2] = ip6[2];
		key.addr.word[3] = ip6[3];
	}
	found = bpf_map_lookup_elem(&rds_prefixes, &key);
	if (!found)
		return SK_PASS;
	cookie = found->cookie;
	totals = bpf_map_lookup_elem(&rds_handed, &zero);
	if (!totals)
		return SK_PASS;
	sk = bpf_map_lookup_elem(&rds_listeners, &cookie);
	if (!sk) {
		totals->vacant++;
		return SK_PASS;
	}
	if (bpf_sk_assign(ctx, sk, 0))
		totals->refused++;
	else
		totals->handed++;
	bpf_sk_release(sk);
	bpf_tail_call(ctx, &rds_filter, 0);
	return SK_PASS;
}

char _license[] SEC("license") = "Dual MIT/GPL";

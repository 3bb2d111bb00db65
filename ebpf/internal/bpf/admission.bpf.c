//go:build ignore

// SPDX-License-Identifier: (GPL-2.0-only OR MIT)
/*
 * Admission: connections from addresses that are not on a list are turned away before TCP
 * answers. sk_lookup refuses (the stranger gets a RST), tcx and XDP drop (the stranger gets
 * nothing). Only packets that begin a connection to one of the ports are looked at.
 */
#include "rds.h"
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>

#define LOOPBACK_IFINDEX	1	/* of "lo" in every network namespace */

#define TCX_NEXT	(-1)	/* the next program or the stack decides */
#define TCX_DROP	2

#define PACKET_HOST	0	/* linux/if_packet.h: the frame is for this host */

#define ETH_P_8021Q_BE	bpf_htons(ETH_P_8021Q)
#define ETH_P_8021AD_BE	bpf_htons(ETH_P_8021AD)
#define VLAN_TAGS	2	/* in the packet; a tag in the skb is not seen here */

#define IP_MORE		0x2000
#define IP_OFFSET	0x1fff
#define IP6_HEADERS	8	/* extension headers, at most */

#define TCP_SYN		0x02
#define TCP_ACK		0x10

#define LIST_MAX	65536	/* prefixes of a list */

#define OWN_MAX		4096	/* addresses of this host */

/*
 * The list. While a list replaces another one both are here: each has its generation. An
 * IPv6 prefix has no IPv4 addresses in it, not even ::/0, so the family is a part of the key.
 * With sk_lookup the host's own addresses are on the list; their value is not 0, for user space.
 */
struct list_key {
	__u32 prefixlen;	/* bits that count, those of tag with them */
	__u32 tag;		/* generation * 2, and 1 for IPv4; network byte order */
	struct addr addr;
};

struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 2 * (LIST_MAX + OWN_MAX));
	__type(key, struct list_key);
	__type(value, __u8);
} rds_list SEC(".maps");

/* User space writes it; programs read generation alone. */
struct state {
	__u32 generation;	/* of the list that counts; 0: there is none, everybody may connect */
	__u32 last;		/* the generation of the last list, empty or not */
	__u32 prefixes;		/* length of the list that counts */
	__u32 writing;		/* not 0: a process is replacing the list, or died while it did */
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct state);
} rds_state SEC(".maps");

/* Strangers by address. LRU: false source addresses push out the oldest entries. */
struct refused {
	__u64 count;
	__u64 last;	/* CLOCK_MONOTONIC, ns */
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, struct addr);
	__type(value, struct refused);
} rds_refused SEC(".maps");

struct totals {
	__u64 passed;
	__u64 refused;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct totals);
} rds_totals SEC(".maps");

/* A note of user space to itself: with which options this filter was loaded. */
struct config {
	char json[16384];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct config);
} rds_config SEC(".maps");

/*
 * An atomic operation that returns something orders all reads and writes around it. The
 * word is this CPU's own: there is nobody to contend with.
 */
static __always_inline void barrier_full(__u64 *word)
{
	__u64 was = __sync_fetch_and_add(word, 0);

	asm volatile("" : : "r"(was));
}

/*
 * listed tells whether the list has the address. User space writes a new list, then its
 * generation, and then deletes the old list. A miss counts only if the generation is still
 * the one that was looked for.
 */
static __always_inline bool listed(struct list_key *key, bool ip4, __u64 *word)
{
	volatile struct state *state;
	__u32 generation, zero = 0;
	int i;

	state = bpf_map_lookup_elem(&rds_state, &zero);
	if (!state)
		return true;
	generation = state->generation;
	for (i = 0; i < 4; i++) {
		if (!generation)
			return true;
		barrier_full(word);
		key->prefixlen = 32 + 128;
		key->tag = bpf_htonl(generation << 1 | ip4);
		if (bpf_map_lookup_elem(&rds_list, key))
			return true;
		barrier_full(word);
		if (state->generation == generation)
			return false;
		generation = state->generation;
	}
	return false;
}

/* unlisted tells whether the list does not have an address; it counts those that pass. */
static __noinline int unlisted(struct addr *from)
{
	struct list_key key = {};
	struct totals *totals;
	__u32 zero = 0;
	bool ip4;

	if (!from)
		return 0;
	key.addr = *from;
	ip4 = !from->word[0] && !from->word[1] && from->word[2] == bpf_htonl(0xffff);
	totals = bpf_map_lookup_elem(&rds_totals, &zero);
	if (!totals)
		return 0;
	if (listed(&key, ip4, &totals->passed)) {
		totals->passed++;
		return 0;
	}
	return 1;
}

/* refuse counts a stranger who is turned away. */
static __noinline int refuse(struct addr *from)
{
	struct refused *old, new = { .count = 1 };
	struct totals *totals;
	__u32 zero = 0;

	totals = bpf_map_lookup_elem(&rds_totals, &zero);
	if (!from || !totals)
		return 0;
	totals->refused++;
	new.last = bpf_ktime_get_coarse_ns();
	old = bpf_map_lookup_elem(&rds_refused, from);
	if (old) {
		__sync_fetch_and_add(&old->count, 1);
		old->last = new.last;
	} else {
		bpf_map_update_elem(&rds_refused, from, &new, BPF_ANY);
	}
	return 0;
}

/*
 * admission_lookup runs when TCP looks for a listener: for SYNs, and for packets of
 * connections that are not there. SK_DROP makes it find none.
 */
SEC("sk_lookup")
int admission_lookup(struct bpf_sk_lookup *ctx)
{
	struct addr from;

	if (ctx->protocol != IPPROTO_TCP || !rds_port(ctx->local_port))
		return SK_PASS;
	/*
	 * This host may always connect to itself: from loopback, and from an address to the same
	 * one. Between two of its addresses the interface is that of the addresses; the list has them.
	 */
	if (ctx->ingress_ifindex == LOOPBACK_IFINDEX)
		return SK_PASS;
	if (ctx->family == AF_INET) {
		if (ctx->remote_ip4 == ctx->local_ip4)
			return SK_PASS;
		addr_map4(&from, ctx->remote_ip4);
	} else {
		/* The verifier refuses reads that the compiler has merged. */
		volatile __u32 *ip6 = ctx->remote_ip6;
		volatile __u32 *to = ctx->local_ip6;

		from.word[0] = ip6[0];
		from.word[1] = ip6[1];
		from.word[2] = ip6[2];
		from.word[3] = ip6[3];
		if (from.word[0] == to[0] && from.word[1] == to[1] && from.word[2] == to[2] && from.word[3] == to[3])
			return SK_PASS;
	}
	if (!unlisted(&from))
		return SK_PASS;
	refuse(&from);
	return SK_DROP;
}

/* What of a TCP header is looked at: 14 octets. */
struct tcp_start {
	__be16 source, dest;
	__be32 seq, ack;
	__u8 offset, flags;
} __attribute__((packed));

/* A packet, of an skb or of XDP; offsets are from the network header or from the frame's. */
struct packet {
	void *ctx;
	bool xdp;
};

static __always_inline bool load(const struct packet *p, __u32 at, void *to, __u32 len)
{
	if (p->xdp)
		return !bpf_xdp_load_bytes(p->ctx, at, to, len);
	return !bpf_skb_load_bytes_relative(p->ctx, at, to, len, BPF_HDR_START_NET);
}

/*
 * tcp tells whether a TCP header begins a connection to one of the ports. shown is how much
 * of TCP a first fragment has, the whole packet's is ~0. A fragment that is too short to
 * show its ports and flags counts as such a beginning (RFC 1858): no stack makes one.
 */
static __always_inline bool tcp(const struct packet *p, __u32 at, __u32 shown)
{
	struct tcp_start h;

	if (shown < sizeof(h)) {
		if (shown < 4 || !load(p, at, &h, 4))
			return true;
		return rds_port(bpf_ntohs(h.dest));
	}
	if (!load(p, at, &h, sizeof(h)))
		return shown != ~0;
	return (h.flags & (TCP_SYN | TCP_ACK)) == TCP_SYN && rds_port(bpf_ntohs(h.dest));
}

static __always_inline bool begins4(const struct packet *p, __u32 at, struct addr *from)
{
	__u32 fragment, shown = ~0, len;
	struct iphdr h;

	if (!load(p, at, &h, sizeof(h)))
		return false;
	if (h.protocol != IPPROTO_TCP || h.version != 4 || h.ihl < 5)
		return false;
	addr_map4(from, h.saddr);
	fragment = bpf_ntohs(h.frag_off);
	if (fragment & IP_OFFSET)
		return (fragment & IP_OFFSET) == 1;	/* it would overwrite the flags */
	if (fragment & IP_MORE) {
		len = bpf_ntohs(h.tot_len);
		shown = len > h.ihl * 4 ? len - h.ihl * 4 : 0;
	}
	return tcp(p, at + h.ihl * 4, shown);
}

/* extension tells whether a number is that of an IPv6 extension header. */
static __always_inline bool extension(__u8 next)
{
	switch (next) {
	case IPPROTO_HOPOPTS:
	case IPPROTO_ROUTING:
	case IPPROTO_DSTOPTS:
	case IPPROTO_AH:
	case IPPROTO_FRAGMENT:
		return true;
	}
	return false;
}

/* A walk along the extension headers of an IPv6 packet. */
struct walk {
	__u32 at;
	__u8 next;	/* what is there */
	bool first;	/* the packet is the first of several fragments */
};

enum verdict { WALK_ON, PASSES_6, BEGINS_6 };

/* step goes past one extension header, or tells what the packet is. */
static __always_inline int step(const struct packet *p, struct walk *w)
{
	struct {
		__u8 next, len;
		__be16 fragment;
	} x;

	if (!load(p, w->at, &x, sizeof(x)))
		return w->first ? BEGINS_6 : PASSES_6;
	if (w->next == IPPROTO_FRAGMENT) {
		__u32 fragment = bpf_ntohs(x.fragment);

		if (fragment >> 3)
			return fragment >> 3 == 1 && x.next == IPPROTO_TCP ? BEGINS_6 : PASSES_6;
		w->first = w->first || (fragment & 1);
		w->at += 8;
	} else if (w->next == IPPROTO_AH) {
		w->at += (x.len + 2) * 4;
	} else {
		w->at += (x.len + 1) * 8;
	}
	w->next = x.next;
	return WALK_ON;
}

static __noinline int step_skb(struct __sk_buff *skb, struct walk *w)
{
	struct packet p = { .ctx = skb, .xdp = false };

	return step(&p, w);
}

static __noinline int step_xdp(struct xdp_md *ctx, struct walk *w)
{
	struct packet p = { .ctx = ctx, .xdp = true };

	return step(&p, w);
}

static __always_inline bool begins6(const struct packet *p, __u32 at, struct addr *from)
{
	struct walk w = { .at = at + sizeof(struct ipv6hdr) };
	__u32 end, shown = ~0;
	struct ipv6hdr h;
	int i, verdict;

	if (!load(p, at, &h, sizeof(h)) || h.version != 6)
		return false;
	__builtin_memcpy(from, &h.saddr, sizeof(*from));
	w.next = h.nexthdr;
	end = w.at + bpf_ntohs(h.payload_len);
	/* Not a loop for the verifier: that of Linux 6.1 refuses one whose end falls through to its head. */
#pragma clang loop unroll(full)
	for (i = 0; i < IP6_HEADERS; i++) {
		if (!extension(w.next))
			break;
		verdict = p->xdp ? step_xdp(p->ctx, &w) : step_skb(p->ctx, &w);
		if (verdict != WALK_ON)
			return verdict == BEGINS_6;
	}
	if (extension(w.next))
		return true;	/* nobody needs so many but to hide what is behind them */
	if (w.next != IPPROTO_TCP)
		return false;
	if (w.first)
		shown = end > w.at ? end - w.at : 0;
	return tcp(p, w.at, shown);
}

/*
 * Functions that are not static are verified once, for any arguments, and not again for each
 * way that leads to them.
 */
__noinline int begins6_skb(struct __sk_buff *skb, __u32 at, struct addr *from)
{
	struct packet p = { .ctx = skb, .xdp = false };

	return from && begins6(&p, at, from);
}

__noinline int begins6_xdp(struct xdp_md *ctx, __u32 at, struct addr *from)
{
	struct packet p = { .ctx = ctx, .xdp = true };

	return from && begins6(&p, at, from);
}

/* begins tells whether a packet begins a connection to one of the ports, and from where. */
static __always_inline bool begins(const struct packet *p, __be16 proto, __u32 at, struct addr *from)
{
	int i;

	for (i = 0; i < VLAN_TAGS; i++) {
		struct {
			__be16 tag, proto;
		} vlan;

		if (proto != ETH_P_8021Q_BE && proto != ETH_P_8021AD_BE)
			break;
		if (!load(p, at, &vlan, sizeof(vlan)))
			return false;
		proto = vlan.proto;
		at += sizeof(vlan);
	}
	if (proto == bpf_htons(ETH_P_IP))
		return begins4(p, at, from);
	if (proto != bpf_htons(ETH_P_IPV6))
		return false;
	/* Verifiers such as that of Linux 6.1.172 want what another function may read initialized. */
	__builtin_memset(from, 0, sizeof(*from));
	return p->xdp ? begins6_xdp(p->ctx, at, from) : begins6_skb(p->ctx, at, from);
}

/* Set before loading: all interfaces have Ethernet headers. */
const volatile bool rds_ethernet = false;

enum quick {
	PASSES,		/* begins no connection to one of the ports */
	BEGINS,
	UNCLEAR,	/* options, extensions, fragments, tags, a header that is not at hand */
};

static __always_inline enum quick quick_tcp(const struct tcp_start *h)
{
	if ((h->flags & (TCP_SYN | TCP_ACK)) != TCP_SYN)
		return PASSES;
	return rds_port(bpf_ntohs(h->dest)) ? BEGINS : PASSES;
}

/* quick judges what most packets are, TCP right behind IP right behind Ethernet, in place. */
static __always_inline enum quick quick(void *data, void *end, __be16 proto, struct addr *from)
{
	struct ethhdr *eth = data;

	if (!rds_ethernet || data + sizeof(*eth) > end || eth->h_proto != proto)
		return UNCLEAR;
	if (proto == bpf_htons(ETH_P_IP)) {
		struct iphdr *h = data + sizeof(*eth);
		struct tcp_start *t = (void *)(h + 1);

		if ((void *)(t + 1) > end || h->version != 4 || h->ihl != 5)
			return UNCLEAR;
		if (h->protocol != IPPROTO_TCP)
			return PASSES;
		if (h->frag_off & bpf_htons(IP_MORE | IP_OFFSET))
			return UNCLEAR;
		if (quick_tcp(t) == PASSES)
			return PASSES;
		addr_map4(from, h->saddr);
		return BEGINS;
	}
	if (proto == bpf_htons(ETH_P_IPV6)) {
		struct ipv6hdr *h = data + sizeof(*eth);
		struct tcp_start *t = (void *)(h + 1);

		if ((void *)(t + 1) > end || h->version != 6 || h->nexthdr != IPPROTO_TCP)
			return UNCLEAR;
		if (quick_tcp(t) == PASSES)
			return PASSES;
		__builtin_memcpy(from, &h->saddr, sizeof(*from));
		return BEGINS;
	}
	return UNCLEAR;
}

/*
 * forwards tells whether this host would send a packet on, which is none of this filter's
 * business. The answers of bpf_fib_lookup are "not forwarded" for an address of this host.
 */
static __always_inline bool forwards(void *ctx, struct bpf_fib_lookup *fib)
{
	fib->l4_protocol = IPPROTO_TCP;
	switch (bpf_fib_lookup(ctx, fib, sizeof(*fib), 0)) {
	case BPF_FIB_LKUP_RET_SUCCESS:
	case BPF_FIB_LKUP_RET_UNSUPP_LWT:
	case BPF_FIB_LKUP_RET_NO_NEIGH:
	case BPF_FIB_LKUP_RET_FRAG_NEEDED:
		return true;
	}
	return false;
}

static __noinline int forwards_skb(struct __sk_buff *skb)
{
	struct bpf_fib_lookup fib = { .ifindex = skb->ifindex };
	__be32 ends[2];

	if (skb->protocol == bpf_htons(ETH_P_IP)) {
		fib.family = AF_INET;
		if (bpf_skb_load_bytes_relative(skb, 12, ends, sizeof(ends), BPF_HDR_START_NET))
			return 0;
		fib.ipv4_src = ends[0];
		fib.ipv4_dst = ends[1];
	} else if (skb->protocol == bpf_htons(ETH_P_IPV6)) {
		fib.family = AF_INET6;
		if (bpf_skb_load_bytes_relative(skb, 8, fib.ipv6_src, 32, BPF_HDR_START_NET)) /* and ipv6_dst */
			return 0;
	} else {
		return 0;
	}
	return forwards(skb, &fib);
}

/* A tag says which of the host's networks a packet is of: those with tags are not looked at. */
static __noinline int forwards_xdp(struct xdp_md *ctx, __be16 proto)
{
	struct bpf_fib_lookup fib = { .ifindex = ctx->ingress_ifindex };
	__u32 at = sizeof(struct ethhdr);
	__be32 ends[2];

	if (proto == bpf_htons(ETH_P_IP)) {
		fib.family = AF_INET;
		if (bpf_xdp_load_bytes(ctx, at + 12, ends, sizeof(ends)))
			return 0;
		fib.ipv4_src = ends[0];
		fib.ipv4_dst = ends[1];
	} else if (proto == bpf_htons(ETH_P_IPV6)) {
		fib.family = AF_INET6;
		if (bpf_xdp_load_bytes(ctx, at + 8, fib.ipv6_src, 32)) /* and ipv6_dst */
			return 0;
	} else {
		return 0;
	}
	return forwards(ctx, &fib);
}

SEC("tcx/ingress")
int admission_tcx(struct __sk_buff *skb)
{
	struct packet p = { .ctx = skb, .xdp = false };
	__be16 proto = skb->protocol;
	struct addr from;
	enum quick q;

	q = quick((void *)(long)skb->data, (void *)(long)skb->data_end, proto, &from);
	if (q == UNCLEAR)
		q = begins(&p, proto, 0, &from) ? BEGINS : PASSES;
	if (q == PASSES || skb->pkt_type != PACKET_HOST || !unlisted(&from) || forwards_skb(skb))
		return TCX_NEXT;
	refuse(&from);
	return TCX_DROP;
}

SEC("xdp.frags")
int admission_xdp(struct xdp_md *ctx)
{
	struct packet p = { .ctx = ctx, .xdp = true };
	void *data = (void *)(long)ctx->data;
	void *end = (void *)(long)ctx->data_end;
	struct ethhdr *eth = data;
	struct addr from;
	enum quick q;
	__be16 proto;

	if (data + sizeof(*eth) > end)
		return XDP_PASS;
	proto = eth->h_proto;
	q = quick(data, end, proto, &from);
	if (q == UNCLEAR)
		q = begins(&p, proto, sizeof(*eth), &from) ? BEGINS : PASSES;
	if (q == PASSES || !unlisted(&from) || forwards_xdp(ctx, proto))
		return XDP_PASS;
	refuse(&from);
	return XDP_DROP;
}

char _license[] SEC("license") = "Dual MIT/GPL";

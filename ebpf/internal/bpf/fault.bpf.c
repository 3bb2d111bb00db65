//go:build ignore

// SPDX-License-Identifier: (GPL-2.0-only OR MIT)
/*
 * Faults for tests: packets of TCP connections that go through one interface are dropped,
 * sent twice, changed, or sent later. User space writes rules, the programs count what
 * they do. A rule that has ended, by its time or its count, does nothing.
 */
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/tcp.h>
#include "rds.h"

#define RULES_MAX	16
#define ALWAYS		(1ULL << 32)	/* rate of a rule that hits each packet */

#define VERDICT_NEXT	-1		/* TCX_NEXT and TCX_DROP of linux/bpf.h, since Linux 6.6 */
#define VERDICT_DROP	2

#define FRAG_OFFSET	0x1fff		/* of iphdr.frag_off */
#define FRAG6_OFFSET	0xfff8		/* of frag6.offset */

enum kind {
	KIND_NONE,	/* no rule */
	KIND_DROP,
	KIND_DUPLICATE,
	KIND_CORRUPT,	/* changes one bit of the payload; the checksum stays as it is */
	KIND_DELAY,	/* the qdisc fq keeps the packet */
};

enum { DIR_IN = 1, DIR_OUT = 2 };

enum {
	RULE_LOCAL = 1,		/* the local address counts */
	RULE_REMOTE = 2,	/* the remote address counts */
	RULE_EITHER = 4,	/* local and remote may be the other way round: loopback */
};

/* Written by user space only. Ports are in host byte order. */
struct rule {
	__u64 until;		/* time of CLOCK_MONOTONIC, in ns, when the rule ends */
	__u64 count;		/* packets after which the rule ends; 0: any number */
	__u64 rate;		/* ALWAYS times the probability that a packet is hit */
	__u64 delay;		/* ns, of KIND_DELAY */
	__u32 kind;
	__u32 direction;
	__u32 flags;
	struct addr local;
	struct addr remote;
	__u16 local_port;	/* 0: any */
	__u16 remote_port;	/* 0: any */
	__u16 ports[PORTS_MAX];	/* one end has one of these; the first is 0: any */
};

/* Written by the programs only. */
struct counts {
	__u64 seen;		/* packets that the rule is for */
	__u64 hit;		/* packets that the rule did something to */
	__u64 bytes;		/* their octets, headers included */
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, RULES_MAX);
	__type(key, __u32);
	__type(value, struct rule);
} fault_rules SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, RULES_MAX);
	__type(key, __u32);
	__type(value, struct counts);
} fault_counts SEC(".maps");

/* Length of the interface's link-layer header: 14, or 0 of one that has none. */
const volatile __u32 fault_l2 = ETH_HLEN;
/* Tells duplicates apart from packets that other programs have left something in cb. */
const volatile __u32 fault_magic[2];

/* frag6 is the fragment header of IPv6. */
struct frag6 {
	__u8 next;
	__u8 reserved;
	__be16 offset;
	__be32 id;
};

struct vlan {
	__be16 tci;
	__be16 protocol;
};

/* A TCP packet, or a burst of them that is cut into packets later. */
struct packet {
	struct __sk_buff *skb;
	struct addr src;
	struct addr dst;
	__u16 sport;
	__u16 dport;
	__u32 payload;		/* where the payload begins */
	__u32 len;		/* its length */
	__u32 direction;
	__u32 segs;		/* packets of the burst */
	int verdict;
	bool done;
};

/* ipv6_transport finds TCP behind extension headers. */
static __always_inline bool ipv6_transport(struct __sk_buff *skb, __u8 next, __u32 *off)
{
	struct ipv6_opt_hdr opt;
	struct frag6 frag;
	int i;

	for (i = 0; i < 6; i++) {
		switch (next) {
		case IPPROTO_TCP:
			return true;
		case IPPROTO_FRAGMENT:
			if (bpf_skb_load_bytes(skb, *off, &frag, sizeof(frag)) < 0)
				return false;
			if (frag.offset & bpf_htons(FRAG6_OFFSET))
				return false;
			next = frag.next;
			*off += sizeof(frag);
			break;
		case IPPROTO_HOPOPTS:
		case IPPROTO_ROUTING:
		case IPPROTO_DSTOPTS:
			if (bpf_skb_load_bytes(skb, *off, &opt, sizeof(opt)) < 0)
				return false;
			next = opt.nexthdr;
			*off += (opt.hdrlen + 1) << 3;
			break;
		default:
			return false;
		}
	}
	return next == IPPROTO_TCP;
}

/* parse is true of a TCP packet whose header is there: of fragments only the first. */
static __always_inline bool parse(struct __sk_buff *skb, struct packet *p)
{
	__u32 off = fault_l2, end = 0, header;
	__be16 protocol = skb->protocol;
	struct ipv6hdr ip6;
	struct iphdr ip4;
	struct tcphdr tcp;
	struct vlan vlan;
	int i;

	for (i = 0; i < 2; i++) {
		if (protocol != bpf_htons(ETH_P_8021Q) && protocol != bpf_htons(ETH_P_8021AD))
			break;
		if (bpf_skb_load_bytes(skb, off, &vlan, sizeof(vlan)) < 0)
			return false;
		protocol = vlan.protocol;
		off += sizeof(vlan);
	}
	if (protocol == bpf_htons(ETH_P_IP)) {
		if (bpf_skb_load_bytes(skb, off, &ip4, sizeof(ip4)) < 0)
			return false;
		if (ip4.version != 4 || ip4.ihl < 5 || ip4.protocol != IPPROTO_TCP)
			return false;
		if (ip4.frag_off & bpf_htons(FRAG_OFFSET))
			return false;
		addr_map4(&p->src, ip4.saddr);
		addr_map4(&p->dst, ip4.daddr);
		/* A burst above 64 KiB has length 0. */
		if (ip4.tot_len)
			end = off + bpf_ntohs(ip4.tot_len);
		off += ip4.ihl * 4;
	} else if (protocol == bpf_htons(ETH_P_IPV6)) {
		if (bpf_skb_load_bytes(skb, off, &ip6, sizeof(ip6)) < 0)
			return false;
		if (ip6.version != 6)
			return false;
		__builtin_memcpy(&p->src, &ip6.saddr, sizeof(p->src));
		__builtin_memcpy(&p->dst, &ip6.daddr, sizeof(p->dst));
		off += sizeof(ip6);
		if (ip6.payload_len)
			end = off + bpf_ntohs(ip6.payload_len);
		if (!ipv6_transport(skb, ip6.nexthdr, &off))
			return false;
	} else {
		return false;
	}
	if (bpf_skb_load_bytes(skb, off, &tcp, sizeof(tcp)) < 0)
		return false;
	p->sport = bpf_ntohs(tcp.source);
	p->dport = bpf_ntohs(tcp.dest);
	header = tcp.doff * 4;
	if (header < sizeof(tcp))
		return false;
	if (!end || end > skb->len)	/* what is behind the end is padding */
		end = skb->len;
	p->payload = off + header;
	p->len = end > p->payload ? end - p->payload : 0;
	return true;
}

static __always_inline bool same(const struct addr *a, const struct addr *b)
{
	return a->word[0] == b->word[0] && a->word[1] == b->word[1] &&
	       a->word[2] == b->word[2] && a->word[3] == b->word[3];
}

static __always_inline bool ends(const struct rule *r, const struct addr *local, __u16 local_port,
				 const struct addr *remote, __u16 remote_port)
{
	return (!(r->flags & RULE_LOCAL) || same(&r->local, local)) &&
	       (!(r->flags & RULE_REMOTE) || same(&r->remote, remote)) &&
	       (!r->local_port || r->local_port == local_port) &&
	       (!r->remote_port || r->remote_port == remote_port);
}

static __always_inline bool matches(const struct rule *r, const struct packet *p)
{
	bool in = p->direction == DIR_IN;
	int i;

	if (!(r->direction & p->direction))
		return false;
	if (r->ports[0]) {
		for (i = 0; i < PORTS_MAX; i++) {
			if (r->ports[i] && (r->ports[i] == p->sport || r->ports[i] == p->dport))
				break;
		}
		if (i == PORTS_MAX)
			return false;
	}
	if ((!in || r->flags & RULE_EITHER) && ends(r, &p->src, p->sport, &p->dst, p->dport))
		return true;
	return (in || r->flags & RULE_EITHER) && ends(r, &p->dst, p->dport, &p->src, p->sport);
}

/*
 * drop makes the packet vanish. The sender's TCP must not hear of it, or nothing is lost: a
 * drop at egress is reported to it. A redirect to an interface that is not there is not.
 */
static __always_inline int drop(const struct packet *p)
{
	return p->direction == DIR_IN ? VERDICT_DROP : bpf_redirect(0, 0);
}

/* duplicate is false if the packet could not be sent twice. */
static __always_inline bool duplicate(struct packet *p)
{
	struct __sk_buff *skb = p->skb;
	__u32 cb[2] = { skb->cb[0], skb->cb[1] };
	long err;

	/* The copy comes here again. */
	skb->cb[0] = fault_magic[0];
	skb->cb[1] = fault_magic[1];
	err = bpf_clone_redirect(skb, skb->ifindex, p->direction == DIR_IN ? BPF_F_INGRESS : 0);
	skb->cb[0] = cb[0];
	skb->cb[1] = cb[1];
	return !err;
}

/* corrupt changes one bit. The sender's data stay: the kernel copies what is shared. */
static __always_inline bool corrupt(struct packet *p)
{
	__u64 r = bpf_get_prandom_u32();
	__u32 off = p->payload + (__u32)(r * p->len >> 32);
	__u8 b;

	if (bpf_skb_load_bytes(p->skb, off, &b, sizeof(b)) < 0)
		return false;
	b ^= 1 << (bpf_get_prandom_u32() & 7);
	return bpf_skb_store_bytes(p->skb, off, &b, sizeof(b), 0) == 0;
}

/* delay sets the earliest time at which the qdisc fq lets the packet go. */
static __always_inline bool delay(const struct rule *r, struct packet *p)
{
	__u64 at = p->skb->tstamp, now = bpf_ktime_get_ns();

	if (at < now)
		at = now;
	return bpf_skb_set_tstamp(p->skb, at + r->delay, BPF_SKB_TSTAMP_DELIVERY_MONO) == 0;
}

/* apply is called for each rule until one of them has hit the packet. */
static long apply(__u32 i, struct packet *p)
{
	__u64 rate, n = p->segs, hit;
	struct counts *c;
	struct rule *r;
	bool ok = true;

	r = bpf_map_lookup_elem(&fault_rules, &i);
	c = bpf_map_lookup_elem(&fault_counts, &i);
	if (!r || !c)
		return 1;
	if (r->kind == KIND_NONE || !matches(r, p) || bpf_ktime_get_ns() >= r->until)
		return 0;
	if (r->count && *(volatile __u64 *)&c->hit >= r->count)
		return 0;
	if (r->kind == KIND_CORRUPT && !p->len)
		return 0;
	__sync_fetch_and_add(&c->seen, n);
	rate = r->rate;
	hit = n;
	if (r->kind == KIND_CORRUPT) {	/* one packet of a burst: each has its chance */
		rate *= n;
		hit = 1;
	}
	if (bpf_get_prandom_u32() >= rate)
		return 0;
	/* Only who counts first acts: processors do not exceed the count together. */
	n = __sync_fetch_and_add(&c->hit, hit);
	if (r->count && n >= r->count) {
		__sync_fetch_and_add(&c->hit, -hit);
		return 0;
	}
	switch (r->kind) {
	case KIND_DROP:
		p->verdict = drop(p);
		break;
	case KIND_DUPLICATE:
		ok = duplicate(p);
		break;
	case KIND_CORRUPT:
		ok = corrupt(p);
		break;
	case KIND_DELAY:
		ok = delay(r, p);
		break;
	}
	if (!ok) {
		__sync_fetch_and_add(&c->hit, -hit);
		return 0;
	}
	__sync_fetch_and_add(&c->bytes, p->skb->len);
	return 1;
}

static __always_inline int fault(struct __sk_buff *skb, __u32 direction)
{
	struct packet p = { .skb = skb, .direction = direction, .verdict = VERDICT_NEXT };

	if (skb->cb[0] == fault_magic[0] && skb->cb[1] == fault_magic[1]) {
		skb->cb[0] = 0;
		skb->cb[1] = 0;
		return VERDICT_NEXT;
	}
	if (!parse(skb, &p))
		return VERDICT_NEXT;
	p.segs = skb->gso_segs ?: 1;
	bpf_loop(RULES_MAX, apply, &p, 0);
	return p.verdict;
}

SEC("tcx/ingress")
int fault_in(struct __sk_buff *skb)
{
	return fault(skb, DIR_IN);
}

SEC("tcx/egress")
int fault_out(struct __sk_buff *skb)
{
	return fault(skb, DIR_OUT);
}

char _license[] SEC("license") = "Dual MIT/GPL";

/* SPDX-License-Identifier: (GPL-2.0-only OR MIT) */
/* What the programs share: ports, addresses, histograms. */
#ifndef RDS_H
#define RDS_H

#include <stdbool.h>
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>

#define AF_INET		2
#define AF_INET6	10

#define PORTS_MAX	8	/* TCP ports that a program looks at */

/* TCP ports, in host byte order, of RDS over TCP and of RDS on XRC. Set before loading. */
const volatile __u16 rds_ports[PORTS_MAX] = { 16385, 18634 };
const volatile __u32 rds_ports_len = 2;

static __always_inline bool rds_port(__u16 port)
{
	__u32 i;

	for (i = 0; i < PORTS_MAX; i++) {
		if (i >= rds_ports_len)
			break;
		if (rds_ports[i] == port)
			return true;
	}
	return false;
}

/* An IPv6 address, or an IPv4 address mapped into IPv6: ::ffff:a.b.c.d. Network byte order. */
struct addr {
	__u32 word[4];
};

static __always_inline void addr_map4(struct addr *a, __u32 ip4)
{
	a->word[0] = 0;
	a->word[1] = 0;
	a->word[2] = bpf_htonl(0xffff);
	a->word[3] = ip4;
}

/* A histogram of nanoseconds by powers of two: bucket n counts [2^n, 2^(n+1)). */
#define HIST_BUCKETS	40

struct hist {
	__u64 sum;
	__u64 count;
	__u64 bucket[HIST_BUCKETS];
};

static __always_inline __u32 log2_u64(__u64 v)
{
	__u32 r = 0;

	if (v >> 32) { v >>= 32; r += 32; }
	if (v >> 16) { v >>= 16; r += 16; }
	if (v >> 8) { v >>= 8; r += 8; }
	if (v >> 4) { v >>= 4; r += 4; }
	if (v >> 2) { v >>= 2; r += 2; }
	if (v >> 1) r += 1;
	return r;
}

/* hist_add is atomic: several CPUs may share a histogram. */
static __always_inline void hist_add(struct hist *h, __u64 ns)
{
	__u32 n = log2_u64(ns);

	if (n >= HIST_BUCKETS)
		n = HIST_BUCKETS - 1;
	__sync_fetch_and_add(&h->bucket[n], 1);
	__sync_fetch_and_add(&h->sum, ns);
	__sync_fetch_and_add(&h->count, 1);
}

#endif

//go:build ignore

// SPDX-License-Identifier: (GPL-2.0-only OR MIT)
#include "rds.h"

SEC("sk_lookup")
int admission_lookup(struct bpf_sk_lookup *ctx)
{
	return rds_port(ctx->local_port) ? SK_DROP : SK_PASS;
}

char _license[] SEC("license") = "Dual MIT/GPL";

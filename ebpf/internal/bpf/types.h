/* SPDX-License-Identifier: (GPL-2.0-only OR MIT) */
/*
 * The few fields of kernel structs that the programs read. The loader finds their
 * offsets in the BTF of the running kernel (CO-RE), so the order and the size here do
 * not matter. Only what a program needs is added.
 */
#ifndef TYPES_H
#define TYPES_H

#include <linux/types.h>

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct ns_common {
	unsigned int inum;
};

struct net {
	struct ns_common ns;
};

typedef struct {
	struct net *net;
} possible_net_t;

struct in6_addr {
	union {
		__u32 u6_addr32[4];
	} in6_u;
};

struct sock_common {
	__be32 skc_daddr;
	__be32 skc_rcv_saddr;
	__be16 skc_dport;
	__u16 skc_num;
	unsigned short skc_family;
	volatile unsigned char skc_state;
	possible_net_t skc_net;
	struct in6_addr skc_v6_daddr;
	struct in6_addr skc_v6_rcv_saddr;
};

struct inode {
	unsigned long i_ino;
};

struct socket {
	void *sk;
};

struct socket_alloc {
	struct socket socket;
	struct inode vfs_inode;
};

struct sock {
	struct sock_common __sk_common;
	struct socket *sk_socket;
};

struct minmax_sample {
	__u32 v;
};

struct minmax {
	struct minmax_sample s[3];
};

struct tcp_sock {
	__u32 rcv_nxt;
	__u32 copied_seq;
	__u32 snd_una;
	__u32 snd_nxt;
	__u32 write_seq;
	__u32 srtt_us;
	__u32 snd_cwnd;
	__u32 total_retrans;
	__u64 tcp_clock_cache;
	__u64 bytes_acked;
	__u64 bytes_received;
	struct minmax rtt_min;
	__u8 bpf_sock_ops_cb_flags;
};

struct sk_buff {
	__be16 protocol;
	__u16 transport_header;
	__u16 network_header;
	unsigned char *head;
};

struct seq_file;

struct bpf_iter_meta {
	struct seq_file *seq;
};

struct bpf_iter__tcp {
	struct bpf_iter_meta *meta;
	struct sock_common *sk_common;
	unsigned int uid;
};

struct bpf_iter__bpf_sk_storage_map {
	struct bpf_iter_meta *meta;
	struct bpf_map *map;
	struct sock *sk;
	void *value;
};

/* A thread. */
struct task_struct {
	int pid;
	int tgid;
	int on_cpu;
	unsigned int flags;
	char comm[16];
};

struct task_struct___state {	/* since Linux 5.14 */
	unsigned int __state;
};

struct task_struct___old {
	long state;
};

/* Where the context that a CPU is in is counted: with the thread (arm64), or ... */
struct preempt___count {
	__u32 count;
};

struct thread_info___count {
	struct preempt___count preempt;
};

struct task_struct___count {
	struct thread_info___count thread_info;
};

/* ... with the CPU (x86): Linux 6.2 to 6.14; others have a variable of its own. */
struct pcpu_hot {
	int preempt_count;
};

/* The registers of a thread in user mode. */
struct pt_regs___x86 {
	unsigned long di;
	unsigned long orig_ax;
};

struct pt_regs___arm64 {
	__u64 orig_x0;
	__s32 syscallno;
};

#pragma clang attribute pop

#endif

//go:build ignore

// SPDX-License-Identifier: (GPL-2.0-only OR MIT)
/*
 * How the threads of a few processes sleep, wake up and wait for a CPU. Three tracepoints of
 * the scheduler, in the order in which they tell of one wake-up:
 *
 *   sched_waking   runs on the CPU of whoever wakes a thread, before the thread is moved. Only
 *                  here is the current task the waker.
 *   sched_wakeup   the thread is runnable. It may still be on its CPU: then it was woken
 *                  before it had gone to sleep, and will not be switched in.
 *   sched_switch   a thread leaves a CPU, another one gets it.
 */
#include "rds.h"
#include "types.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>

#define PIDS_MAX	64
#define THREADS_MAX	4096
#define WAKES_MAX	8192
#define FD_CALLS_MAX	8
#define COMM_LEN	16

#define PF_KTHREAD	0x00200000

/* The context that a wake-up came from. */
enum {
	CONTEXT_TASK,		/* a thread did it */
	CONTEXT_SOFTIRQ,	/* a softirq on top of a thread, such as the receiving of packets */
	CONTEXT_HARDIRQ,	/* an interrupt, such as a timer's: the thread below has no part in it */
	CONTEXT_UNKNOWN,	/* a thread or what runs on top of it */
};

#define SOFTIRQ_SERVING	0x00000100	/* include/linux/preempt.h */
#define HARDIRQ_NMI	0x00ff0000

struct thread {
	__u64 ready;		/* since when it waits for a CPU; 0: it does not */
	__u64 on;		/* since when it runs; 0: it does not */
	__u64 off;		/* since when it sleeps; 0: it does not */
	__u64 cpu;		/* ns on a CPU */
	__u64 asleep;		/* ns asleep */
	__u64 preempted;	/* ns it waited for a CPU after a preemption */
	__u64 wakeups;
	__u64 early;		/* wake-ups that came before it was asleep */
	__u64 sleeps;		/* switches to another thread because it went to sleep */
	__u64 preemptions;	/* switches to another thread although it could have run on */
	__u64 missed;		/* switches that were not shown to us */
	struct hist latency;	/* from being woken to running */
	__u32 tgid;
	__u32 woken;		/* ready since a wake-up; else since a preemption */
	__s32 call;		/* system call that it sleeps in, -1: none */
	__s32 fd;		/* first argument of that call, -1: none */
	__u32 seen;		/* it was switched once */
	__u32 pad;
	char comm[COMM_LEN];
};

struct wake_key {
	__u32 waker;		/* thread, 0: none */
	__u32 wakee;
	__u32 context;
	__s32 waker_call;	/* system call in which the waker is, -1: none */
	__s32 waker_fd;
	__s32 wakee_call;	/* system call in which the wakee sleeps */
	__s32 wakee_fd;
};

struct wake {
	__u64 count;
	__u32 tgid;		/* of the waker */
	char comm[COMM_LEN];	/* of the waker */
	__u32 pad;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, PIDS_MAX);
	__type(key, __u32);
	__type(value, __u32);
} wakeup_pids SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, THREADS_MAX);
	__type(key, __u32);
	__type(value, struct thread);
} wakeup_threads SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, WAKES_MAX);
	__type(key, struct wake_key);
	__type(value, struct wake);
} wakeup_wakes SEC(".maps");

/* System calls whose first argument, a descriptor, tells what a thread is there for. */
const volatile __s32 fd_calls[FD_CALLS_MAX] = { -1, -1, -1, -1, -1, -1, -1, -1 };

/* When counting begins: a time of bpf_ktime_get_ns. 0: it has not. */
volatile __u64 wakeup_start = 0;

/* Threads and ways of waking for which the maps had no room. */
volatile __u64 wakeup_lost_threads = 0;
volatile __u64 wakeup_lost_wakes = 0;

/*
 * Where the kernel of x86 counts the contexts that a CPU is in; NULL: it has no such variable.
 * wakeups_linux.go has the loader find them by their BTF, for they are variables of each CPU.
 */
extern void __preempt_count __ksym __weak;	/* until Linux 6.1 and since 6.15 */
extern void pcpu_hot __ksym __weak;

static __always_inline __u32 context(struct task_struct *current)
{
	__u32 count = 0;

	if (bpf_core_field_exists(((struct thread_info___count *)0)->preempt.count))
		count = ((struct task_struct___count *)current)->thread_info.preempt.count;
	else if (&__preempt_count)
		count = *(int *)bpf_this_cpu_ptr(&__preempt_count);
	else if (&pcpu_hot)
		count = ((struct pcpu_hot *)bpf_this_cpu_ptr(&pcpu_hot))->preempt_count;
	else
		return CONTEXT_UNKNOWN;
	if (count & HARDIRQ_NMI)
		return CONTEXT_HARDIRQ;
	return count & SOFTIRQ_SERVING ? CONTEXT_SOFTIRQ : CONTEXT_TASK;
}

/* system_call tells which system call a thread is in, and its descriptor. */
static __always_inline void system_call(struct task_struct *task, __s32 *call, __s32 *fd)
{
	struct pt_regs *regs;
	__s32 n = -1, arg = -1, i;

	*call = -1;
	*fd = -1;
	if (task->flags & PF_KTHREAD)
		return;
	regs = (struct pt_regs *)bpf_task_pt_regs(task);
	if (bpf_core_field_exists(((struct pt_regs___x86 *)0)->orig_ax)) {
		n = ((struct pt_regs___x86 *)regs)->orig_ax;
		arg = ((struct pt_regs___x86 *)regs)->di;
	} else if (bpf_core_field_exists(((struct pt_regs___arm64 *)0)->syscallno)) {
		n = ((struct pt_regs___arm64 *)regs)->syscallno;
		arg = ((struct pt_regs___arm64 *)regs)->orig_x0;
	}
	if (n < 0)
		return;
	*call = n;
	for (i = 0; i < FD_CALLS_MAX; i++) {
		if (fd_calls[i] == n)
			*fd = arg;
	}
}

/* What is put into the maps first: they are too large for the stack. */
const struct thread wakeup_no_thread = { .call = -1, .fd = -1 };
const struct wake wakeup_no_wake = {};

/* thread is the record of a thread of the processes asked for; NULL of others. */
static __always_inline struct thread *thread(struct task_struct *task)
{
	struct thread *t;
	__u32 tid = task->pid, tgid = task->tgid;

	if (!wakeup_start || !bpf_map_lookup_elem(&wakeup_pids, &tgid))
		return NULL;
	t = bpf_map_lookup_elem(&wakeup_threads, &tid);
	if (t)
		return t;
	if (bpf_map_update_elem(&wakeup_threads, &tid, &wakeup_no_thread, BPF_NOEXIST))
		__sync_fetch_and_add(&wakeup_lost_threads, 1);
	t = bpf_map_lookup_elem(&wakeup_threads, &tid);
	if (t) {
		t->tgid = tgid;
		bpf_probe_read_kernel_str(t->comm, sizeof(t->comm), task->comm);
	}
	return t;
}

/*
 * lasted is how long a thread has been on its CPU, or asleep, since start; 0: since the
 * counting began if nothing is known of the thread. Not every kernel shows each switch: on a
 * virtual machine with 6.18 some were missing, in ftrace too. Then nobody knows.
 */
static __always_inline __u64 lasted(struct thread *t, __u64 start, __u64 now)
{
	if (!start && t->seen)
		return 0;
	return now - (start ? start : wakeup_start);
}

SEC("tp_btf/sched_waking")
int BPF_PROG(wakeup_waking, struct task_struct *p)
{
	struct task_struct *current;
	struct wake_key key = {};
	struct wake *w;
	struct thread *t = thread(p);
	__u64 now;

	if (!t)
		return 0;
	now = bpf_ktime_get_ns();
	t->wakeups++;
	if (!t->ready && !t->on && !p->on_cpu) {
		t->asleep += lasted(t, t->off, now);
		t->off = 0;
	}
	if (!t->ready) {	/* a preempted thread waits already */
		t->ready = now;
		t->woken = 1;
	}

	current = bpf_get_current_task_btf();
	key.wakee = p->pid;
	key.wakee_call = t->call;
	key.wakee_fd = t->fd;
	key.context = context(current);
	key.waker_call = -1;
	key.waker_fd = -1;
	if (key.context != CONTEXT_HARDIRQ) {
		key.waker = current->pid;
		system_call(current, &key.waker_call, &key.waker_fd);
	}
	w = bpf_map_lookup_elem(&wakeup_wakes, &key);
	if (!w) {
		if (bpf_map_update_elem(&wakeup_wakes, &key, &wakeup_no_wake, BPF_NOEXIST))
			__sync_fetch_and_add(&wakeup_lost_wakes, 1);
		w = bpf_map_lookup_elem(&wakeup_wakes, &key);
		if (w && key.context != CONTEXT_HARDIRQ) {
			w->tgid = current->tgid;
			bpf_probe_read_kernel_str(w->comm, sizeof(w->comm), current->comm);
		}
	}
	if (w)
		__sync_fetch_and_add(&w->count, 1);
	return 0;
}

SEC("tp_btf/sched_wakeup")
int BPF_PROG(wakeup_wakeup, struct task_struct *p)
{
	struct thread *t = thread(p);

	if (t && p->on_cpu && t->ready && t->woken) {
		t->early++;
		t->ready = 0;
	}
	return 0;
}

SEC("tp_btf/sched_switch")
int BPF_PROG(wakeup_switch, bool preempt, struct task_struct *prev, struct task_struct *next)
{
	__u64 now = 0;
	struct thread *t;
	bool runnable;

	t = thread(prev);
	if (t) {
		now = bpf_ktime_get_ns();
		t->cpu += lasted(t, t->on, now);
		if (!t->on && t->seen) {
			t->missed++;
			t->ready = 0;
		}
		t->on = 0;
		t->seen = 1;
		if (bpf_core_field_exists(((struct task_struct___state *)0)->__state))
			runnable = ((struct task_struct___state *)prev)->__state == 0;
		else
			runnable = ((struct task_struct___old *)prev)->state == 0;
		if (preempt || runnable) {
			t->preemptions++;
			t->ready = now;
			t->woken = 0;
		} else {
			t->sleeps++;
			if (t->ready)	/* woken from another CPU on its way out */
				t->ready = now;
			else
				t->off = now;
			system_call(prev, &t->call, &t->fd);
		}
	}
	t = thread(next);
	if (t) {
		if (!now)
			now = bpf_ktime_get_ns();
		if (t->on)
			t->missed++;
		t->on = now;
		t->off = 0;
		t->seen = 1;
		if (t->ready && t->woken)
			hist_add(&t->latency, now - t->ready);
		else if (t->ready)
			t->preempted += now - t->ready;
		t->ready = 0;
	}
	return 0;
}

char _license[] SEC("license") = "Dual MIT/GPL";

package ebpf

import "time"

// MaxWakeupPIDs is how many processes [NewWakeups] takes.
const MaxWakeupPIDs = 64

// WakeupsReport is how the threads of some processes slept, woke up and waited for a CPU.
type WakeupsReport struct {
	Time    time.Duration  `json:"time_ns"` // for which was counted
	Threads []WakeupThread `json:"threads"` // that woke up, slept or ran in that time; by process and thread
	Wakes   []Wake         `json:"wakes"`   // the most frequent first

	// LostThreads and LostWakes count what there was no room for: more than 4,096 threads,
	// more than 8,192 different ways of being woken. It is missing in the lists above.
	LostThreads uint64 `json:"lost_threads"`
	LostWakes   uint64 `json:"lost_wakes"`
}

// WakeupThread is one thread. A thread that ran all the time on a CPU of its own, or slept all
// the time, is in no report.
type WakeupThread struct {
	PID  int    `json:"pid"`
	TID  int    `json:"tid"`
	Name string `json:"name"`

	// Wakeups counts the wake-ups. Early counts those among them that came before the thread
	// was asleep: it ran on.
	Wakeups uint64 `json:"wakeups"`
	Early   uint64 `json:"early"`

	// Sleeps counts how often the thread left its CPU to sleep, which Linux calls a voluntary
	// switch; Preemptions how often it had to leave its CPU though it could have run on.
	Sleeps      uint64 `json:"sleeps"`
	Preemptions uint64 `json:"preemptions"`

	// Missed counts switches of the thread that the kernel did not show: the times below are
	// too short by what was between them. Most kernels show each switch. On a virtual machine
	// with Linux 6.18 up to 1 % were missing under load, in the kernel's own trace as well.
	Missed uint64 `json:"missed"`

	CPU       time.Duration `json:"cpu_ns"`       // on a CPU
	Asleep    time.Duration `json:"asleep_ns"`    // until it was woken
	Preempted time.Duration `json:"preempted_ns"` // waiting for a CPU after preemptions

	// Latency is the time from being woken to running: what Linux needs to find a CPU, to
	// wake that one up from idling, and to end what runs there.
	Latency Histogram `json:"latency"`
}

// WakeContext is what a wake-up came from.
type WakeContext string

const (
	// WakeByTask: a thread woke the other one, in a system call.
	WakeByTask WakeContext = "task"

	// WakeBySoftirq: a softirq, such as the receiving of packets. It ran on top of the thread
	// that is named as waker, which has sent the packet if that is for this host; where it
	// comes from a network card, the thread just happened to run there.
	WakeBySoftirq WakeContext = "softirq"

	// WakeByInterrupt: an interrupt, such as a timer's. No thread is named.
	WakeByInterrupt WakeContext = "interrupt"

	// WakeByUnknown: the kernel does not tell what runs on top of the thread that is named as
	// waker, if anything does: it may be as with WakeByTask or as with the others. A waker that
	// is in no system call and no thread of the kernel most likely was interrupted. Kernels of
	// arm64 tell, those of x86 if they have CONFIG_KALLSYMS_ALL, as those of distributions do.
	WakeByUnknown WakeContext = "unknown"
)

// Wake is one way of being woken, and how often that happened.
type Wake struct {
	Waker   WakeSide    `json:"waker"` // TID 0 with the name "swapper/0" or so: an idle CPU
	Context WakeContext `json:"context"`
	Wakee   WakeSide    `json:"wakee"`
	Count   uint64      `json:"count"`
}

// WakeSide is a thread and what it was in when it woke another one, or was woken. The waker
// may be of any process.
type WakeSide struct {
	PID  int    `json:"pid"` // 0: none
	TID  int    `json:"tid"` // 0: none
	Name string `json:"name"`

	// Call is the system call that the thread was in, such as "futex"; empty: in none, as
	// threads of the kernel are and those that were interrupted or preempted.
	Call string `json:"call"`

	// FD is the descriptor that Call is about, where Call waits for events, reads or writes;
	// otherwise -1.
	FD int `json:"fd"`
}

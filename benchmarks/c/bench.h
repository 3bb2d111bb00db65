// bench.h: what C peers share: clock, histogram, CPU, memory, messages and
// result lines. stats.go and messages.go have the same for the Go peers.
#define _GNU_SOURCE
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

enum { MUX_SOCKS = 64, MUX_WINDOW = 8, MUX_MSG = 256, MUX_REPLY = 64 };

// Message types, in the first byte; a timestamp is at byte 8.
enum { PING = 'P', DATA = 'D', ACK = 'K', END = 'E', STATS = 'S', MSG = 'M', OPEN = 'O' };

static struct {
	int server, port, count;
	const char *w;
	size_t size;
	double dur, warm;
} opt = {.port = 7100, .count = 10000, .size = 64, .dur = 2, .warm = 0.2};

static void fail(const char *what, const char *why)
{
	fprintf(stderr, "%s %s: %s: %s\n", opt.server ? "server" : "client", opt.w, what, why);
	exit(1);
}

// prog server|client workload [port size seconds count]
static void parse(int argc, char **argv)
{
	alarm(60); // no process outlives this
	if (argc < 3)
		exit(2);
	opt.server = !strcmp(argv[1], "server");
	opt.w = argv[2];
	if (argc > 3)
		opt.port = atoi(argv[3]);
	if (argc > 4)
		opt.size = strtoul(argv[4], NULL, 10);
	if (argc > 5)
		opt.dur = atof(argv[5]);
	if (argc > 6)
		opt.count = atoi(argv[6]);
}

static int is(const char *w) { return !strcmp(opt.w, w); }

static inline uint64_t now(void) // nanoseconds
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ull + t.tv_nsec;
}

static double cpu_sec(void)
{
	struct rusage r;
	getrusage(RUSAGE_SELF, &r);
	return r.ru_utime.tv_sec + r.ru_stime.tv_sec + (r.ru_utime.tv_usec + r.ru_stime.tv_usec) / 1e6;
}

static long rss_kb(void)
{
	long size = 0, rss = 0;
	FILE *f = fopen("/proc/self/statm", "r");
	if (f && fscanf(f, "%ld %ld", &size, &rss) != 2)
		rss = 0;
	if (f)
		fclose(f);
	return rss * (sysconf(_SC_PAGESIZE) / 1024);
}

static long slab_kb(void)
{
	char line[256];
	long kb = 0;
	FILE *f = fopen("/proc/meminfo", "r");
	while (f && fgets(line, sizeof line, f))
		sscanf(line, "Slab: %ld", &kb);
	if (f)
		fclose(f);
	return kb;
}

// Established TCP connections of this process.
static int tcp_conns(void)
{
	static char mine[1 << 17][16]; // inodes of its sockets
	char line[512], inode[64];
	int n = 0, conns = 0, state;
	DIR *d = opendir("/proc/self/fd");
	for (struct dirent *e; d && (e = readdir(d)) && n < 1 << 17;) {
		ssize_t k = readlinkat(dirfd(d), e->d_name, line, sizeof line - 1);
		line[k > 0 ? k : 0] = 0;
		n += sscanf(line, "socket:[%15[0-9]", mine[n]) == 1;
	}
	closedir(d);
	qsort(mine, n, sizeof mine[0], (int (*)(const void *, const void *))strcmp);
	FILE *f = fopen("/proc/net/tcp", "r");
	while (f && fgets(line, sizeof line, f))
		if (sscanf(line, " %*d: %*s %*s %x %*s %*s %*s %*s %*s %63s", &state, inode) == 2 && state == 1 &&
		    bsearch(inode, mine, n, sizeof mine[0], (int (*)(const void *, const void *))strcmp))
			conns++;
	if (f)
		fclose(f);
	return conns;
}

// 128 buckets for each power of two of nanoseconds.
static struct {
	uint32_t b[40 * 128];
	uint64_t n, sum;
} hist;

static inline void hist_add(uint64_t v)
{
	size_t i = v;
	if (v >= 256) {
		int s = 64 - __builtin_clzll(v) - 8;
		i = s * 128 + (v >> s);
	}
	__atomic_fetch_add(&hist.b[i < 40 * 128 ? i : 40 * 128 - 1], 1, __ATOMIC_RELAXED);
	__atomic_fetch_add(&hist.n, 1, __ATOMIC_RELAXED);
	__atomic_fetch_add(&hist.sum, v, __ATOMIC_RELAXED);
}

static void hist_reset(void) { memset(&hist, 0, sizeof hist); }

static double hist_us(double q)
{
	uint64_t want = q * hist.n, seen = 0;
	for (size_t i = 0; i < 40 * 128; i++)
		if ((seen += hist.b[i]) > want) {
			int s = i < 256 ? 0 : (int)(i / 128) - 1;
			return (double)((uint64_t)(i - s * 128) << s) / 1e3;
		}
	return 0;
}

static inline void stamp(void *m) { uint64_t t = now(); memcpy((char *)m + 8, &t, 8); }
static inline uint64_t age(const void *m) { uint64_t t; memcpy(&t, (const char *)m + 8, 8); return now() - t; }

// What a server says of itself in a STATS message.
struct stats { uint64_t n, cpu_us, rss_kb; };

static uint64_t tally; // DATA messages since the last END

static void put_stats(char *m)
{
	struct stats s = {tally, (uint64_t)(cpu_sec() * 1e6), (uint64_t)rss_kb()};
	m[0] = STATS;
	memcpy(m + 8, &s, sizeof s);
	tally = 0;
}

static struct stats get_stats(const char *m)
{
	struct stats s;
	if (m[0] != STATS)
		fail("stats", "another message came");
	memcpy(&s, m + 8, sizeof s);
	return s;
}

// Length of the answer to message m, 0 for none; the answer is in out, which
// holds at least max(n, 64) bytes.
static size_t answer(const char *m, size_t n, char *out)
{
	switch (m[0]) {
	case DATA:
		tally++;
		out[0] = ACK;
		return m[1] ? 64 : 0;
	case PING:
		memcpy(out, m, n);
		return n;
	case MSG:
		memcpy(out, m, 16);
		return MUX_REPLY;
	case END:
	case OPEN:
		put_stats(out);
		return 64;
	}
	return 0;
}

static void print_pingpong(double cpu)
{
	printf("w=pingpong size=%zu p50=%.2f p99=%.2f mean=%.2f cpu=%.2f\n", opt.size, hist_us(.5), hist_us(.99),
	       hist.sum / 1e3 / hist.n, cpu / hist.n * 1e6);
}

static void print_oneway(uint64_t n, double sec, double cpu)
{
	printf("w=oneway size=%zu rate=%.0f mbps=%.1f cpu=%.3f cpugb=%.3f\n", opt.size, n / sec,
	       n * (double)opt.size / sec / 1e6, cpu / n * 1e6, cpu / n / opt.size * 1e9);
}

static void print_reply(uint64_t n, double sec, double cpu, long crss, long srss)
{
	printf("w=mux rate=%.0f p50=%.1f p99=%.1f cpu=%.3f conns=%d rssc=%.1f rsss=%.1f\n", n / sec, hist_us(.5),
	       hist_us(.99), cpu / n * 1e6, tcp_conns(), crss / 1024., srss / 1024.);
}

static void print_sockets(double open, long crss, long srss, long slab, int conns)
{
	double n = opt.count;
	printf("w=sockets n=%d open=%.3f kbc=%.2f kbs=%.2f kbk=%.2f conns=%d\n", opt.count, open, crss / n, srss / n, slab / n, conns);
}

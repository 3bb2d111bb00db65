// ZeroMQ (libzmq) peer. pingpong: PAIR. oneway: PUSH to PULL. mux: 64 DEALERs,
// each connected to 64 ROUTERs; mux1 instead has one DEALER and one ROUTER, with
// the socket numbers in the message. sockets: DEALERs to one ROUTER.
#include "bench.h"
#include <zmq.h>

static void *ctx, *ctl; // ctl: PAIR for confirmations, on the first port
static char *buf, *out;

static void *sock(int type, int port)
{
	char a[64];
	int zero = 0, hwm = (int)((64u << 20) / opt.size);
	void *s = zmq_socket(ctx, type);
	if (!s)
		fail("socket", zmq_strerror(errno));
	if (hwm > 1000)
		hwm = 1000; // libzmq's default; less for messages over 64 KiB
	zmq_setsockopt(s, ZMQ_SNDHWM, &hwm, sizeof hwm);
	zmq_setsockopt(s, ZMQ_RCVHWM, &hwm, sizeof hwm);
	zmq_setsockopt(s, ZMQ_LINGER, &zero, sizeof zero);
	snprintf(a, sizeof a, "tcp://127.0.0.1:%d", port);
	if ((opt.server ? zmq_bind(s, a) : zmq_connect(s, a)) < 0)
		fail(a, zmq_strerror(errno));
	return s;
}

static size_t recv1(void *s, void *b, size_t cap)
{
	int n = zmq_recv(s, b, cap, 0);
	if (n < 0 || (size_t)n > cap)
		fail("recv", zmq_strerror(errno));
	return n;
}

static void send1(void *s, const void *b, size_t n, int flags)
{
	if (zmq_send(s, b, n, flags) < 0)
		fail("send", zmq_strerror(errno));
}

static struct stats ask(int type)
{
	char m[64] = {(char)type};
	send1(ctl, m, 64, 0);
	recv1(ctl, m, 64);
	return get_stats(m);
}

// Take one request from a ROUTER, if there is one, and answer it.
static int serve1(void *s)
{
	char id[256];
	int n = zmq_recv(s, id, sizeof id, ZMQ_DONTWAIT);
	if (n < 0)
		return 0;
	size_t r = answer(buf, recv1(s, buf, opt.size + 64), out);
	send1(s, id, n, ZMQ_SNDMORE);
	send1(s, out, r, 0);
	return 1;
}

static void server(void)
{
	int n = is("mux") ? MUX_SOCKS : 1;
	void **s = calloc(n, sizeof *s);
	int type = is("pingpong") ? ZMQ_PAIR : is("oneway") ? ZMQ_PULL : ZMQ_ROUTER;
	for (int i = 0; i < n; i++)
		s[i] = sock(type, opt.port + 1 + i);
	if (type != ZMQ_ROUTER) { // one socket: block in it, look at ctl only after END
		for (;;) {
			size_t len = recv1(s[0], buf, opt.size + 64);
			if (buf[0] == END) {
				recv1(ctl, buf, 64);
				put_stats(out);
				send1(ctl, out, 64, 0);
			} else if ((len = answer(buf, len, out)))
				send1(s[0], out, len, 0);
		}
	}
	zmq_pollitem_t ev[MUX_SOCKS + 1] = {{ctl, 0, ZMQ_POLLIN, 0}};
	for (int i = 0; i < n; i++)
		ev[i + 1] = (zmq_pollitem_t){s[i], 0, ZMQ_POLLIN, 0};
	for (;;) {
		zmq_poll(ev, n + 1, -1);
		if (ev[0].revents) {
			recv1(ctl, buf, 64);
			put_stats(out);
			send1(ctl, out, 64, 0);
		}
		for (int i = 1; i <= n; i++)
			while (ev[i].revents && serve1(ev[i].socket))
				;
	}
}

static void pingpong(void *s)
{
	struct stats s0 = {0};
	double cpu = 0;
	char end[64] = {END};
	buf[0] = PING;
	for (int phase = 0; phase < 2; phase++) {
		uint64_t start = now(), t = start, e = 0;
		do {
			send1(s, buf, opt.size, 0);
			recv1(s, buf, opt.size);
			hist_add((e = now()) - t);
			t = e;
		} while (e - start < (phase ? opt.dur : opt.warm) * 1e9);
		cpu = phase ? cpu_sec() - cpu : cpu;
		send1(s, end, 64, 0);
		struct stats s1 = ask(END);
		if (phase)
			print_pingpong(cpu + (s1.cpu_us - s0.cpu_us) / 1e6);
		s0 = s1;
		hist_reset();
		cpu = cpu_sec();
	}
}

static void oneway(void *s)
{
	struct stats s0 = {0};
	int batch = opt.size < 65536 ? 65536 / opt.size : 1;
	for (int phase = 0; phase < 2; phase++) {
		uint64_t n = 0, start = now();
		double cpu = cpu_sec();
		do {
			buf[0] = DATA;
			for (int i = 0; i < batch; i++, n++)
				send1(s, buf, opt.size, 0);
		} while (now() - start < (phase ? opt.dur : opt.warm) * 1e9);
		buf[0] = END;
		send1(s, buf, 64, 0);
		struct stats s1 = ask(END);
		if (s1.n != n)
			fail("count", "the receiver has another");
		if (phase)
			print_oneway(n, (now() - start) / 1e9, cpu_sec() - cpu + (s1.cpu_us - s0.cpu_us) / 1e6);
		s0 = s1;
	}
}

// Requests over n DEALERs, each with a window of them outstanding.
static void reply(int n, int window, int dests)
{
	char req[MUX_MSG] = {MSG};
	zmq_pollitem_t ev[MUX_SOCKS];
	struct stats s0 = {0};
	double cpu = 0;
	uint64_t start = now();
	for (int i = 0; i < n; i++) {
		void *s = sock(ZMQ_DEALER, opt.port + 1);
		for (int d = 1; d < dests; d++) {
			char a[64];
			snprintf(a, sizeof a, "tcp://127.0.0.1:%d", opt.port + 1 + d);
			zmq_connect(s, a);
		}
		ev[i] = (zmq_pollitem_t){s, 0, ZMQ_POLLIN, 0};
	}
	if (dests > 1)
		sleep(1); // let the connections come up
	for (int i = 0; i < n; i++)
		for (int k = 0; k < window; k++) {
			stamp(req);
			send1(ev[i].socket, req, sizeof req, 0);
		}
	int phase = 0;
	for (start = now();;) {
		if (zmq_poll(ev, n, 5000) <= 0)
			fail("poll", "no reply");
		for (int i = 0; i < n; i++)
			while (ev[i].revents && zmq_recv(ev[i].socket, buf, opt.size + 64, ZMQ_DONTWAIT) > 0) {
				hist_add(age(buf));
				stamp(req);
				send1(ev[i].socket, req, sizeof req, 0);
			}
		uint64_t t = now();
		if (t - start > (phase ? opt.dur : opt.warm) * 1e9) {
			uint64_t done = hist.n;
			double c = cpu_sec() - cpu;
			struct stats s1 = ask(END);
			if (phase) {
				print_reply(done, (t - start) / 1e9, c + (s1.cpu_us - s0.cpu_us) / 1e6, rss_kb(), s1.rss_kb);
				return;
			}
			s0 = s1;
			phase = 1;
			hist_reset();
			cpu = cpu_sec();
			start = now();
		}
	}
}

static void sockets(void)
{
	struct stats s0 = ask(END);
	long rss = rss_kb(), slab = slab_kb();
	int conns = tcp_conns();
	uint64_t start = now();
	for (int i = 0; i < opt.count; i++) {
		char m[64] = {PING};
		void *s = sock(ZMQ_DEALER, opt.port + 1);
		send1(s, m, 64, 0);
		recv1(s, m, 64);
	}
	double sec = (now() - start) / 1e9;
	struct stats s1 = ask(END);
	print_sockets(sec, rss_kb() - rss, s1.rss_kb - s0.rss_kb, slab_kb() - slab, tcp_conns() - conns);
}

int main(int argc, char **argv)
{
	parse(argc, argv);
	ctx = zmq_ctx_new();
	zmq_ctx_set(ctx, ZMQ_MAX_SOCKETS, opt.count + 128);
	buf = calloc(1, opt.size + 64);
	out = calloc(1, opt.size + 64);
	ctl = sock(ZMQ_PAIR, opt.port);
	if (opt.server)
		server();
	if (is("pingpong"))
		pingpong(sock(ZMQ_PAIR, opt.port + 1));
	else if (is("oneway"))
		oneway(sock(ZMQ_PUSH, opt.port + 1));
	else if (is("mux"))
		reply(MUX_SOCKS, MUX_WINDOW, MUX_SOCKS);
	else if (is("mux1"))
		reply(1, MUX_SOCKS * MUX_WINDOW, 1);
	else if (is("sockets"))
		sockets();
	fflush(stdout);
	_exit(0);
}

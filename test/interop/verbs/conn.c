/* Connections: what happens on them, said in lines, and the loop that waits. */
#include "verbs.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const struct op_info ops[] = {
	[OP_READ] = {"read", IBV_WR_RDMA_READ, 0},
	[OP_WRITE] = {"write", IBV_WR_RDMA_WRITE, 0},
	[OP_SEND] = {"send", IBV_WR_SEND, 0},
	[OP_INV] = {"inv", IBV_WR_SEND_WITH_INV, 0},
	[OP_SE] = {"se", IBV_WR_SEND, IBV_SEND_SOLICITED},
	[OP_WAIT] = {"wait", 0, 0},
	[OP_RECV] = {"recv", 0, 0},
};

static struct rdma_event_channel *cm;
static struct ibv_comp_channel *completions;
static struct ibv_context *device;
static int conn_count;

struct ibv_pd *pd, *other_pd;
struct conn *conns;
int recv_count = DEPTH;
size_t recv_length = 8192;

void die(const char *what)
{
	fprintf(stderr, "verbs: %s: %s\n", what, strerror(errno));
	exit(1);
}

static void *check(void *p, const char *what)
{
	if (!p)
		die(what);
	return p;
}

void say(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	putchar('\n');
	fflush(stdout);
}

uint64_t hash(const uint8_t *b, size_t n)
{
	uint64_t h = 0xcbf29ce484222325;

	while (n--)
		h = (h ^ *b++) * 0x100000001b3;
	return h;
}

void make_region(struct region *r, struct ibv_pd *in, size_t length, int access, int seed)
{
	r->length = length;
	r->buf = check(malloc(length + 1), "malloc");
	for (size_t i = 0; i < length; i++)
		r->buf[i] = seed + i % 251;
	r->mr = check(ibv_reg_mr(in, r->buf, length, access), "ibv_reg_mr");
}

void free_region(struct region *r)
{
	if (ibv_dereg_mr(r->mr))
		die("ibv_dereg_mr");
	free(r->buf);
}

/* use_device sets up, once, what all connections share. */
void use_device(struct ibv_context *d)
{
	if (device)
		return;
	device = check(d, "device of the address");
	pd = check(ibv_alloc_pd(device), "ibv_alloc_pd");
	other_pd = check(ibv_alloc_pd(device), "ibv_alloc_pd");
	completions = check(ibv_create_comp_channel(device), "ibv_create_comp_channel");
	if (fcntl(completions->fd, F_SETFL, O_NONBLOCK) || fcntl(device->async_fd, F_SETFL, O_NONBLOCK))
		die("fcntl");
}

static void post_recv(struct conn *c, size_t i)
{
	struct ibv_sge sge = {(uintptr_t)c->recv.buf + i * recv_length, recv_length, c->recv.mr->lkey};
	struct ibv_recv_wr wr = {.wr_id = OP_RECV, .sg_list = &sge, .num_sge = 1}, *bad;

	ibv_post_recv(c->id->qp, &wr, &bad); /* fails when the connection ended */
}

static struct conn *new_conn(struct rdma_cm_id *id)
{
	struct conn *c = check(calloc(1, sizeof *c), "calloc");
	struct ibv_qp_init_attr attr = {
		.qp_context = c,
		.cap = {.max_send_wr = DEPTH, .max_recv_wr = DEPTH, .max_send_sge = 1, .max_recv_sge = 1},
		.qp_type = IBV_QPT_RC,
		.sq_sig_all = 1,
	};

	use_device(id->verbs);
	c->number = ++conn_count;
	c->id = id;
	id->context = c;
	c->cq = check(ibv_create_cq(device, 2 * DEPTH, c, completions, 0), "ibv_create_cq");
	if (ibv_req_notify_cq(c->cq, 0))
		die("ibv_req_notify_cq");
	attr.send_cq = attr.recv_cq = c->cq;
	if (rdma_create_qp(id, pd, &attr))
		die("rdma_create_qp");
	make_region(&c->recv, pd, DEPTH * recv_length, IBV_ACCESS_LOCAL_WRITE, 0);
	for (int i = 0; i < recv_count; i++)
		post_recv(c, i);
	c->next = conns;
	conns = c;
	return c;
}

static void print_completions(struct conn *c)
{
	if (c->count)
		say("completed %d %s status %d vendor %u count %d (%s)", c->number, ops[c->op].name,
		    c->status, c->vendor, c->count, ibv_wc_status_str(c->status));
	c->count = 0;
}

static void complete(struct conn *c, const struct ibv_wc *wc)
{
	enum op op = wc->wr_id;
	size_t i = c->next_recv;

	if (op != OP_RECV) {
		c->in_flight--;
	} else if (wc->status != IBV_WC_WR_FLUSH_ERR) {
		c->next_recv = (i + 1) % recv_count;
		if (wc->status == IBV_WC_SUCCESS) {
			print_completions(c);
			say("received %d length %u hash %016llx", c->number, wc->byte_len,
			    (unsigned long long)hash(c->recv.buf + i * recv_length, wc->byte_len));
		}
		post_recv(c, i);
		if (wc->status == IBV_WC_SUCCESS)
			return;
	}
	if (c->count && (c->op != op || c->status != (int)wc->status || c->vendor != wc->vendor_err))
		print_completions(c);
	c->op = op;
	c->status = wc->status;
	c->vendor = wc->vendor_err;
	c->count++;
}

static void drain(struct conn *c)
{
	struct ibv_wc wc;

	while (ibv_poll_cq(c->cq, 1, &wc) > 0)
		complete(c, &wc);
	if (!c->in_flight)
		print_completions(c);
}

static void on_completions(void)
{
	struct ibv_cq *cq;
	void *context;

	while (!ibv_get_cq_event(completions, &cq, &context)) {
		ibv_ack_cq_events(cq, 1);
		if (ibv_req_notify_cq(cq, 0))
			die("ibv_req_notify_cq");
		drain(context);
	}
}

static void on_async(void)
{
	struct ibv_async_event e;

	while (!ibv_get_async_event(device, &e)) {
		struct conn *c = e.element.qp->qp_context; /* no others are used */

		say("event %d (%s)", c->number, ibv_event_type_str(e.event_type));
		ibv_ack_async_event(&e);
	}
}

/* end_conn closes a connection, once what happened on it is said. */
void end_conn(struct conn *c)
{
	struct conn **p = &conns;

	rdma_disconnect(c->id); /* the peer may have been first */
	/* siw may tell of the end before it has flushed; this waits for that. */
	if (c->over && ibv_modify_qp(c->id->qp, &(struct ibv_qp_attr){.qp_state = IBV_QPS_ERR}, IBV_QP_STATE))
		die("ibv_modify_qp");
	on_async();
	on_completions();
	drain(c);
	print_completions(c);
	if (c->in_flight)
		say("unanswered %d count %d", c->number, c->in_flight);
	say("disconnected %d", c->number);
	while (*p != c)
		p = &(*p)->next;
	*p = c->next;
	rdma_destroy_qp(c->id);
	ibv_destroy_cq(c->cq);
	rdma_destroy_id(c->id);
	free_region(&c->recv);
	free(c);
}

static void on_cm(void)
{
	struct rdma_cm_event *e;

	while (!rdma_get_cm_event(cm, &e)) {
		struct rdma_cm_id *id = e->id;
		struct conn *c = id->context;
		enum rdma_cm_event_type type = e->event;
		int status = e->status;
		struct rdma_conn_param param = {
			.responder_resources = e->param.conn.initiator_depth,
			.initiator_depth = e->param.conn.responder_resources,
		};

		if (rdma_ack_cm_event(e))
			die("rdma_ack_cm_event");
		switch (type) {
		case RDMA_CM_EVENT_CONNECT_REQUEST:
			c = new_conn(id);
			c->over = rdma_accept(id, &param) != 0; /* the peer may be gone */
			break;
		case RDMA_CM_EVENT_ADDR_RESOLVED:
			if (rdma_resolve_route(id, RESOLVE_MS))
				die("rdma_resolve_route");
			break;
		case RDMA_CM_EVENT_ROUTE_RESOLVED:
			new_conn(id);
			param.responder_resources = param.initiator_depth = DEPTH;
			if (rdma_connect(id, &param))
				die("rdma_connect");
			break;
		case RDMA_CM_EVENT_ESTABLISHED:
			c->established = true;
			say("connected %d", c->number);
			break;
		case RDMA_CM_EVENT_DISCONNECTED:
			c->over = true;
			break;
		default:
			say("%s status %d", rdma_event_str(type), status);
			if (c)
				c->over = true;
			else
				exit(2);
		}
	}
}

bool wait_events(bool input)
{
	struct pollfd fds[] = {
		{.fd = cm->fd, .events = POLLIN},
		{.fd = device ? completions->fd : -1, .events = POLLIN},
		{.fd = device ? device->async_fd : -1, .events = POLLIN},
		{.fd = input ? STDIN_FILENO : -1, .events = POLLIN},
	};

	if (poll(fds, 4, -1) < 0)
		die("poll");
	if (fds[2].revents)
		on_async();
	if (fds[1].revents)
		on_completions();
	if (fds[0].revents)
		on_cm();
	return fds[3].revents != 0;
}

struct rdma_cm_id *new_id(const char *addr, const char *port, struct sockaddr_in *to)
{
	struct rdma_cm_id *id;

	*to = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons(atoi(port))};
	if (inet_pton(AF_INET, addr, &to->sin_addr) != 1)
		die("address");
	cm = check(rdma_create_event_channel(), "rdma_create_event_channel");
	if (fcntl(cm->fd, F_SETFL, O_NONBLOCK))
		die("fcntl");
	if (rdma_create_id(cm, &id, NULL, RDMA_PS_TCP))
		die("rdma_create_id");
	return id;
}

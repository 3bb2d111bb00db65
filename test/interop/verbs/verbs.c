/*
 * verbs does single verbs on Linux's RDMA devices, for tests of what a peer
 * answers to right ones and wrong ones. It says what happens in lines of words
 * and numbers on standard output.
 *
 *   verbs serve ADDR PORT [recv:COUNT:LENGTH] RIGHTS:LENGTH...
 *   verbs attack ADDR PORT OP[:KEY:ADDRESS[:LENGTH[:COUNT]]]...
 *
 * serve registers a region for each argument and takes connections. RIGHTS are
 * letters: r and w let the peer read and write, o takes a protection domain that
 * is not the connections', - is nothing. Each connection keeps COUNT receives of
 * LENGTH octets posted. Commands on standard input: "hash N" and "dereg N" of
 * region N, "close" disconnects all, "quit".
 *
 * attack connects, does one operation after the other, each COUNT times and
 * then waiting for all of them, and disconnects. OP is read, write, send, inv (a
 * send that invalidates KEY), se (a send with solicited event), each with a
 * source or sink of LENGTH octets here; or wait, for the end of the connection.
 *
 * Octet i of region N, and of what attack sends (N = 200), is (N + i % 251) % 256.
 * Hashes are FNV-1a, 64 bits.
 *
 * One loop waits for everything; nothing is polled and there are no threads.
 */
#include "verbs.h"

#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_REGIONS = 16, ATTACK_SEED = 200 };

static void usage(void)
{
	fputs("usage: verbs serve ADDR PORT [recv:COUNT:LENGTH] RIGHTS:LENGTH...\n"
	      "       verbs attack ADDR PORT OP[:KEY:ADDRESS[:LENGTH[:COUNT]]]...\n", stderr);
	exit(2);
}

static void serve_region(struct region *r, int n, char *arg)
{
	char *length = strchr(arg, ':');
	int access = IBV_ACCESS_LOCAL_WRITE;

	if (!length)
		usage();
	*length++ = 0;
	if (strchr(arg, 'r'))
		access |= IBV_ACCESS_REMOTE_READ;
	if (strchr(arg, 'w'))
		access |= IBV_ACCESS_REMOTE_WRITE;
	make_region(r, strchr(arg, 'o') ? other_pd : pd, strtoull(length, NULL, 0), access, n);
	say("region %d key 0x%x address 0x%llx length %zu rights %s", n, r->mr->rkey,
	    (unsigned long long)(uintptr_t)r->buf, r->length, arg);
}

static void command(const char *line, const struct region *regions, int n)
{
	int i;

	if (!strcmp(line, "quit\n")) {
		exit(0);
	} else if (!strcmp(line, "close\n")) {
		for (struct conn *c = conns; c; c = c->next)
			rdma_disconnect(c->id);
	} else if (sscanf(line, "hash %d", &i) == 1 && i >= 0 && i < n) {
		say("hash %d %016llx", i, (unsigned long long)hash(regions[i].buf, regions[i].length));
	} else if (sscanf(line, "dereg %d", &i) == 1 && i >= 0 && i < n) {
		if (ibv_dereg_mr(regions[i].mr))
			die("ibv_dereg_mr");
		say("deregistered %d", i);
	}
}

static void serve(char **argv)
{
	struct region regions[MAX_REGIONS];
	struct sockaddr_in at;
	struct rdma_cm_id *id = new_id(argv[0], argv[1], &at);
	char line[64];
	int n = 0;

	setbuf(stdin, NULL); /* poll knows nothing of what stdio has read */
	if (rdma_bind_addr(id, (struct sockaddr *)&at))
		die("rdma_bind_addr");
	use_device(id->verbs);
	for (argv += 2; *argv && n < MAX_REGIONS; argv++)
		if (sscanf(*argv, "recv:%d:%zu", &recv_count, &recv_length) == 0)
			serve_region(&regions[n], n, *argv), n++;
	if (recv_count < 0 || recv_count > DEPTH)
		usage();
	if (rdma_listen(id, DEPTH))
		die("rdma_listen");
	say("listening");
	for (;;) {
		if (wait_events(true)) {
			if (!fgets(line, sizeof line, stdin))
				return;
			command(line, regions, n);
		}
		for (struct conn *c = conns, *next; c; c = next) {
			next = c->next;
			if (c->over)
				end_conn(c);
		}
	}
}

static int post(struct conn *c, enum op op, const struct region *r, uint32_t key, uint64_t addr, size_t length)
{
	struct ibv_sge sge = {(uintptr_t)r->buf, length, r->mr->lkey};
	struct ibv_send_wr wr = {
		.wr_id = op, .sg_list = &sge, .num_sge = 1, .opcode = ops[op].code, .send_flags = ops[op].flags,
	}, *bad;

	if (op == OP_INV) {
		wr.invalidate_rkey = key;
	} else {
		wr.wr.rdma.rkey = key;
		wr.wr.rdma.remote_addr = addr;
	}
	return ibv_post_send(c->id->qp, &wr, &bad);
}

/* operate does one operation of the command line. It ends with the connection:
 * what siw is given after that it may never answer. */
static void operate(struct conn *c, char *arg)
{
	const char *name = strsep(&arg, ":");
	uint64_t numbers[4] = {0, 0, 0, 1}; /* key, address, length, count */
	enum op op = OP_READ;
	struct region r;
	size_t length;
	int count;

	for (int i = 0; arg && i < 4; i++)
		numbers[i] = strtoull(strsep(&arg, ":"), NULL, 0);
	while (op < OP_RECV && strcmp(name, ops[op].name))
		op++;
	if (op == OP_RECV)
		usage();
	length = numbers[2];
	count = op == OP_WAIT ? 0 : numbers[3];
	make_region(&r, pd, length ? length : 1, IBV_ACCESS_LOCAL_WRITE, op == OP_READ ? 0 : ATTACK_SEED);
	while (!c->over && (op == OP_WAIT || count > 0 || c->in_flight > 0)) {
		while (count > 0 && c->in_flight < DEPTH) {
			int err = post(c, op, &r, numbers[0], numbers[1], length);

			if (err) {
				say("refused %d %s errno %d (%s)", c->number, name, err, strerror(err));
				count = 0;
				break;
			}
			count--;
			c->in_flight++;
		}
		if (c->in_flight || op == OP_WAIT)
			wait_events(false);
	}
	if (op == OP_READ && !c->over)
		say("sink %d hash %016llx", c->number, (unsigned long long)hash(r.buf, length));
	if (c->over)
		end_conn(c);
	free_region(&r);
}

static void attack(char **argv)
{
	struct sockaddr_in to;
	struct rdma_cm_id *id = new_id(argv[0], argv[1], &to);

	if (rdma_resolve_addr(id, NULL, (struct sockaddr *)&to, RESOLVE_MS))
		die("rdma_resolve_addr");
	while (!conns || !(conns->established || conns->over))
		wait_events(false);
	if (!conns->established)
		exit(2);
	for (argv += 2; *argv && conns; argv++)
		operate(conns, *argv);
	if (conns)
		end_conn(conns);
}

int main(int argc, char **argv)
{
	if (argc > 4 && !strcmp(argv[1], "serve"))
		serve(argv + 2);
	else if (argc > 4 && !strcmp(argv[1], "attack"))
		attack(argv + 2);
	else
		usage();
	return 0;
}

/* What the files of verbs share: connections, regions and the loop. */
#ifndef VERBS_H
#define VERBS_H

#include <rdma/rdma_cma.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { DEPTH = 16, RESOLVE_MS = 10000 };

/* Work requests carry one of these as their number. */
enum op { OP_READ, OP_WRITE, OP_SEND, OP_INV, OP_SE, OP_WAIT, OP_RECV };

struct op_info {
	const char *name;
	enum ibv_wr_opcode code;
	unsigned flags;
};

struct region {
	uint8_t *buf;
	size_t length;
	struct ibv_mr *mr;
};

/* A connection, made by new_conn when it begins and freed by end_conn. */
struct conn {
	int number;
	struct rdma_cm_id *id;
	struct ibv_cq *cq;
	struct region recv; /* DEPTH buffers one after the other, at most */
	size_t next_recv;   /* which of them is completed next: they complete in order */
	int in_flight;      /* sends, reads and writes not completed */
	bool established, over;
	struct conn *next;
	/* The last completions, all alike, that are not printed yet. */
	enum op op;
	int status, count;
	unsigned vendor;
};

extern const struct op_info ops[];
extern struct ibv_pd *pd, *other_pd; /* of connections, and one of nobody */
extern struct conn *conns;
extern int recv_count;     /* receives a connection keeps posted, at most DEPTH, */
extern size_t recv_length; /* and their length */

void die(const char *what) __attribute__((noreturn));
void say(const char *format, ...) __attribute__((format(printf, 1, 2)));
uint64_t hash(const uint8_t *b, size_t n);

void make_region(struct region *r, struct ibv_pd *in, size_t length, int access, int seed);
void free_region(struct region *r);

/* new_id makes the program's one listener or initiator and parses its address. */
struct rdma_cm_id *new_id(const char *addr, const char *port, struct sockaddr_in *to);
void use_device(struct ibv_context *d);
void end_conn(struct conn *c);

/* wait_events waits for something to happen and deals with all but standard
 * input, of which it tells whether there is any. */
bool wait_events(bool input);

#endif

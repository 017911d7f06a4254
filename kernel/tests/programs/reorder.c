/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * The reorder qdisc as a program: `programs/reorder.bpf.c` itself, with what the kernel gives it in place of `qdisc.h`, and in front of
 * it the receive program's `take_turn`. Time is what its input says. `order.rs` asks.
 *
 *     leave CALLS                                             with each frame the kernel dequeues 0 to CALLS times, in turns; else
 *                                                             until nothing leaves
 *     order HOLD_NS GRACE_NS HELD_MAX LINKS SESSION           how frames are put in order
 *     frame TIME_NS ID BYTES TAG PEER SEGMENTS                a frame comes; the words are those of `skb->cb`
 *     end
 *
 * Each frame that reaches the device is a line `left TIME_NS ID`, or `drop TIME_NS ID`; a line `.` ends what a line of input caused. A frame
 * that was dequeued is on its way there until the next call. Lines `COUNTER VALUE`, by the counter's number, come last, and `past VALUE`:
 * frames that the qdisc did not see.
 */
#include <linux/types.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- what `qdisc.h` has --- */

#define QDISC_H
#define SEC(name)
#define BPF_PROG(name, arguments...) name(arguments)
#define __kptr
#define __contains(type, node)
#define MAP(type, name, entries, flags) static type name[entries]
#define bpf_map_lookup_elem(map, key) (*(key) < sizeof(*(map)) / sizeof((*(map))[0]) ? &(*(map))[*(key)] : 0)
#define bpf_for(i, from, to) for (i = from; i < (int)(to); i++)
#define container_of(inner, type, member) ((type *)((char *)(inner) - offsetof(type, member)))
#define bpf_obj_new(type) ((type *)calloc(1, sizeof(type)))
#define bpf_obj_drop(object) free(object)
#define bpf_kptr_xchg(place, value) ({ __typeof__(value) before = *(place); *(place) = (value); before; })
#define BPF_F_INGRESS 1
#define NET_XMIT_SUCCESS 0
#define NET_XMIT_DROP 1
#define EBUSY 16

/* A list in the tree's order. */
struct bpf_rb_node {
	struct bpf_rb_node *next;
};

struct bpf_rb_root {
	struct bpf_rb_node *first;
};

struct bpf_spin_lock {
	int is_held;
};

struct sk_buff {
	char cb[48];
	unsigned long id;
};

struct qdisc_skb_cb {
	unsigned int pkt_len;
	unsigned char data[20];
};

struct Qdisc {
	__u32 limit;
	struct {
		__u32 qlen;
	} q;
	struct {
		__u32 backlog, drops;
	} qstats;
};

struct __sk_buff;
struct bpf_sk_buff_ptr;
struct nlattr;
struct netlink_ext_ack;

struct Qdisc_ops {
	char id[16];
	int (*enqueue)(struct sk_buff *, struct Qdisc *, struct bpf_sk_buff_ptr *);
	struct sk_buff *(*dequeue)(struct Qdisc *);
	int (*init)(struct Qdisc *, struct nlattr *, struct netlink_ext_ack *);
	void (*reset)(struct Qdisc *);
	void (*destroy)(struct Qdisc *);
};

static __u64 now_ns, timer_ns = ~0ull;

static __u64 bpf_ktime_get_ns(void)
{
	return now_ns;
}

static void bpf_qdisc_watchdog_schedule(struct Qdisc *sch, __u64 expire_ns, __u64 slack_ns)
{
	timer_ns = expire_ns;
}

static void bpf_qdisc_skb_drop(struct sk_buff *skb, struct bpf_sk_buff_ptr *to_free)
{
	printf("drop %llu %lu\n", now_ns, skb->id);
}

static void bpf_qdisc_bstats_update(struct Qdisc *sch, const struct sk_buff *skb)
{
}

static int bpf_redirect(__u32 index, __u64 flags)
{
	return 0;
}

static void bpf_spin_lock(struct bpf_spin_lock *lock)
{
	if (lock->is_held++)
		abort();
}

static void bpf_spin_unlock(struct bpf_spin_lock *lock)
{
	lock->is_held--;
}

static struct bpf_rb_node *bpf_rbtree_first(struct bpf_rb_root *root)
{
	return root->first;
}

static struct bpf_rb_node *bpf_rbtree_remove(struct bpf_rb_root *root, struct bpf_rb_node *node)
{
	struct bpf_rb_node **place = &root->first;

	while (*place != node)
		place = &(*place)->next;
	*place = node->next;
	return node;
}

static void bpf_rbtree_add(struct bpf_rb_root *root, struct bpf_rb_node *node,
			   _Bool (*less)(struct bpf_rb_node *, struct bpf_rb_node *))
{
	struct bpf_rb_node **place = &root->first;

	while (*place && !less(node, *place))
		place = &(*place)->next;
	node->next = *place;
	*place = node;
}

/* The loader sets constants. */
#define const
#include "reorder.bpf.c"
#undef const

/* --- the kernel around it --- */

static struct Qdisc sch;
/* What was dequeued last. */
static struct sk_buff *on_its_way;
static unsigned long calls = ~0ul, turn, past;

static void reach(struct sk_buff *skb)
{
	if (skb)
		printf("left %llu %lu\n", now_ns, skb->id);
	free(skb);
}

/* Until nothing leaves, or so many times. */
static void run_qdisc(unsigned long times)
{
	while (times--) {
		reach(on_its_way);
		on_its_way = reorder.dequeue(&sch);
		if (!on_its_way)
			break;
	}
}

/* What happens up to a time. */
static void pass(__u64 until_ns)
{
	while (timer_ns <= until_ns) {
		now_ns = timer_ns;
		timer_ns = NEVER;
		run_qdisc(~0ul);
	}
	now_ns = until_ns;
}

static void arrive(unsigned long id, __u32 bytes, __u32 words[3])
{
	struct sk_buff *skb = calloc(1, sizeof(*skb));
	struct qdisc_skb_cb *cb = (struct qdisc_skb_cb *)skb->cb;

	skb->id = id;
	if (take_turn(&turns[words[0] >> LANE_SHIFT & (LANES - 1)], words[0] & NUMBER_MASK, words[2])) {
		past++;
		reach(skb);
		return;
	}
	cb->pkt_len = bytes;
	memcpy(cb->data, words, 3 * sizeof(*words));
	reorder.enqueue(skb, &sch, 0);
	run_qdisc(calls == ~0ul ? calls : turn++ % (calls + 1));
}

int main(void)
{
	char line[256];

	config.paths = LINKS;
	if (reorder.init(&sch, 0, 0) || reorder.init(&sch, 0, 0) != -EBUSY)
		return 1;
	while (fgets(line, sizeof(line), stdin)) {
		struct order order = {};
		__u32 bytes, words[3];
		unsigned long id;
		__u64 at;

		if (sscanf(line, "order %llu %llu %u %u %u", &order.hold_ns, &order.grace_ns, &order.held_max, &order.links,
			   &order.session) == 5) {
			/* As `src/reorder.rs` does. */
			if (orders[0].session != order.session)
				memset(turns, 0, sizeof(turns));
			orders[0] = order;
		} else if (sscanf(line, "leave %lu", &calls) == 1) {
			continue;
		} else if (sscanf(line, "frame %llu %lu %u %u %u %u", &at, &id, &bytes, &words[0], &words[1], &words[2]) == 6) {
			pass(at);
			arrive(id, bytes, words);
		} else {
			run_qdisc(~0ul);
			pass(NEVER - 1);
		}
		printf(".\n");
	}
	for (int i = 0; i < REORDER_COUNTERS; i++)
		printf("%d %llu\n", i, reorder_counts[0].of[i]);
	printf("past %lu\n", past);
	return sch.q.qlen || sch.qstats.backlog || on_its_way;
}

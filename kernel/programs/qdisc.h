/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * What a qdisc needs of the kernel: the parts of its structures that are used here, found by name when the program is loaded
 * (CO-RE), and its functions for programs.
 *
 * Source: `net/sched/bpf_qdisc.c`, `include/net/sch_generic.h` and `kernel/bpf/helpers.c` of Linux 7.3.
 */
#ifndef QDISC_H /* `tests/programs/reorder.c` has the same without a kernel, and defines it. */
#define QDISC_H

/* What `linux/bpf.h` has since Linux 6.4 only is made here. */
#define bpf_rb_root uapi_rb_root
#define bpf_rb_node uapi_rb_node
#define bpf_iter_num uapi_iter_num
#include <linux/bpf.h>
#undef bpf_rb_root
#undef bpf_rb_node
#undef bpf_iter_num

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

struct bpf_rb_root {
	__u64 opaque[2];
} __attribute__((aligned(8)));

struct bpf_rb_node {
	__u64 opaque[4];
} __attribute__((aligned(8)));

struct bpf_iter_num {
	__u64 opaque[1];
} __attribute__((aligned(8)));

#define KERNEL __attribute__((preserve_access_index))

struct sk_buff {
	char cb[48];
} KERNEL;

struct qdisc_skb_cb {
	unsigned int pkt_len;
	unsigned char data[20];
} KERNEL;

struct qdisc_skb_head {
	__u32 qlen;
} KERNEL;

struct gnet_stats_queue {
	__u32 backlog;
	__u32 drops;
} KERNEL;

struct Qdisc {
	__u32 limit;
	struct qdisc_skb_head q;
	struct gnet_stats_queue qstats;
} KERNEL;

struct nlattr;
struct netlink_ext_ack;

struct bpf_sk_buff_ptr {
	struct sk_buff *skb;
} KERNEL;

/* Found by the names of its members. */
struct Qdisc_ops {
	char id[16];
	int (*enqueue)(struct sk_buff *, struct Qdisc *, struct sk_buff **);
	struct sk_buff *(*dequeue)(struct Qdisc *);
	int (*init)(struct Qdisc *, struct nlattr *, struct netlink_ext_ack *);
	void (*reset)(struct Qdisc *);
	void (*destroy)(struct Qdisc *);
};

#define NET_XMIT_SUCCESS 0
#define NET_XMIT_DROP 1
#define EBUSY 16

void bpf_qdisc_skb_drop(struct sk_buff *, struct bpf_sk_buff_ptr *to_free) __ksym;
void bpf_qdisc_watchdog_schedule(struct Qdisc *, __u64 expire_ns, __u64 slack_ns) __ksym;
void bpf_qdisc_bstats_update(struct Qdisc *, const struct sk_buff *) __ksym;

void *bpf_obj_new_impl(__u64 type, void *meta) __ksym;
void bpf_obj_drop_impl(void *object, void *meta) __ksym;
struct bpf_rb_node *bpf_rbtree_first(struct bpf_rb_root *) __ksym;
struct bpf_rb_node *bpf_rbtree_remove(struct bpf_rb_root *, struct bpf_rb_node *) __ksym;
int bpf_rbtree_add_impl(struct bpf_rb_root *, struct bpf_rb_node *,
			_Bool (*less)(struct bpf_rb_node *, const struct bpf_rb_node *), void *meta, __u64 offset) __ksym;

#define bpf_obj_new(type) ((type *)bpf_obj_new_impl(bpf_core_type_id_local(type), 0))
#define bpf_obj_drop(object) bpf_obj_drop_impl(object, 0)
#define bpf_rbtree_add(root, node, less) bpf_rbtree_add_impl(root, node, less, 0, 0)

/* The tree `root` holds structures `type`, of which `node` is the place in it. */
#define __contains(type, node) __attribute__((btf_decl_tag("contains:" #type ":" #node)))

#define MAP(value_type, name, entries, flags)                                                                                \
	struct {                                                                                                             \
		__uint(type, BPF_MAP_TYPE_ARRAY);                                                                            \
		__uint(map_flags, flags);                                                                                    \
		__uint(max_entries, entries);                                                                                \
		__type(key, __u32);                                                                                          \
		__type(value, value_type);                                                                                   \
	} name SEC(".maps")

#endif

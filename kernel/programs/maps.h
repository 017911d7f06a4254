/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * The maps that all programs share: `src/load.rs` makes each once. Those of arrays whose size depends on peers or processors
 * get it there.
 */
#pragma once

#include "layout.h"

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

/* Results of a program at TCX, `linux/bpf.h` of Linux 6.6. */
#define NEXT (-1)
#define DROP 2

const volatile struct config config = {};

#define ARRAY(value_type, name, entries)                                                                                     \
	struct {                                                                                                             \
		__uint(type, BPF_MAP_TYPE_ARRAY);                                                                            \
		__uint(map_flags, BPF_F_MMAPABLE);                                                                           \
		__uint(max_entries, entries);                                                                                \
		__type(key, __u32);                                                                                          \
		__type(value, value_type);                                                                                   \
	} name SEC(".maps")

ARRAY(struct peer, peers, 1);
ARRAY(struct path, paths, LINKS);
ARRAY(struct lane, lanes, LANES);
ARRAY(struct queue, queues, LINKS);
ARRAY(struct traffic, traffic, LINKS);
ARRAY(struct counts, counts, 1);

/* What a program does with a frame that it counts by `what`, a field of `struct counts`. There is no lock: a program is not
 * interrupted by another one on its processor. */
#define COUNTED(verdict, what)                                                                                               \
	({                                                                                                                   \
		__u32 processor = bpf_get_smp_processor_id();                                                                \
		struct counts *all = bpf_map_lookup_elem(&counts, &processor);                                               \
		if (all)                                                                                                     \
			all->what++;                                                                                         \
		verdict;                                                                                                     \
	})

static __always_inline struct traffic *traffic_of(__u32 path)
{
	__u32 index = bpf_get_smp_processor_id() * config.paths + path;

	return bpf_map_lookup_elem(&traffic, &index);
}

/* Whether two places in memory have the same `bytes`, an even number. Both are even. */
static __always_inline int is_same(const void *a, const void *b, __u32 bytes)
{
	const __u16 *left = a, *right = b;
	__u16 difference = 0;

	for (__u32 word = 0; word < bytes / sizeof(*left); word++)
		difference |= left[word] ^ right[word];
	return !difference;
}

/* The first `bytes` of the frame, in one piece; null: it is shorter. Those that were given before are invalid then. */
static __always_inline void *front(struct __sk_buff *skb, __u32 bytes)
{
	void *frame = (void *)(long)skb->data;

	if (frame + bytes <= (void *)(long)skb->data_end)
		return frame;
	if (bpf_skb_pull_data(skb, bytes))
		return 0;
	frame = (void *)(long)skb->data;
	return frame + bytes <= (void *)(long)skb->data_end ? frame : 0;
}

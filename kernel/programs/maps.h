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

/* Path of a sender. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, LINKS);
	__type(key, struct source);
	__type(value, __u32);
} sources SEC(".maps");

/* Peer of an address that the daemon states: those of the devices. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, struct mac);
	__type(value, __u32);
} owners SEC(".maps");

/* Peer of an address that was learned: those behind bridges. Under a storm of addresses the kernel gives up the ones that were
 * used least recently. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 16384);
	__type(key, struct mac);
	__type(value, __u32);
} fdb SEC(".maps");

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

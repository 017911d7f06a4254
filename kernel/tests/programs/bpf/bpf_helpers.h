/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * What the kernel gives its programs, without a kernel, as far as the choice of links needs it: maps are arrays, and the time is
 * `now_ns`. What asks for more is compiled all the same, and ends the process when it runs.
 */
#pragma once

#include <linux/bpf.h>
#include <stdlib.h>

#define SEC(name)
#define __uint(name, count) int(*name)[count]
#define __type(name, type) type name[256]
#define ENTRIES(map) (sizeof(*(map)->max_entries) / sizeof(int))
#define bpf_map_lookup_elem(map, key) (*(const __u32 *)(key) < ENTRIES(map) ? &(map)->value[*(const __u32 *)(key)] : 0)

static __u64 now_ns;

static inline __u64 bpf_ktime_get_ns(void)
{
	return now_ns;
}

static inline long needs_kernel(int first, ...)
{
	abort();
}

#define bpf_get_hash_recalc(skb) needs_kernel(0, skb)
#define bpf_get_smp_processor_id() needs_kernel(0)
#define bpf_jiffies64() needs_kernel(0)
#define bpf_map_update_elem(arguments...) needs_kernel(0, arguments)
#define bpf_redirect(arguments...) needs_kernel(0, arguments)
#define bpf_skb_adjust_room(arguments...) needs_kernel(0, arguments)
#define bpf_skb_load_bytes(arguments...) needs_kernel(0, arguments)
#define bpf_skb_pull_data(arguments...) needs_kernel(0, arguments)

/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Behind which peer a MAC address lives: what the daemon states, and what the receive program and the core's cells teach.
 *
 * A search takes 60 to 70 ns, a third of a program's time. So what was found is remembered until the next tick of the kernel's clock
 * (10 ms at most), and a stream of frames pays for one search. Who moves is found as much later.
 */
#pragma once

#include "maps.h"

/* Addresses that a processor remembers, by their last byte. */
#define RECENT 16

/* Peer of an address that the daemon states: this host's own. */
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

/* An address that was found behind `peer` at `tick`. Index: processor times `RECENT` plus the address's last byte modulo that. */
struct recent {
	__u64 tick;
	__u32 peer;
	struct mac mac;
	__u16 padding;
};

ARRAY(struct recent, recent, RECENT);

static __always_inline struct recent *recent_of(const struct mac *mac)
{
	__u32 index = bpf_get_smp_processor_id() * RECENT + mac->bytes[5] % RECENT;

	return bpf_map_lookup_elem(&recent, &index);
}

static __always_inline int is_remembered(const struct recent *recent, const struct mac *mac)
{
	return recent && recent->tick == bpf_jiffies64() && is_same(&recent->mac, mac, sizeof(*mac));
}

static __always_inline void remember(struct recent *recent, const struct mac *mac, __u32 peer)
{
	if (recent)
		*recent = (struct recent){ .tick = bpf_jiffies64(), .peer = peer, .mac = *mac };
}

/* The peer behind which an address lives; null: nobody knows. */
static __always_inline __u32 *find_peer(const struct mac *mac)
{
	struct recent *recent = recent_of(mac);
	__u32 *peer;

	if (is_remembered(recent, mac))
		return &recent->peer;
	peer = bpf_map_lookup_elem(&owners, mac);
	if (!peer)
		peer = bpf_map_lookup_elem(&fdb, mac);
	if (peer)
		remember(recent, mac, *peer);
	return peer;
}

/* Notes behind which peer a sender lives; `DROP` when its address belongs to somebody else or is nobody's, else 0. */
static __always_inline int learn(const struct mac *mac, __u32 peer)
{
	struct recent *recent = recent_of(mac);
	__u32 *known;

	if (is_remembered(recent, mac) && recent->peer == peer)
		return 0;
	known = bpf_map_lookup_elem(&owners, mac);
	if ((known && *known != peer) || mac->bytes[0] & 1)
		return COUNTED(DROP, drop_source);
	if (!known) {
		known = bpf_map_lookup_elem(&fdb, mac);
		if (!known || *known != peer)
			bpf_map_update_elem(&fdb, mac, &peer, BPF_ANY);
	}
	remember(recent, mac, peer);
	return 0;
}

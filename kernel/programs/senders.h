/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Senders: flows that share a place by a hash. They have one link and move together, and it is counted what they send and receive,
 * for policies that balance by that. Which link one has, the core decides: `choose_by_sender` in `choose.h`.
 */
#pragma once

#include "maps.h"
#include "segments.h"

#define IPV4_BYTES 20
#define IPV4_FRAGMENT 6
#define IPV4_WORDS 3
#define IPV6_WORDS 2
#define FRAGMENT_MASK 0x3fff

ARRAY(struct sender, senders, SENDERS);
ARRAY(struct volume, volumes, SENDERS);
/* How many senders have come that had no link, or one that was down. */
ARRAY(__u64, newcomers, 1);

/* The sender of a frame: the same for both directions of a flow, by its addresses and ports. The kernel's own hash is not: a socket's
 * frames have a random one, which changes with a time-out, and flow labels count. */
static __always_inline __u32 sender_of(struct __sk_buff *skb)
{
	int is_ipv4 = skb->protocol == bpf_htons(PROTOCOL_IPV4), fragment = 0;
	__u32 head[IPV6_BYTES / sizeof(__u32)] = {}, at = ETHERNET_BYTES + IPV6_BYTES, hash;
	const __u8 *bytes = (const __u8 *)head;
	__u8 next;
	__u16 ports[2];

	if (is_ipv4) {
		if (bpf_skb_load_bytes(skb, ETHERNET_BYTES, head, IPV4_BYTES) < 0)
			return 0;
		at = ETHERNET_BYTES + (bytes[0] & 0xf) * 4;
		next = bytes[IPV4_PROTOCOL];
		fragment = *(const __u16 *)(bytes + IPV4_FRAGMENT) & bpf_htons(FRAGMENT_MASK);
		hash = head[IPV4_WORDS] ^ head[IPV4_WORDS + 1];
	} else {
		if (bpf_skb_load_bytes(skb, ETHERNET_BYTES, head, IPV6_BYTES) < 0)
			return 0;
		next = bytes[IPV6_NEXT];
		hash = 0;
		for (__u32 word = IPV6_WORDS; word < sizeof(head) / sizeof(*head); word++)
			hash ^= head[word];
	}
	if ((next == NEXT_TCP || next == NEXT_UDP) && !fragment && !bpf_skb_load_bytes(skb, at, ports, sizeof(ports)))
		hash ^= (__u32)(ports[0] ^ ports[1]) << 16 | next;
	/* The finalizer of MurmurHash3. */
	hash = (hash ^ hash >> 16) * 0x85ebca6b;
	hash = (hash ^ hash >> 13) * 0xc2b2ae35;
	return (hash ^ hash >> 16) % SENDERS;
}

static __always_inline struct volume *volume_of(__u32 sender)
{
	__u32 index = bpf_get_smp_processor_id() * SENDERS + sender;

	return bpf_map_lookup_elem(&volumes, &index);
}

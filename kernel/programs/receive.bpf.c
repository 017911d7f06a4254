/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Ingress of a link's NIC: a frame of a peer's send program comes out of its outer headers and goes to the device.
 *
 *     match -> check lengths -> learn -> take out -> account -> redirect
 *
 * All that is not for the bundle is left to the stack, untouched. A frame from a peer is what a hostile peer made of it: each
 * length is compared with the frame's own before a byte behind it is used, and none of its values names an address in memory.
 *
 * A frame with a place in an order goes to the qdisc that keeps it (`config.reorder`), with two words in `skb->cb`:
 * the first `TAG_ORDERED | link << 20 | lane << 16 | number`, the second the peer.
 *
 * Source: `bpf_skb_adjust_room` in bpf-helpers(7); `bpf_skb_net_shrink` in `net/core/filter.c` of Linux 6.18.
 */
#include <linux/bpf.h>

#include "maps.h"
#include "outer.h"

/* Not in `linux/bpf.h` before Linux 6.3. */
#define DECAP_L3_IPV4 (1ULL << 7)
#define DECAP_L3_IPV6 (1ULL << 8)
/* Where the link stands in the tag. */
#define LINK_SHIFT 20
/* `skb->pkt_type` of a frame to the NIC's own address. */
#define TO_THIS_HOST 0
/* Bytes up to the end of UDP's header. */
#define MATCHED (ETHERNET_BYTES + IPV6_BYTES + UDP_BYTES)

/* Whether the frame is for the bundle's port on this host's NIC. Reads its headers up to UDP's. */
static __always_inline int is_for_port(struct __sk_buff *skb, struct outer *outer)
{
	return skb->protocol == bpf_htons(PROTOCOL_IPV6) && !skb->vlan_present && skb->pkt_type == TO_THIS_HOST &&
	       bpf_skb_load_bytes(skb, 0, outer, MATCHED) == 0 && bpf_ntohl(outer->flow) >> 28 == 6 &&
	       outer->next == NEXT_UDP && outer->port == config.port;
}

/* Number of the path on which a frame of these addresses comes; null: on none. */
static __always_inline __u32 *find_path(const struct __sk_buff *skb, const struct outer *outer)
{
	struct source source = { .ifindex = skb->ifindex };
	struct path *path;
	__u32 *number;

	__builtin_memcpy(source.address, outer->from, sizeof(source.address));
	number = bpf_map_lookup_elem(&sources, &source);
	path = number ? bpf_map_lookup_elem(&paths, number) : 0;
	if (!path)
		return COUNTED((__u32 *)0, pass_source);
	if (__builtin_memcmp(path->local, outer->to, sizeof(path->local)))
		return COUNTED((__u32 *)0, pass_destination);
	return number;
}

/* Reads the inner Ethernet header; `DROP` for a frame that contradicts itself, else 0. */
static __always_inline int check(struct __sk_buff *skb, struct outer *outer)
{
	__u8 version;

	if (MATCHED - UDP_BYTES + bpf_ntohs(outer->payload_bytes) != skb->len || outer->udp_bytes != outer->payload_bytes)
		return COUNTED(DROP, drop_length);
	if (bpf_skb_load_bytes(skb, MATCHED, &outer->inner, ETHERNET_BYTES) < 0 ||
	    bpf_skb_load_bytes(skb, MATCHED + ETHERNET_BYTES, &version, sizeof(version)) < 0)
		return COUNTED(DROP, drop_length);
	if (outer->checksum)
		return COUNTED(DROP, drop_checksum);
	if (!(outer->inner.protocol == bpf_htons(PROTOCOL_IPV4) && version >> 4 == 4) &&
	    !(outer->inner.protocol == bpf_htons(PROTOCOL_IPV6) && version >> 4 == 6))
		return COUNTED(DROP, drop_protocol);
	return 0;
}

/* Notes behind which peer the sender lives; `DROP` when its address belongs to somebody else or is nobody's, else 0. */
static __always_inline int learn(const __u8 *address, __u32 peer)
{
	__u32 *known;
	struct mac mac;

	__builtin_memcpy(&mac, address, sizeof(mac));
	known = bpf_map_lookup_elem(&owners, &mac);
	if ((known && *known != peer) || mac.bytes[0] & 1)
		return COUNTED(DROP, drop_source);
	if (known)
		return 0;
	known = bpf_map_lookup_elem(&fdb, &mac);
	if (!known || *known != peer)
		bpf_map_update_elem(&fdb, &mac, &peer, BPF_ANY);
	return 0;
}

/* Takes the outer headers off; `DROP` when the kernel does not, else 0. */
static __always_inline int take_out(struct __sk_buff *skb, const struct outer *outer)
{
	__u64 flags = BPF_F_ADJ_ROOM_FIXED_GSO |
		      (outer->inner.protocol == bpf_htons(PROTOCOL_IPV4) ? DECAP_L3_IPV4 : DECAP_L3_IPV6);

	if (bpf_skb_adjust_room(skb, -OVERHEAD, BPF_ADJ_ROOM_MAC, flags) ||
	    bpf_skb_store_bytes(skb, 0, &outer->inner, ETHERNET_BYTES, BPF_F_INVALIDATE_HASH))
		return COUNTED(DROP, drop_receiving);
	return 0;
}

static __always_inline void account(__u32 path, __u32 bytes)
{
	struct traffic *traffic = traffic_of(path);

	if (!traffic)
		return;
	traffic->received_frames++;
	traffic->received_bytes += bytes;
	traffic->received_ns = bpf_ktime_get_ns();
}

/* To the device, or to where its order is restored. */
static __always_inline int hand_on(struct __sk_buff *skb, __u32 path, __u32 label)
{
	if (!(label >> LANE_SHIFT) || !config.reorder)
		return bpf_redirect(config.device, BPF_F_INGRESS);
	skb->cb[0] = TAG_ORDERED | (path % LINKS) << LINK_SHIFT | label;
	skb->cb[1] = path / LINKS;
	return bpf_redirect(config.reorder, 0);
}

SEC("tcx/ingress")
int receive(struct __sk_buff *skb)
{
	struct outer outer;
	__u32 *found, path;

	if (!is_for_port(skb, &outer))
		return NEXT;
	found = find_path(skb, &outer);
	if (!found)
		return NEXT;
	path = *found;
	if (check(skb, &outer) || learn(outer.inner.from, path / LINKS) || take_out(skb, &outer))
		return DROP;
	account(path, skb->len);
	return hand_on(skb, path, bpf_ntohl(outer.flow) & LABEL_MASK);
}

char _license[] SEC("license") = "Dual MIT/GPL";

/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Ingress of a link's NIC: a frame of a peer's send program comes out of its outer headers and goes to the device.
 *
 *     match -> check lengths -> learn -> take out -> account -> redirect
 *
 * All that is not for the bundle is left to the stack, untouched. A frame from a peer is what a hostile peer made of it: each
 * length is compared with the frame's own before a byte behind it is used, and none of its values names an address in memory.
 *
 * A frame with a place in an order goes to the device if it is its turn, else to the qdisc that restores the order (`config.reorder`), and
 * says where it belongs (`TAG_ORDERED`).
 *
 * Source: `bpf_skb_adjust_room` in bpf-helpers(7); `bpf_skb_net_shrink` in `net/core/filter.c` of Linux 6.18.
 */
#include <linux/bpf.h>

#include "addresses.h"
#include "maps.h"
#include "outer.h"
#include "segments.h"
#include "senders.h"
#include "turn.h"

/* Not in `linux/bpf.h` before Linux 6.3. */
#define DECAP_L3_IPV4 (1ULL << 7)
#define DECAP_L3_IPV6 (1ULL << 8)
/* `skb->pkt_type` of a frame to the NIC's own address. */
#define TO_THIS_HOST 0
/* Paths that are remembered: of 16 NICs and the peers of most bundles. */
#define HINTS 256
/* Bytes up to the end of UDP's header. */
#define MATCHED (ETHERNET_BYTES + IPV6_BYTES + UDP_BYTES)

/* Path of a sender. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, LINKS);
	__type(key, struct source);
	__type(value, __u32);
} sources SEC(".maps");

/* Paths by which senders came lately. Index: of bits of the sender's address and of the interface. Whose path it is, `paths` says. */
ARRAY(__u32, hints, HINTS);

/* The reorder qdisc's, where there is one. */
ARRAY(struct turn, turns, LANES);

/* The headers up to UDP's of a frame for the bundle's port on this host's NIC; null: it is for somebody else. */
static __always_inline struct outer *match(struct __sk_buff *skb)
{
	struct outer *outer;

	if (skb->protocol != bpf_htons(PROTOCOL_IPV6) || skb->vlan_present || skb->pkt_type != TO_THIS_HOST)
		return 0;
	outer = front(skb, MATCHED);
	return outer && bpf_ntohl(outer->flow) >> 28 == 6 && outer->next == NEXT_UDP && outer->port == config.port ? outer : 0;
}

/* The path on which a frame of these addresses comes, whose number is `*number` then; null: none. */
static __always_inline struct path *find_path(const struct __sk_buff *skb, const struct outer *outer, __u32 *number)
{
	struct source source = { .ifindex = skb->ifindex, .address = outer->from };
	__u32 at = (source.ifindex ^ source.address.bytes[15]) % HINTS;
	__u32 *hint = bpf_map_lookup_elem(&hints, &at), *found;
	struct path *path;

	if (!hint)
		return 0;
	*number = *hint;
	path = bpf_map_lookup_elem(&paths, number);
	if (path && path->ifindex == source.ifindex && is_same(&path->remote, &source.address, sizeof(source.address)))
		return path;
	found = bpf_map_lookup_elem(&sources, &source);
	if (!found)
		return 0;
	*hint = *number = *found;
	return bpf_map_lookup_elem(&paths, number);
}

/* `DROP` for a frame that contradicts itself, else 0; its inner Ethernet header is in `inner` then. */
static __always_inline int check(struct __sk_buff *skb, struct ethernet *inner)
{
	struct outer *outer = front(skb, sizeof(*outer) + sizeof(__u8));
	__u8 version;

	if (!outer || MATCHED - UDP_BYTES + bpf_ntohs(outer->payload_bytes) != skb->len ||
	    outer->udp_bytes != outer->payload_bytes)
		return COUNTED(DROP, drop_length);
	if (outer->checksum)
		return COUNTED(DROP, drop_checksum);
	*inner = outer->inner;
	version = *(__u8 *)(outer + 1) >> 4;
	if (!(inner->protocol == bpf_htons(PROTOCOL_IPV4) && version == 4) &&
	    !(inner->protocol == bpf_htons(PROTOCOL_IPV6) && version == 6))
		return COUNTED(DROP, drop_protocol);
	return 0;
}

/* Takes the outer headers off; `DROP` when the kernel does not, else 0. */
static __always_inline int take_out(struct __sk_buff *skb, const struct ethernet *inner)
{
	__u64 flags = BPF_F_ADJ_ROOM_FIXED_GSO |
		      (inner->protocol == bpf_htons(PROTOCOL_IPV4) ? DECAP_L3_IPV4 : DECAP_L3_IPV6);
	struct ethernet *frame;

	if (bpf_skb_adjust_room(skb, -OVERHEAD, BPF_ADJ_ROOM_MAC, flags))
		return COUNTED(DROP, drop_receiving);
	frame = front(skb, sizeof(*frame));
	if (!frame)
		return COUNTED(DROP, drop_receiving);
	*frame = *inner;
	bpf_set_hash_invalid(skb);
	return 0;
}

/* Whoever answers goes by the link by which the flow came. */
static __always_inline void account_sender(struct __sk_buff *skb, __u32 path)
{
	__u32 number = sender_of(skb);
	struct sender *sender = bpf_map_lookup_elem(&senders, &number);
	struct volume *volume = volume_of(number);

	if (sender && !sender->seat)
		sender->seat = SEATED | path / LINKS << SEAT_PEER_SHIFT | path % LINKS;
	if (volume)
		volume->received += skb->len;
}

static __always_inline void account(struct __sk_buff *skb, __u32 path)
{
	struct traffic *traffic = traffic_of(path);
	__u32 number = path / LINKS;
	struct peer *peer = bpf_map_lookup_elem(&peers, &number);

	if (!traffic)
		return;
	traffic->received_frames++;
	traffic->received_bytes += skb->len;
	traffic->received_ns = bpf_ktime_get_ns();
	if (peer && peer->flags & PEER_RECEIVED)
		account_sender(skb, path);
}

/* To the device, or to where its order is restored. */
static __always_inline int hand_on(struct __sk_buff *skb, __u32 path, __u32 label)
{
	__u32 lane = path / LINKS * LANES + (label >> LANE_SHIFT), count;
	struct turn *turn;

	if (!(label >> LANE_SHIFT) || !config.reorder)
		return bpf_redirect(config.device, BPF_F_INGRESS);
	turn = bpf_map_lookup_elem(&turns, &lane);
	count = segments(skb);
	if (turn && take_turn(turn, label & NUMBER_MASK, count))
		return COUNTED(bpf_redirect(config.device, BPF_F_INGRESS), order_in_turn);
	skb->cb[0] = TAG_ORDERED | (path % LINKS) << LINK_SHIFT | label;
	skb->cb[1] = path / LINKS;
	skb->cb[2] = count;
	return bpf_redirect(config.reorder, 0);
}

SEC("tcx/ingress")
int receive(struct __sk_buff *skb)
{
	struct outer *outer = match(skb);
	struct ethernet inner;
	struct path *path;
	__u32 number, label;

	if (!outer)
		return NEXT;
	path = find_path(skb, outer, &number);
	if (!path)
		return COUNTED(NEXT, pass_source);
	if (!is_same(&path->local, &outer->to, sizeof(outer->to)))
		return COUNTED(NEXT, pass_destination);
	label = bpf_ntohl(outer->flow) & LABEL_MASK;
	if (check(skb, &inner) || learn(&inner.from, number / LINKS) || take_out(skb, &inner))
		return DROP;
	account(skb, number);
	return hand_on(skb, number, label);
}

char _license[] SEC("license") = "Dual MIT/GPL";

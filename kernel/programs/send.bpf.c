/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Egress of the device: a frame, whole as the stack made it, leaves by a link.
 *
 *     classify -> look up the peer -> choose a link -> keep -> encapsulate -> redirect
 *
 * What this program does not carry goes on to the device's reader and travels in cells; `struct counts` has the reasons. Superframes
 * stay whole (GSO): who segments them is the NIC, or the stack in front of it, and copies the outer header onto every segment.
 *
 * Source: `bpf_skb_adjust_room` in bpf-helpers(7); `bpf_skb_net_grow` in `net/core/filter.c` of Linux 6.18.
 */
#include <linux/bpf.h>

#include "addresses.h"
#include "choose.h"
#include "keep.h"
#include "maps.h"
#include "outer.h"
#include "segments.h"
#include "senders.h"

/* Bits of a source port that a flow's hash gives: NICs tell flows apart by it. The others are those of ephemeral ports. */
#define PORT_FLOW 0x3fff
#define PORT_EPHEMERAL 0xc000
/* Lanes that have an order: 1 to 15. */
#define LANE_OF(hash) (1 + (hash) % (LANES - 1))
/* The most that the lengths of outer UDP and IPv6 can say. */
#define PAYLOAD_MAX 65535
#define HOPS 255

/* What a frame is on a link. */
struct shape {
	__u32 segments;
	/* Bytes of the largest of them, without outer headers; 0: unknown. */
	__u32 largest;
	/* Bytes of all, with theirs. */
	__u32 link_bytes;
};

static __always_inline struct shape shape_of(struct __sk_buff *skb)
{
	__u32 headers = skb->gso_size ? segment_headers(skb) : 0, count = count_segments(skb, headers);

	return (struct shape){
		.segments = count,
		.largest = !skb->gso_size ? skb->len : headers ? headers + skb->gso_size : 0,
		.link_bytes = skb->len + count * OVERHEAD + (count - 1) * headers,
	};
}

/* The place of a frame in the order of its lane, as the flow label has it. Each segment takes a number; the label has the first. */
static __always_inline __u32 number(__u32 peer, __u32 lane, __u32 segments)
{
	__u32 index = peer * LANES + lane;
	struct lane *state = bpf_map_lookup_elem(&lanes, &index);

	return state ? lane << LANE_SHIFT | (__sync_fetch_and_add(&state->next, segments) & NUMBER_MASK) : 0;
}

/* Puts the outer headers in front. The frame is as before when the kernel refuses to make room. */
static __always_inline int encapsulate(struct __sk_buff *skb, const struct path *path, __u32 label, __u16 port)
{
	const __u64 flags = BPF_F_ADJ_ROOM_FIXED_GSO | BPF_F_ADJ_ROOM_ENCAP_L3_IPV6 | BPF_F_ADJ_ROOM_ENCAP_L4_UDP |
			    BPF_F_ADJ_ROOM_ENCAP_L2(ETHERNET_BYTES) | BPF_F_ADJ_ROOM_ENCAP_L2_ETH;
	__be16 length = bpf_htons(skb->len + UDP_BYTES);
	struct ethernet *frame = front(skb, sizeof(*frame)), inner;
	struct outer *outer;

	if (!frame)
		return COUNTED(NEXT, user_refused);
	inner = *frame;
	if (bpf_skb_adjust_room(skb, OVERHEAD, BPF_ADJ_ROOM_MAC, flags) < 0)
		return COUNTED(NEXT, user_refused);
	outer = front(skb, sizeof(*outer));
	if (!outer)
		return COUNTED(DROP, drop_sending);
	*outer = (struct outer){
		.ethernet = { .to = path->remote_mac, .from = path->local_mac, .protocol = bpf_htons(PROTOCOL_IPV6) },
		.flow = bpf_htonl(VERSION_6 | label),
		.payload_bytes = length,
		.next = NEXT_UDP,
		.hops = HOPS,
		.from = path->local,
		.to = path->remote,
		.source_port = bpf_htons(port),
		.port = path->remote_port,
		.udp_bytes = length,
		.inner = inner,
	};
	return bpf_redirect(path->ifindex, 0);
}

static __always_inline int carry(struct __sk_buff *skb, __u32 peer_number)
{
	struct peer *peer = bpf_map_lookup_elem(&peers, &peer_number);
	__u32 link, label = 0, hash, bytes = skb->len;
	struct traffic *traffic;
	struct volume *volume;
	struct shape shape;
	struct path *path;
	int result;

	if (!peer || !(peer->flags & PEER_READY))
		return COUNTED(NEXT, user_not_ready);
	hash = peer->flags & PEER_SENDERS ? sender_of(skb) : bpf_get_hash_recalc(skb);
	shape = shape_of(skb);
	if (peer->flags & PEER_SENDERS)
		link = choose_by_sender(peer_number, hash);
	else if (!(peer->flags & PEER_STRIPED))
		link = peer->slots[hash % SLOTS];
	else if (peer->flags & PEER_WEIGHTED)
		link = choose_by_share(peer_number, shape.link_bytes);
	else
		link = choose_by_time(peer_number, shape.link_bytes);
	path = link < LINKS ? find_path(peer_number, link) : 0;
	if (!path)
		return COUNTED(NEXT, user_no_link);
	if (!shape.largest || shape.largest + OVERHEAD - ETHERNET_BYTES > path->mtu || bytes + UDP_BYTES > PAYLOAD_MAX)
		return COUNTED(NEXT, user_large);
	keep_last(skb, peer_number * LINKS + link, hash);
	if (peer->flags & PEER_STRIPED) {
		hash = LANE_OF(hash);
		label = number(peer_number, hash, shape.segments);
	}
	result = encapsulate(skb, path, label, PORT_EPHEMERAL | (hash & PORT_FLOW));
	traffic = result == NEXT || result == DROP ? 0 : traffic_of(peer_number * LINKS + link);
	if (traffic) {
		traffic->sent_frames++;
		traffic->sent_bytes += bytes;
		traffic->link_bytes += shape.link_bytes;
	}
	volume = traffic && peer->flags & PEER_SENDERS ? volume_of(hash) : 0;
	if (volume)
		volume->sent += shape.link_bytes;
	return result;
}

SEC("tcx/egress")
int send(struct __sk_buff *skb)
{
	struct ethernet *frame = front(skb, sizeof(*frame));
	struct mac to;
	__u32 *peer;

	if (!frame)
		return NEXT;
	to = frame->to;
	if (to.bytes[0] & 1)
		return COUNTED(NEXT, user_multicast);
	if (skb->vlan_present || (skb->protocol != bpf_htons(PROTOCOL_IPV4) && skb->protocol != bpf_htons(PROTOCOL_IPV6)))
		return COUNTED(NEXT, user_protocol);
	peer = find_peer(&to);
	if (!peer)
		return COUNTED(NEXT, user_unknown);
	return carry(skb, *peer);
}

char _license[] SEC("license") = "Dual MIT/GPL";

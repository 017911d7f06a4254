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
#include "maps.h"
#include "outer.h"
#include "segments.h"
#include "senders.h"

/* Bits of a source port that a flow's hash gives: NICs tell flows apart by it. The others are those of ephemeral ports. */
#define PORT_FLOW 0x3fff
#define PORT_EPHEMERAL 0xc000
/* Lanes that have an order: 1 to 15. */
#define LANE_OF(hash) (1 + (hash) % (LANES - 1))
/* How many nanoseconds later a frame may arrive for each that it does not wait. */
#define LATER 32
/* By how many nanoseconds a link with a share may be behind: what it did not get while it was down is not made up for. */
#define LAG_NS 2000000
/* The most that the lengths of outer UDP and IPv6 can say. */
#define PAYLOAD_MAX 65535
#define HOPS 255

ARRAY(struct last_segment, last_segments, FLOWS);

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

static __always_inline struct path *find_path(__u32 peer, __u32 link)
{
	__u32 index = peer * LINKS + link;
	struct path *path = bpf_map_lookup_elem(&paths, &index);

	return path && (path->flags & PATH_UP) ? path : 0;
}

static __always_inline struct queue *find_queue(__u32 link)
{
	return bpf_map_lookup_elem(&queues, &link);
}

/* From when on a link of a peer that gives shares counts: by what all links were given, and no clock. */
static __always_inline __u64 share_start(const struct queue *queue)
{
	__u64 latest = LAG_NS;

	for (__u32 link = 0; link < LINKS; link++) {
		struct queue *other = find_queue(link);

		if (other && other->free_ns > latest)
			latest = other->free_ns;
	}
	return queue && queue->free_ns > latest - LAG_NS ? queue->free_ns : latest - LAG_NS;
}

/* The link that lacks most of its share, by the speeds that it is said to have. */
__attribute__((noinline)) __u32 choose_by_share(__u32 peer, __u32 bytes)
{
	__u64 least = ~0ULL;
	__u32 chosen = NO_LINK;
	struct queue *queue;

	for (__u32 link = 0; link < LINKS; link++) {
		struct path *path = find_path(peer, link);
		__u64 end;

		if (!path)
			continue;
		end = share_start(find_queue(link)) + (((__u64)bytes * path->byte_time) >> TIME_SHIFT);
		if (end < least) {
			least = end;
			chosen = link;
		}
	}
	queue = find_queue(chosen);
	if (queue)
		queue->free_ns = least;
	return chosen;
}

/* The link that is free first; of those the one by which the frame arrives first. A sending TCP lets about a millisecond wait in
 * front of links (TSQ) and the rest in its socket, where no program sees it. So who waited for the nearer of two links would never
 * use the other one; and a link is used that is later by `LATER` times as much as the nearer one is busy.
 *
 * A function that is not static: the verifier looks at it once, and not for each way that leads to it.
 *
 * Two processors may see the same queue; what one of them adds is lost then, and the next frame finds the link shorter than it
 * is by one frame. */
__attribute__((noinline)) __u32 choose_by_time(__u32 peer, __u32 bytes)
{
	__u64 now = bpf_ktime_get_ns(), least = ~0ULL, free_ns = 0;
	__u32 chosen = NO_LINK;
	struct queue *queue;

	for (__u32 link = 0; link < LINKS; link++) {
		struct path *path = find_path(peer, link);
		__u64 start, time, rank;

		if (!path)
			continue;
		queue = find_queue(link);
		start = queue && queue->free_ns > now ? queue->free_ns : now;
		time = ((__u64)bytes * path->byte_time) >> TIME_SHIFT;
		rank = start + (time + path->delay_ns) / LATER;
		if (rank < least) {
			least = rank;
			free_ns = start + time;
			chosen = link;
		}
	}
	queue = find_queue(chosen);
	if (queue)
		queue->free_ns = free_ns;
	return chosen;
}

/* The link of a sender. One that has none, or whose link is down, takes the next that the daemon has for newcomers. */
__attribute__((noinline)) __u32 choose_by_sender(__u32 peer_number, __u32 sender_number)
{
	struct sender *sender = bpf_map_lookup_elem(&senders, &sender_number);
	struct peer *peer = bpf_map_lookup_elem(&peers, &peer_number);
	__u32 first = 0, link;
	__u64 *count = bpf_map_lookup_elem(&newcomers, &first), before;

	if (!sender || !peer || !count)
		return NO_LINK;
	link = sender->seat % LINKS;
	if (sender->seat && find_path(peer_number, link))
		return link;
	before = __sync_fetch_and_add(count, 1);
	for (__u32 next = 0; next < NEWCOMERS; next++) {
		link = peer->newcomers[(before + next) % NEWCOMERS];
		if (link < LINKS && find_path(peer_number, link)) {
			sender->seat = SEATED | peer_number << SEAT_PEER_SHIFT | link;
			return link;
		}
	}
	return NO_LINK;
}

/* The place of a frame in the order of its lane, as the flow label has it. Each segment takes a number; the label has the first. */
static __always_inline __u32 number(__u32 peer, __u32 lane, __u32 segments)
{
	__u32 index = peer * LANES + lane;
	struct lane *state = bpf_map_lookup_elem(&lanes, &index);

	return state ? lane << LANE_SHIFT | (__sync_fetch_and_add(&state->next, segments) & NUMBER_MASK) : 0;
}

/* Keeps the last segment of a TCP flow: should the path be found dead, whoever gets that one says which others are missing. What
 * it reads of the frame is checked by who sends it again. */
static __always_inline void keep_last(struct __sk_buff *skb, __u32 path, __u32 hash)
{
	__u32 at, index = bpf_get_smp_processor_id() * FLOWS + hash % FLOWS;
	__u32 headers = transport(skb, &at) == NEXT_TCP ? tcp_headers(skb, at) : 0, bytes = skb->len - headers;
	struct last_segment *last = bpf_map_lookup_elem(&last_segments, &index);

	if (!last || !headers || headers > HEADERS_MAX || headers > skb->len)
		return;
	if (skb->gso_size && bytes)
		bytes = (bytes - 1) % skb->gso_size + 1;
	if (bytes > SEGMENT_MAX)
		return;
	__sync_fetch_and_add(&last->version, 1);
	last->sent_ns = bpf_ktime_get_ns();
	last->path = path;
	last->frame_bytes = skb->len;
	last->header_bytes = headers;
	last->payload_bytes = bytes;
	if (bpf_skb_load_bytes(skb, 0, last->headers, headers) ||
	    (bytes && bpf_skb_load_bytes(skb, skb->len - bytes, last->payload, bytes)))
		last->frame_bytes = 0;
	__sync_fetch_and_add(&last->version, 1);
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

/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * By which link of a peer a frame leaves, for policies that spread frames and those that give each sender a link. A flow's hash alone takes
 * a look into the peer's slots.
 */
#pragma once

#include "maps.h"
#include "senders.h"

/* How many nanoseconds later a frame may arrive for each that it does not wait. */
#define LATER 32
/* By how many nanoseconds a link with a share may be behind: what it did not get while it was down is not made up for. */
#define LAG_NS 2000000

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

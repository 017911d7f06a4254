/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * The last segment of each TCP flow is kept: `src/again.rs` sends it again when its path is given up.
 */
#pragma once

#include "maps.h"
#include "segments.h"

ARRAY(struct last_segment, last_segments, FLOWS);

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

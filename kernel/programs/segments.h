/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Of what a superframe consists: the same at both ends, whether or not somebody has segmented it on the way.
 */
#pragma once

#include "outer.h"

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

/* Where inner headers have what is read of them, in bytes. */
#define IPV4_PROTOCOL 9
#define IPV6_NEXT 6
#define TCP_OFFSET 12

/* A byte of the frame; -1: the frame is shorter. One that does not lie in the frame's first piece takes a call. */
static __always_inline int byte_at(struct __sk_buff *skb, __u32 at)
{
	__u8 *byte = (void *)(long)skb->data + at, copy;

	if ((void *)(byte + 1) <= (void *)(long)skb->data_end)
		return *byte;
	return bpf_skb_load_bytes(skb, at, &copy, sizeof(copy)) < 0 ? -1 : copy;
}

/* The protocol inside IP, -1 when the frame is shorter; its header begins at `*at`. */
static __always_inline int transport(struct __sk_buff *skb, __u32 *at)
{
	int is_ipv4 = skb->protocol == bpf_htons(PROTOCOL_IPV4);
	int first = byte_at(skb, ETHERNET_BYTES);

	*at = ETHERNET_BYTES + (is_ipv4 ? (first & 0xf) * 4 : IPV6_BYTES);
	return byte_at(skb, ETHERNET_BYTES + (is_ipv4 ? IPV4_PROTOCOL : IPV6_NEXT));
}

/* Bytes of the headers in front of the payload of a TCP segment; 0: it is none. `at`: where TCP's begins. */
static __always_inline __u32 tcp_headers(struct __sk_buff *skb, __u32 at)
{
	int offset = byte_at(skb, at + TCP_OFFSET);

	return offset >= 0 ? at + (offset >> 4) * 4 : 0;
}

/* Bytes of the headers in front of the payload of a superframe's segments; 0: unknown. */
static __always_inline __u32 segment_headers(struct __sk_buff *skb)
{
	__u32 at;
	int next = transport(skb, &at);

	if (next == NEXT_UDP)
		return at + UDP_BYTES;
	return next == NEXT_TCP ? tcp_headers(skb, at) : 0;
}

/* How many segments the frame is, which `headers` are in front of when it is a superframe: else 1. The kernel's own number (`gso_segs`)
 * is 0 behind headers that a program has made. */
static __always_inline __u32 count_segments(struct __sk_buff *skb, __u32 headers)
{
	return headers && headers < skb->len ? (skb->len - headers + skb->gso_size - 1) / skb->gso_size : 1;
}

static __always_inline __u32 segments(struct __sk_buff *skb)
{
	return count_segments(skb, skb->gso_size ? segment_headers(skb) : 0);
}

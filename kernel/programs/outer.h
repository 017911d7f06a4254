/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * What a frame on a link carries in front of its inner IP header: Ethernet, IPv6 (RFC 8200), UDP (RFC 768), and the Ethernet
 * header that it has on the device.
 *
 * The flow label's 20 bits are the frame's place in an order: a lane of 4 bits, 0 for none, and a number of 16 bits. Whoever
 * segments a superframe copies the label onto every segment. The UDP checksum is 0: the inner frame has its own, and only a
 * program on the next host of the link reads the header.
 */
#pragma once

#include "layout.h"

#include <linux/types.h>

#define IPV6_BYTES 40
#define UDP_BYTES 8
#define ETHERNET_BYTES 14
#define OVERHEAD (IPV6_BYTES + UDP_BYTES + ETHERNET_BYTES)

#define PROTOCOL_IPV4 0x0800
#define PROTOCOL_IPV6 0x86dd
#define NEXT_TCP 6
#define NEXT_UDP 17

#define VERSION_6 (6u << 28)
#define LABEL_MASK 0xfffff

struct ethernet {
	struct mac to;
	struct mac from;
	__be16 protocol;
};

struct outer {
	struct ethernet ethernet;
	/* Version, traffic class, flow label. */
	__be32 flow;
	__be16 payload_bytes;
	__u8 next;
	__u8 hops;
	struct address from;
	struct address to;
	__be16 source_port;
	__be16 port;
	__be16 udp_bytes;
	__be16 checksum;
	struct ethernet inner;
} __attribute__((packed, aligned(2)));

_Static_assert(sizeof(struct outer) == ETHERNET_BYTES + OVERHEAD, "what is written is what room is made for");

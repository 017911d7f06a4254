/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * What the daemon and the programs share: the entries of maps, and counters.
 *
 * `src/layout.rs` is the same in Rust; `tests/layout.rs` compares the two by the BTF of the compiled programs. Numbers are in the
 * machine's byte order, addresses and ports as they travel.
 */
#pragma once

/* Links of a bundle; `LINKS` of `tabane_proto`. */
#define LINKS 16
/* Places of a peer's table by which a flow's hash names a link. */
#define SLOTS 64
/* Senders, and how many of those to come have a link ahead; `SENDERS` and `NEWCOMERS` of `tabane_proto`. */
#define SENDERS 1024
#define NEWCOMERS 16
/* A slot that names no link: the frame travels in cells. */
#define NO_LINK 0xff
/* Flows of which a processor keeps the last segment. */
#define FLOWS 256
/* Longest headers of a TCP segment, Ethernet's included, and the longest payload that is kept, in bytes. */
#define HEADERS_MAX 144
#define SEGMENT_MAX 2048
/* Lanes of a peer that have an order of their own; lane 0 is without order. */
#define LANES 16

/* Where a frame stands in an order: lane and number, in the flow label on a link. */
#define LANE_SHIFT 16
#define NUMBER_MASK 0xffff
/* The same behind the receive program, in the first word of `skb->cb`, with the link: `TAG_ORDERED | link | lane | number`. The second word
 * is the peer, the third how many segments the frame is. */
#define TAG_ORDERED (1u << 31)
#define LINK_SHIFT 20

/* Addresses, as they travel. In frames they stand at even places. */
struct mac {
	__u8 bytes[6];
} __attribute__((aligned(2)));

struct address {
	__u8 bytes[16];
} __attribute__((aligned(2)));

/* Fixed when the programs are loaded. */
struct config {
	/* Interface index of the device, and of where frames that need an order go: 0 without one. */
	__u32 device;
	__u32 reorder;
	/* Paths of which the counters of one processor consist: peers times `LINKS`. */
	__u32 paths;
	/* UDP port at which this host receives, as it travels. */
	__be16 port;
	__u16 padding;
};

#define PEER_READY (1u << 0)   /* The peer takes frames by its programs. */
#define PEER_STRIPED (1u << 1) /* Frames of one flow use all links, and are numbered. */
#define PEER_WEIGHTED (1u << 2) /* Links get shares by their speeds, whatever they carry. */
#define PEER_SENDERS (1u << 3) /* Links are those of senders. */
#define PEER_RECEIVED (1u << 4) /* What senders receive counts as well, and who has no link answers by the one by which a frame came. */

/* A peer. Index: the daemon's number of it. Written by the daemon. */
struct peer {
	__u32 flags;
	/* Link for each value of a flow's hash, or `NO_LINK`. */
	__u8 slots[SLOTS];
	/* Link for each newcomer among senders, by how many there were before modulo `NEWCOMERS`. */
	__u8 newcomers[NEWCOMERS];
};

#define PATH_UP (1u << 0)
/* From 8 kbit/s on, and precise to a hundredth at 400 Gbit/s. */
#define TIME_SHIFT 12

/* A path: a link's way to a peer. Index: peer times `LINKS` plus link. Written by the daemon. */
struct path {
	__u32 flags;
	/* The link's interface index. */
	__u32 ifindex;
	/* Largest IPv6 packet that the link takes, in bytes. */
	__u32 mtu;
	/* How much later than by the nearest link a frame arrives, in nanoseconds, for what is striped. */
	__u32 delay_ns;
	/* Time that a byte takes on the link, in nanoseconds times 2^TIME_SHIFT; 0: nobody knows. */
	__u32 byte_time;
	struct mac local_mac;
	struct mac remote_mac;
	struct address local;
	struct address remote;
	/* UDP port of the peer, as it travels. */
	__be16 remote_port;
	__u16 padding;
};

/* The time by `bpf_ktime_get_ns` when a link will have sent all that it was given. Index: link. Written by the send program. */
struct queue {
	__u64 free_ns;
};

/* Next number of a lane. Index: peer times `LANES` plus lane. Written by the send program. */
struct lane {
	__u32 next;
};

/* `SEATED | peer | link` */
#define SEATED (1u << 31)
#define SEAT_PEER_SHIFT 8

/* A sender. Index: `sender_of` a frame. Written by programs when it has no link, or one that is down; else by the daemon. */
struct sender {
	/* The link that it has, and a peer to which it sends; 0: none. */
	__u64 seat;
};

/* What a sender has sent and received. Index: processor times `SENDERS` plus sender. */
struct volume {
	/* Bytes of packets on links. */
	__u64 sent;
	/* Bytes as on the device. */
	__u64 received;
};

/* Who sends from an address on a link. */
struct source {
	__u32 ifindex;
	struct address address;
};

/* What crossed a path. Index: processor times `config.paths` plus path. */
struct traffic {
	__u64 sent_frames;
	/* Bytes as on the device, with the Ethernet header. */
	__u64 sent_bytes;
	/* Bytes of the packets in which they leave, with headers of each and outer ones. */
	__u64 link_bytes;
	__u64 received_frames;
	__u64 received_bytes;
	/* `bpf_ktime_get_ns` when the last frame came. */
	__u64 received_ns;
};

/* The last TCP segment of a flow that a processor gave to a link. Index: processor times `FLOWS` plus the flow's hash. Written by the
 * send program. */
struct last_segment {
	/* Odd while it is written. */
	__u64 version;
	/* By `bpf_ktime_get_ns`. */
	__u64 sent_ns;
	/* By which it left. */
	__u32 path;
	/* Bytes of the superframe whose last segment it is, headers included. */
	__u32 frame_bytes;
	__u32 header_bytes;
	__u32 payload_bytes;
	/* The superframe's own headers, as on the device. */
	__u8 headers[HEADERS_MAX];
	__u8 payload[SEGMENT_MAX];
};

/* What happened to frames that the programs did not carry, and to those that they refused. `user_`: the frame goes on to the
 * device's reader and travels in cells. `drop_`: it is gone. `pass_`: it is left to the stack. `order_`: it has a number. Index: processor. */
struct counts {
	__u64 user_multicast;   /* To more than one receiver. */
	__u64 user_protocol;    /* Neither IPv4 nor IPv6, or with a VLAN tag. */
	__u64 user_unknown;     /* Nobody knows where the address lives. */
	__u64 user_not_ready;   /* The peer does not take frames by its programs. */
	__u64 user_no_link;     /* No path is up. */
	__u64 user_large;       /* The link cannot take it, or what it is segmented into. */
	__u64 user_refused;     /* The kernel did not make room for the outer header. */
	__u64 drop_sending;     /* The kernel failed when the frame was half made. */
	__u64 pass_source;      /* To the bundle's port, from an address that no peer has on this link. */
	__u64 pass_destination; /* From a peer, but not to the address that this host has on the path. */
	__u64 drop_length;      /* Lengths of outer headers and frame contradict each other. */
	__u64 drop_checksum;    /* With a UDP checksum, which no sender of ours makes. */
	__u64 drop_protocol;    /* Inside is neither IPv4 nor IPv6. */
	__u64 drop_source;      /* Inside is a sender's address that belongs to another peer or to this host. */
	__u64 drop_receiving;   /* The kernel could not take the outer header off. */
	__u64 order_in_turn;    /* Of an order, when it was their turn: past the qdisc. */
};

/* Whose turn it is in a lane, as `turn.h` has it. Index: peer times `LANES` plus lane. Written by the receive program and the qdisc; a
 * lane whose peer has another session is 0, written by the daemon. */
struct turn {
	__u64 word;
};

/* How the frames of a peer are put in order. Index: peer. Written by the daemon. */
struct order {
	/* How long a missing number is waited for at least, in nanoseconds; it is given up before twice that. */
	__u64 hold_ns;
	/* The same after every link has delivered a later one. */
	__u64 grace_ns;
	/* Most that waits in a lane, in bytes. */
	__u32 held_max;
	/* Links that the peer uses, a bit each; 0: nobody knows, and only `hold_ns` ends a wait. */
	__u32 links;
	/* Another one than before: the peer's numbers begin anew at 0. */
	__u32 session;
	__u32 padding;
};

/* What the reorder qdisc did. `gap_`: numbers that were given up, one after the other without a frame between them. */
enum reorder_counter {
	reorder_unordered, /* Frames without a place in an order. */
	reorder_in_order,  /* Frames that came when it was their turn, and did not pass by (`order_in_turn`). */
	reorder_held,      /* Frames that waited for others. */
	reorder_late,      /* Frames whose number had been given up. They are handed on. */
	reorder_restarted, /* Lanes whose numbers were far from what was waited for: the qdisc came later. */
	gap_passed,        /* Every link had delivered a later number. */
	gap_timeout,       /* The hold time was over. */
	gap_full,          /* Too much waited in the lane. */
	gap_restart,       /* The lane's numbers began anew. */
	drop_full,         /* Frames: too many waited in all lanes. */
	drop_memory,       /* Frames: the kernel had no memory. */
	REORDER_COUNTERS,
};

struct reorder_counts {
	__u64 of[REORDER_COUNTERS];
};

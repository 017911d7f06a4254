/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * The qdisc that puts frames in order, between the links and the device.
 *
 *     NIC's ingress: receive -> half of a netkit pair: this qdisc -> on the way to the other half: deliver -> device's ingress
 *
 *     enqueue: is it the frame's turn? -> hand it on, with all that waited for it | hold it
 *     dequeue: what was handed on -> else give up what nobody needs to wait for -> else sleep until then
 *
 * Frames whose turn it is pass by (`turn.h`), while none of their lane is on its way out of here: with each frame the qdisc takes the lane,
 * and gives it back when its last frame has left.
 *
 * Each lane of each peer has an order of its own, so flows do not wait for each other. The receive program says where a frame belongs
 * (`TAG_ORDERED`), and how many numbers it takes: one for each segment of a superframe. A superframe that a NIC segments comes in pieces,
 * which have its first number all; the pieces that came before say which numbers a piece has. So no piece waits for another one, and none
 * is taken for a replica.
 *
 * A missing number is given up when every link has delivered a later one, for links keep order, and `grace_ns` has passed.
 * Where a link is silent, `hold_ns` ends the wait; where too much waits, `held_max` does. Each of the two times is that of one
 * timer for a lane, as RLC has it: what was missing when it began is given up when it ends, so a frame waits for less than two.
 *
 * State stands in maps, which outlive the qdisc: it begins anew with `init`. The qdisc's lock keeps processors apart; the locks
 * of the trees are there because the verifier asks for them. One qdisc serves one device.
 *
 * Needs Linux 6.16 with CONFIG_NET_SCH_BPF and CONFIG_NETKIT.
 *
 * Source: 3GPP TS 36.322, t-Reordering; `tools/testing/selftests/bpf/progs/bpf_qdisc_fq.c` of Linux 7.3.
 */
#include "qdisc.h"
#include "layout.h"
#include "turn.h"

/* Most frames in all lanes. */
#define FRAMES_MAX 16384
/* Numbers that a frame may be ahead of the one that is waited for. What is farther ahead is of another order: numbers of 16 bits
 * come round. */
#define AHEAD_MAX 16384
/* The same of the first frame of all: who is farther ahead was sending before this qdisc was there. */
#define BEGINS_WITHIN 256
/* Where lanes begin: at number 0, far enough from the position 0 for what comes late. */
#define BEGINNING (NUMBER_MASK + 1ull)
#define NEVER (~0ull)
/* The lane of frames without an order. */
#define NO_LANE (~0u)
/* By how much a timer may be late, so that timers fall together. */
#define SLACK_NS 50000

/* A frame that waits. */
struct frame {
	struct bpf_rb_node node;
	struct sk_buff __kptr *skb;
	/* Where it belongs: its number, continued beyond 16 bits; behind the lanes, how many were in front of it. */
	__u64 position;
	__u32 bytes;
	__u32 segments;
	/* Peer times `LANES` plus lane, or `NO_LANE`. */
	__u32 lane;
};

/* What is missing in front of `position` has been waited for since `since_ns`; 0: nothing. */
struct wait {
	__u64 position, since_ns;
};

/* The order of a lane. Index: peer times `LANES` plus lane. */
struct sequence {
	struct bpf_spin_lock lock;
	struct bpf_rb_root held __contains(frame, node);
	/* The number whose turn it is, and the first of the superframe that came last. */
	__u64 next, current;
	/* The latest number that each link has delivered. */
	__u64 delivered[LINKS];
	/* Some link had delivered a later number when it began, and every link had. */
	struct wait behind_one, behind_all;
	__u64 deadline_ns;
	/* What is held, and how many frames are handed on and have not left. */
	__u32 frames, bytes, leaving;
	/* `session` of the peer's order; and whether no frame has come in it. */
	__u32 session, is_new;
};

/* What may leave, in this order. */
struct outlet {
	struct bpf_spin_lock lock;
	struct bpf_rb_root frames __contains(frame, node);
	/* How many frames there were so far, and how many have left. */
	__u64 entered, left;
	/* The first deadline of all lanes, or an earlier time. */
	__u64 wake_ns;
	__u32 is_attached;
	/* The number after the last lane that had a frame. */
	__u32 lanes;
	/* The number after the lane whose last frame was handed out and may be on its way to the device; 0: none. */
	__u32 emptied;
};

MAP(struct order, orders, 1, BPF_F_MMAPABLE);
MAP(struct reorder_counts, reorder_counts, 1, BPF_F_MMAPABLE);
MAP(struct sequence, sequences, LANES, 0);
MAP(struct turn, turns, LANES, BPF_F_MMAPABLE);
MAP(struct outlet, outlets, 1, 0);

const volatile struct config config = {};

static __always_inline void count(enum reorder_counter what)
{
	__u32 only = 0;
	struct reorder_counts *counts = bpf_map_lookup_elem(&reorder_counts, &only);

	if (counts)
		counts->of[what]++;
}

static __always_inline struct outlet *find_outlet(void)
{
	__u32 only = 0;

	return bpf_map_lookup_elem(&outlets, &only);
}

/* Pieces of a superframe have one position and leave as they came: a tree puts equals behind each other. */
static _Bool is_before(struct bpf_rb_node *one, const struct bpf_rb_node *other)
{
	return container_of(one, struct frame, node)->position < container_of(other, struct frame, node)->position;
}

/* --- whose the lane is --- */

/* From here on no frame of the lane passes by. */
static __always_inline void take_lane(struct sequence *sequence, struct turn *turn)
{
	__u64 word = __sync_fetch_and_and(&turn->word, ~TURN_FREE);

	if (!(word & TURN_FREE))
		return;
	sequence->next += (__s32)((__u32)word - (__u32)sequence->next);
	if (behind_of(word))
		sequence->current = sequence->next - behind_of(word);
}

/* Frames may pass by until it is the turn of one that is held; unless some of the lane are on their way out. */
static __always_inline void give_lane(struct sequence *sequence, struct turn *turn)
{
	__u64 behind = sequence->next - sequence->current, room = ROOM_ALL;
	struct bpf_rb_node *node;

	if (sequence->leaving)
		return;
	if (sequence->frames) {
		bpf_spin_lock(&sequence->lock);
		node = bpf_rbtree_first(&sequence->held);
		if (node)
			room = container_of(node, struct frame, node)->position - sequence->next;
		bpf_spin_unlock(&sequence->lock);
	}
	if (behind > BEHIND_MAX)
		behind = 0;
	__sync_lock_test_and_set(&turn->word, free_turn(sequence->next, behind, room & ROOM_ALL));
}

/* Gives back the lane whose last frame has reached the device by now. */
static __always_inline void give_emptied(struct outlet *outlet)
{
	__u32 lane = outlet->emptied - 1;
	struct sequence *sequence = bpf_map_lookup_elem(&sequences, &lane);
	struct turn *turn = bpf_map_lookup_elem(&turns, &lane);

	outlet->emptied = 0;
	if (sequence && turn)
		give_lane(sequence, turn);
}

/* --- frames on their way out --- */

static __always_inline void hand_on(struct outlet *outlet, struct frame *frame)
{
	frame->position = outlet->entered++;
	bpf_spin_lock(&outlet->lock);
	bpf_rbtree_add(&outlet->frames, &frame->node, is_before);
	bpf_spin_unlock(&outlet->lock);
}

/* The first that waits in the lane, if its position is at most `until`; it waits no longer. */
static __always_inline struct frame *take_held(struct sequence *sequence, __u64 until)
{
	struct bpf_rb_node *node;
	struct frame *frame;

	if (!sequence->frames)
		return 0;
	bpf_spin_lock(&sequence->lock);
	node = bpf_rbtree_first(&sequence->held);
	if (!node || container_of(node, struct frame, node)->position > until) {
		bpf_spin_unlock(&sequence->lock);
		return 0;
	}
	node = bpf_rbtree_remove(&sequence->held, node);
	bpf_spin_unlock(&sequence->lock);
	if (!node)
		return 0;
	frame = container_of(node, struct frame, node);
	sequence->frames--;
	sequence->bytes -= frame->bytes;
	return frame;
}

/* Hands on a frame whose turn it is, and it is that of the numbers behind it. */
static __always_inline void pass_on(struct outlet *outlet, struct sequence *sequence, struct frame *frame)
{
	if (frame->position != sequence->current) {
		sequence->current = frame->position;
		if (frame->position > sequence->next)
			sequence->next = frame->position;
	}
	sequence->next += frame->segments;
	sequence->leaving++;
	hand_on(outlet, frame);
}

/* Hands on what waits up to `until`, all whose turn it is then, and what is more than may wait. What is missing in front of it is
 * given up. */
static __always_inline void release(struct outlet *outlet, struct sequence *sequence, const struct order *order, __u64 until,
				    enum reorder_counter why)
{
	int i;

	bpf_for(i, 0, FRAMES_MAX) {
		int is_full = sequence->bytes > order->held_max;
		__u64 due = sequence->next > until ? sequence->next : until;
		struct frame *frame = take_held(sequence, is_full ? NEVER : due);

		if (!frame)
			break;
		if (frame->position > sequence->next)
			count(is_full ? gap_full : why);
		pass_on(outlet, sequence, frame);
	}
}

/* --- what is missing --- */

/* Begins anew when all that was waited for has come: what is missing in front of `position` now. */
static __always_inline void begin_wait(struct wait *wait, __u64 next, __u64 position, __u64 now)
{
	if (wait->position > next)
		return;
	wait->position = position > next ? position : 0;
	wait->since_ns = now;
}

/* When a wait of so long ends. */
static __always_inline __u64 end_of(const struct wait *wait, __u64 next, __u64 wait_ns)
{
	return wait->position > next ? wait->since_ns + wait_ns : NEVER;
}

/* Waits for what is missing in front of frames that are held. */
static __always_inline void wait_on(struct outlet *outlet, struct sequence *sequence, const struct order *order, __u64 now)
{
	__u64 next = sequence->next, latest = 0, passed = NEVER, end;
	int link;

	if (!sequence->frames)
		return;
	/* Not unrolled: the verifier would follow every way through the comparisons, some 200,000 instructions. */
	bpf_for(link, 0, LINKS) {
		__u64 delivered = sequence->delivered[link];

		if (delivered > latest)
			latest = delivered;
		if ((order->links & (1u << link)) && delivered < passed)
			passed = delivered;
	}
	begin_wait(&sequence->behind_one, next, latest, now);
	begin_wait(&sequence->behind_all, next, order->links ? passed : 0, now);
	sequence->deadline_ns = end_of(&sequence->behind_one, next, order->hold_ns);
	end = end_of(&sequence->behind_all, next, order->grace_ns);
	if (end < sequence->deadline_ns)
		sequence->deadline_ns = end;
	if (sequence->deadline_ns < outlet->wake_ns)
		outlet->wake_ns = sequence->deadline_ns;
}

static __always_inline void expire_lane(struct outlet *outlet, __u32 lane, __u64 now)
{
	struct sequence *sequence = bpf_map_lookup_elem(&sequences, &lane);
	struct turn *turn = bpf_map_lookup_elem(&turns, &lane);
	__u32 peer = lane / LANES;
	struct order *order = bpf_map_lookup_elem(&orders, &peer);
	int is_passed;

	if (!sequence || !turn || !order || !sequence->frames)
		return;
	if (sequence->deadline_ns > now) {
		if (sequence->deadline_ns < outlet->wake_ns)
			outlet->wake_ns = sequence->deadline_ns;
		return;
	}
	take_lane(sequence, turn);
	/* One call, for the verifier follows each. */
	is_passed = end_of(&sequence->behind_all, sequence->next, order->grace_ns) <= now;
	release(outlet, sequence, order, (is_passed ? &sequence->behind_all : &sequence->behind_one)->position,
		is_passed ? gap_passed : gap_timeout);
	wait_on(outlet, sequence, order, now);
	give_lane(sequence, turn);
}

/* --- frames on their way in --- */

/* A number, continued beyond 16 bits: of the positions that it may have, that which is nearest to `next`. */
static __always_inline __u64 continued(__u64 next, __u32 number)
{
	return next + (__s64)(__s16)(number - next);
}

/* Nothing has come yet, and `position` is waited for. */
static __always_inline void expect(struct sequence *sequence, __u64 position)
{
	for (__u32 link = 0; link < LINKS; link++)
		sequence->delivered[link] = 0;
	sequence->next = position;
	sequence->current = 0;
	sequence->behind_one.position = 0;
	sequence->behind_all.position = 0;
	sequence->is_new = 1;
}

/* Whether the lane's order cannot be that of which `position` is: who has missed the beginning goes on from where the peer is. */
static __always_inline int is_elsewhere(const struct sequence *sequence, __u64 position)
{
	if (sequence->is_new)
		return position < sequence->next || position > sequence->next + BEGINS_WITHIN;
	return position > sequence->next + AHEAD_MAX;
}

/* Puts a frame of a link where it belongs. */
static __always_inline void put(struct outlet *outlet, struct sequence *sequence, const struct order *order,
				struct frame *frame, __u32 link, __u32 number)
{
	__u64 position = continued(sequence->next, number), now = bpf_ktime_get_ns();

	if (sequence->session != order->session) {
		release(outlet, sequence, order, NEVER, gap_restart);
		expect(sequence, BEGINNING);
		sequence->session = order->session;
		position = continued(BEGINNING, number);
	}
	if (is_elsewhere(sequence, position)) {
		count(reorder_restarted);
		release(outlet, sequence, order, NEVER, gap_restart);
		expect(sequence, position);
	}
	sequence->is_new = 0;
	frame->position = position;
	if (sequence->delivered[link] < position)
		sequence->delivered[link] = position;
	if (position > sequence->next) {
		count(reorder_held);
		sequence->frames++;
		sequence->bytes += frame->bytes;
		bpf_spin_lock(&sequence->lock);
		bpf_rbtree_add(&sequence->held, &frame->node, is_before);
		bpf_spin_unlock(&sequence->lock);
	} else if (position == sequence->next || position == sequence->current) {
		count(reorder_in_order);
		pass_on(outlet, sequence, frame);
	} else {
		count(reorder_late);
		sequence->leaving++;
		hand_on(outlet, frame);
	}
	release(outlet, sequence, order, 0, gap_full);
	wait_on(outlet, sequence, order, now);
}

SEC("struct_ops")
int BPF_PROG(enqueue, struct sk_buff *skb, struct Qdisc *sch, struct bpf_sk_buff_ptr *to_free)
{
	struct qdisc_skb_cb *cb = (struct qdisc_skb_cb *)skb->cb;
	const __u32 *words = (const __u32 *)cb->data;
	__u32 tag = words[0], peer = words[1], segments = words[2], lane;
	struct outlet *outlet = find_outlet();
	struct sequence *sequence;
	struct order *order;
	struct frame *frame;
	struct turn *turn;

	if (!outlet || sch->q.qlen >= sch->limit) {
		count(drop_full);
		goto drop;
	}
	frame = bpf_obj_new(struct frame);
	if (!frame) {
		count(drop_memory);
		goto drop;
	}
	frame->bytes = cb->pkt_len;
	frame->segments = segments;
	sch->q.qlen++;
	sch->qstats.backlog += frame->bytes;
	skb = bpf_kptr_xchg(&frame->skb, skb);
	if (skb)
		bpf_qdisc_skb_drop(skb, to_free);
	lane = peer * LANES + (tag >> LANE_SHIFT & (LANES - 1));
	sequence = bpf_map_lookup_elem(&sequences, &lane);
	turn = bpf_map_lookup_elem(&turns, &lane);
	order = bpf_map_lookup_elem(&orders, &peer);
	if (!(tag & TAG_ORDERED) || !sequence || !turn || !order) {
		count(reorder_unordered);
		frame->lane = NO_LANE;
		hand_on(outlet, frame);
		return NET_XMIT_SUCCESS;
	}
	if (lane >= outlet->lanes)
		outlet->lanes = lane + 1;
	frame->lane = lane;
	take_lane(sequence, turn);
	put(outlet, sequence, order, frame, tag >> LINK_SHIFT & (LINKS - 1), tag & NUMBER_MASK);
	if (outlet->emptied != lane + 1)
		give_lane(sequence, turn);
	return NET_XMIT_SUCCESS;
drop:
	sch->qstats.drops++;
	bpf_qdisc_skb_drop(skb, to_free);
	return NET_XMIT_DROP;
}

static __always_inline struct frame *take_first(struct outlet *outlet)
{
	struct bpf_rb_node *node;

	if (outlet->left == outlet->entered)
		return 0;
	outlet->left++;
	bpf_spin_lock(&outlet->lock);
	node = bpf_rbtree_first(&outlet->frames);
	if (node)
		node = bpf_rbtree_remove(&outlet->frames, node);
	bpf_spin_unlock(&outlet->lock);
	return node ? container_of(node, struct frame, node) : 0;
}

SEC("struct_ops")
struct sk_buff *BPF_PROG(dequeue, struct Qdisc *sch)
{
	struct outlet *outlet = find_outlet();
	struct sequence *sequence;
	struct sk_buff *skb = 0;
	struct frame *frame;
	__u32 bytes, from;
	__u64 now;
	int lane;

	if (!outlet)
		return 0;
	if (outlet->emptied)
		give_emptied(outlet);
	if (!sch->q.qlen)
		return 0;
	frame = take_first(outlet);
	if (!frame) {
		now = bpf_ktime_get_ns();
		if (now >= outlet->wake_ns) {
			outlet->wake_ns = NEVER;
			bpf_for(lane, 0, outlet->lanes)
				expire_lane(outlet, lane, now);
		}
		frame = take_first(outlet);
	}
	if (!frame) {
		if (outlet->wake_ns != NEVER)
			bpf_qdisc_watchdog_schedule(sch, outlet->wake_ns, SLACK_NS);
		return 0;
	}
	skb = bpf_kptr_xchg(&frame->skb, skb);
	bytes = frame->bytes;
	from = frame->lane;
	bpf_obj_drop(frame);
	sequence = bpf_map_lookup_elem(&sequences, &from);
	if (sequence && !--sequence->leaving)
		outlet->emptied = from + 1;
	sch->q.qlen--;
	sch->qstats.backlog -= bytes;
	if (skb)
		bpf_qdisc_bstats_update(sch, skb);
	return skb;
}

/* --- beginning and end --- */

static __always_inline void begin_lane(__u32 lane)
{
	struct sequence *sequence = bpf_map_lookup_elem(&sequences, &lane);
	struct turn *turn = bpf_map_lookup_elem(&turns, &lane);
	struct frame *frame;
	int i;

	if (!sequence || !turn)
		return;
	turn->word = 0;
	sequence->leaving = 0;
	bpf_for(i, 0, FRAMES_MAX) {
		frame = take_held(sequence, NEVER);
		if (!frame)
			break;
		bpf_obj_drop(frame);
	}
	expect(sequence, BEGINNING);
}

/* As if nothing had ever come. */
static __always_inline void begin(struct outlet *outlet)
{
	struct frame *frame;
	int i;

	bpf_for(i, 0, config.paths / LINKS * LANES)
		begin_lane(i);
	bpf_for(i, 0, FRAMES_MAX) {
		frame = take_first(outlet);
		if (!frame)
			break;
		bpf_obj_drop(frame);
	}
	outlet->wake_ns = NEVER;
	outlet->lanes = 0;
	outlet->emptied = 0;
}

SEC("struct_ops")
int BPF_PROG(init, struct Qdisc *sch, struct nlattr *options, struct netlink_ext_ack *extack)
{
	struct outlet *outlet = find_outlet();

	if (!outlet || __sync_lock_test_and_set(&outlet->is_attached, 1))
		return -EBUSY;
	begin(outlet);
	sch->limit = FRAMES_MAX;
	return 0;
}

SEC("struct_ops")
void BPF_PROG(reset, struct Qdisc *sch)
{
	struct outlet *outlet = find_outlet();

	if (!outlet)
		return;
	begin(outlet);
	sch->q.qlen = 0;
	sch->qstats.backlog = 0;
}

SEC("struct_ops")
void BPF_PROG(destroy, struct Qdisc *sch)
{
	struct outlet *outlet = find_outlet();

	if (outlet)
		outlet->is_attached = 0;
}

SEC(".struct_ops.link")
struct Qdisc_ops reorder = {
	.id = "tabane", /* `src/reorder.rs` makes it unique: the kernel has one list of names. */
	.enqueue = (void *)enqueue,
	.dequeue = (void *)dequeue,
	.init = (void *)init,
	.reset = (void *)reset,
	.destroy = (void *)destroy,
};

/* Behind the qdisc, in place of the pair's other half. RPS puts each flow on a processor behind it. */
SEC("netkit/primary")
int deliver(struct __sk_buff *skb)
{
	return bpf_redirect(config.device, BPF_F_INGRESS);
}

char _license[] SEC("license") = "Dual MIT/GPL";

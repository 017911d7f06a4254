/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Whose turn it is in a lane. The receive program hands on what comes in its turn, and the reorder qdisc sees the rest: what came too
 * early, what that waited for, and what comes while such frames leave. A lane is one word:
 *
 *     TURN_FREE | room | behind | next
 *
 * next: the position whose turn it is, its lower half.
 * behind: how many numbers before that the superframe began that came last. Pieces of it have its first number.
 * room: numbers up to the first frame that the qdisc holds, or `ROOM_ALL`. Who fills it up goes to the qdisc, which hands on both.
 *
 * Without `TURN_FREE` the qdisc has the lane: `take_turn` fails, so no frame overtakes what the qdisc hands on.
 *
 * Two processors may take turns one after the other and hand their frames on in the other order; it takes an interrupt between the
 * two steps of the first one, for both take the same time.
 */
#pragma once

#include "layout.h"

#define TURN_FREE (1ull << 63)
#define ROOM_SHIFT 48
#define ROOM_ALL 0x7fffu
#define BEHIND_SHIFT 32
#define BEHIND_MAX 0xffffu

static __always_inline __u64 free_turn(__u32 next, __u64 behind, __u64 room)
{
	return TURN_FREE | room << ROOM_SHIFT | behind << BEHIND_SHIFT | next;
}

static __always_inline __u32 behind_of(__u64 word)
{
	return word >> BEHIND_SHIFT & BEHIND_MAX;
}

/* Whether it is the turn of a frame of so many segments. It has it then, and is handed on at once. */
static __always_inline int take_turn(struct turn *turn, __u32 number, __u32 segments)
{
	__u64 word = *(volatile __u64 *)&turn->word;
	__u32 next = word, behind = behind_of(word), room = word >> ROOM_SHIFT & ROOM_ALL;

	if (number == (next & NUMBER_MASK))
		behind = 0;
	else if (!behind || number != ((next - behind) & NUMBER_MASK))
		return 0;
	behind += segments;
	if (!(word & TURN_FREE) || segments >= room || behind > BEHIND_MAX)
		return 0;
	if (room != ROOM_ALL)
		room -= segments;
	return __sync_bool_compare_and_swap(&turn->word, word, free_turn(next + segments, behind, room));
}

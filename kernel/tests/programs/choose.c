/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * The choice of links as a program: `programs/send.bpf.c` itself, with `bpf/` in place of the kernel. Time is what its input says.
 * `world.rs` asks.
 *
 *     link LINK FLAGS BYTE_TIME DELAY_NS            what is known of a link, as `struct path` has it
 *     lane LANE NEXT                                the number that comes next in a lane
 *     frame TIME_NS BYTES LANE SEGMENTS             a superframe leaves, in so many bytes on the link
 *
 * Each frame is a line `LINK NUMBER`: where it goes, and its number in its lane. A link of `NO_LINK` is none.
 */
#include <stdio.h>

#include "send.bpf.c"

int main(void)
{
	char line[256];

	while (fgets(line, sizeof(line), stdin)) {
		__u32 link, flags, byte_time, delay_ns, bytes, lane, next, segments;
		__u64 at;

		if (sscanf(line, "link %u %u %u %u", &link, &flags, &byte_time, &delay_ns) == 4 && link < LINKS) {
			paths.value[link] = (struct path){ .flags = flags, .delay_ns = delay_ns, .byte_time = byte_time };
		} else if (sscanf(line, "lane %u %u", &lane, &next) == 2 && lane < LANES) {
			lanes.value[lane].next = next;
		} else if (sscanf(line, "frame %llu %u %u %u", &at, &bytes, &lane, &segments) == 4) {
			now_ns = at;
			link = choose_by_time(0, bytes);
			printf("%u %u\n", link, link < LINKS ? number(0, lane, segments) & NUMBER_MASK : 0);
		} else {
			return 1;
		}
	}
	return 0;
}

//! The program that the NIC's driver runs on each frame: it redirects cells of one port to the socket and passes all
//! others.
//!
//! Source: `linux/bpf.h` of Linux 6.18.

use std::os::fd::RawFd;

use crate::bpf::{
    ADD_IMMEDIATE, CALL, EXIT, Instruction, JUMP_IF_GREATER, JUMP_UNLESS_EQUAL, LOAD_MAP, LOAD_U16, LOAD_U32,
    MAP_DESCRIPTOR, MOVE, MOVE_IMMEDIATE, in_memory, op,
};
use crate::ether::frame::{ETHER_TYPE, ETHERNET, HEAD};

/// The program's result when it does not redirect: the frame goes on as if there were no program.
const XDP_PASS: i32 = 2;
/// The helper function `bpf_redirect_map`.
const REDIRECT_MAP: i32 = 51;
/// Offsets in `struct xdp_md`.
const DATA: i16 = 0;
const DATA_END: i16 = 4;
const RX_QUEUE_INDEX: i16 = 16;
/// Where the EtherType and the port stand in a frame.
const TYPE_AT: i16 = 12;
const PORT_AT: i16 = 14;

/// The number of instructions, and the place of those that pass a frame.
const LENGTH: usize = 17;
const PASS: i16 = 15;

/// The distance from the instruction at `place` to the last but one, where frames pass.
const fn past(place: i16) -> i16 {
    PASS - place - 1
}

/// The program for the cells of `port`; `map` holds the socket at the number of its queue. A frame on a queue without a
/// socket passes.
pub(super) fn assemble(map: RawFd, port: u16) -> [Instruction; LENGTH] {
    let shortest = i32::try_from(ETHERNET + HEAD).unwrap_or_default();
    [
        op(LOAD_U32, 2, 1, DATA, 0),
        op(LOAD_U32, 3, 1, DATA_END, 0),
        op(MOVE, 4, 2, 0, 0),
        op(ADD_IMMEDIATE, 4, 0, 0, shortest),
        op(JUMP_IF_GREATER, 4, 3, past(4), 0),
        op(LOAD_U16, 5, 2, TYPE_AT, 0),
        op(JUMP_UNLESS_EQUAL, 5, 0, past(6), in_memory(ETHER_TYPE)),
        op(LOAD_U16, 5, 2, PORT_AT, 0),
        op(JUMP_UNLESS_EQUAL, 5, 0, past(8), in_memory(port)),
        op(LOAD_U32, 2, 1, RX_QUEUE_INDEX, 0),
        op(LOAD_MAP, 1, MAP_DESCRIPTOR, 0, map),
        op(0, 0, 0, 0, 0),
        op(MOVE_IMMEDIATE, 3, 0, 0, XDP_PASS),
        op(CALL, 0, 0, 0, REDIRECT_MAP),
        op(EXIT, 0, 0, 0, 0),
        op(MOVE_IMMEDIATE, 0, 0, 0, XDP_PASS),
        op(EXIT, 0, 0, 0, 0),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_jump_leads_to_where_frames_pass() {
        let program = assemble(5, 7420);
        let jumps =
            (0..).zip(&program).filter(|(_, one)| [JUMP_IF_GREATER, JUMP_UNLESS_EQUAL].contains(&one.code));
        let targets: Vec<usize> =
            jumps.map(|(place, one): (i16, _)| (place + 1 + one.offset) as usize).collect();
        assert_eq!(targets, [15; 3]);
        assert_eq!(program[15..], [op(MOVE_IMMEDIATE, 0, 0, 0, XDP_PASS), op(EXIT, 0, 0, 0, 0)]);
    }
}

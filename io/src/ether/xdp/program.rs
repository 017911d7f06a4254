//! The program that the NIC's driver runs on each frame: it redirects cells of one port to the socket and passes all
//! others.
//!
//! Source: `linux/bpf.h` of Linux 6.18.

use std::io;
use std::os::fd::{AsFd, OwnedFd, RawFd};

use libc::c_long;

use crate::bpf::{
    self, ADD_IMMEDIATE, CALL, EXIT, Instruction, JUMP_IF_GREATER, JUMP_UNLESS_EQUAL, LOAD_MAP, LOAD_U16,
    LOAD_U32, MAP_DESCRIPTOR, MOVE, MOVE_IMMEDIATE, MapAttributes, ProgramKind, call, in_memory, number, op,
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

// The part of bpf(2) that AF_XDP needs: a map of sockets, a program, and its place at a NIC.
//
// The place is a link of BPF, which is a descriptor: when the last copy of it is closed, also by a crash, the
// program is off the NIC. Source: bpf(2), `linux/bpf.h` of Linux 6.18.

const MAP_UPDATE_ELEM: c_long = 2;
/// `BPF_MAP_TYPE_XSKMAP`, `BPF_PROG_TYPE_XDP`, `BPF_XDP`.
const SOCKETS: u32 = 17;
const XDP_PROGRAM: u32 = 6;
const XDP_PLACE: u32 = 37;
/// `BPF_F_XDP_HAS_FRAGS`: the program can do with the first piece of a long frame (Linux 5.18).
const HAS_FRAGS: u32 = 1 << 5;

/// Where a program runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// In the driver, before the kernel allocates a socket buffer (`XDP_FLAGS_DRV_MODE`).
    Driver,
    /// After the driver, with any NIC (`XDP_FLAGS_SKB_MODE`).
    Generic,
}

impl Place {
    fn flags(self) -> u32 {
        match self {
            Self::Generic => 1 << 1,
            Self::Driver => 1 << 2,
        }
    }
}

#[repr(C)]
struct ElementAttributes {
    map: u32,
    _padding: u32,
    key: u64,
    value: u64,
    flags: u64,
}

/// A map with room for one socket, at queue 0.
/// Errors: `EPERM` without CAP_BPF and CAP_NET_ADMIN.
pub(super) fn socket_map() -> io::Result<OwnedFd> {
    bpf::map(&MapAttributes { kind: SOCKETS, key_bytes: 4, value_bytes: 4, entries: 1, flags: 0 })
}

pub(super) fn enter(map: impl AsFd, socket: impl AsFd) -> io::Result<()> {
    let (key, value) = (0_u32, number(&socket));
    let attributes = ElementAttributes {
        map: number(&map),
        _padding: 0,
        key: (&raw const key).addr() as u64,
        value: (&raw const value).addr() as u64,
        flags: 0,
    };
    // SAFETY: key and value have the sizes that the map was made with, and live until the call returns, which reads
    // them.
    if unsafe { call(MAP_UPDATE_ELEM, &attributes) } < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Loads a program, which the kernel verifies. An older kernel takes it for short frames only.
pub(super) fn load(program: &[Instruction]) -> io::Result<OwnedFd> {
    let kind = ProgramKind { kind: XDP_PROGRAM, place: XDP_PLACE, name: *b"tabane_cells\0\0\0\0" };
    bpf::load(kind, program, HAS_FRAGS).or_else(|_| bpf::load(kind, program, 0))
}

/// Puts a program at the NIC of this index, for as long as the descriptor lives.
/// Errors: `EBUSY` when there is another program.
pub(super) fn attach(program: impl AsFd, nic: u32, place: Place) -> io::Result<OwnedFd> {
    bpf::attach(program, nic, XDP_PLACE, place.flags())
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

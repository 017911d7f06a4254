//! The part of bpf(2) that AF_XDP needs: a map of sockets, a program, and its place at a NIC.
//!
//! The place is a link of BPF, which is a descriptor: when the last copy of it is closed, also by a crash, the
//! program is off the NIC. Source: bpf(2), `linux/bpf.h` of Linux 6.18.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use libc::c_long;

use crate::bpf::{self, Instruction, MapAttributes, ProgramKind, call, number};

/// Commands.
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

/// Puts a socket into the map.
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

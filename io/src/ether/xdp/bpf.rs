//! bpf(2), as far as it is needed: a map of sockets, a program, and its place at a NIC.
//!
//! The place is a link of BPF, which is a descriptor: when the last copy of it is closed, whatever ends the process, the
//! program is off the NIC. Source: bpf(2), `linux/bpf.h` of Linux 6.18.

use std::io;
use std::mem;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};

use libc::c_long;

use super::program::Instruction;

/// Commands.
const MAP_CREATE: c_long = 0;
const MAP_UPDATE_ELEM: c_long = 2;
const PROG_LOAD: c_long = 5;
const LINK_CREATE: c_long = 28;
/// `BPF_MAP_TYPE_XSKMAP`, `BPF_PROG_TYPE_XDP`, `BPF_XDP`.
const SOCKETS: u32 = 17;
const XDP_PROGRAM: u32 = 6;
const XDP_PLACE: u32 = 37;
/// `BPF_F_XDP_HAS_FRAGS`: the program is content to see the first piece of a long frame (Linux 5.18).
const HAS_FRAGS: u32 = 1 << 5;

/// Where a program runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// In the driver, before the kernel makes anything of the frame (`XDP_FLAGS_DRV_MODE`).
    Driver,
    /// Behind the driver, with any NIC (`XDP_FLAGS_SKB_MODE`).
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

/// The head of `union bpf_attr` for a new map.
#[repr(C)]
struct MapAttributes {
    kind: u32,
    key_bytes: u32,
    value_bytes: u32,
    entries: u32,
}

#[repr(C)]
struct ElementAttributes {
    map: u32,
    _padding: u32,
    key: u64,
    value: u64,
    flags: u64,
}

#[repr(C)]
struct ProgramAttributes {
    kind: u32,
    instructions: u32,
    first: u64,
    license: u64,
    log_level: u32,
    log_bytes: u32,
    log: u64,
    kernel_version: u32,
    flags: u32,
    name: [u8; 16],
    nic: u32,
    expected_place: u32,
}

#[repr(C)]
struct LinkAttributes {
    program: u32,
    nic: u32,
    place: u32,
    flags: u32,
}

/// A map with room for one socket, at queue 0.
///
/// # Errors
/// The kernel's; `EPERM` without CAP_BPF and CAP_NET_ADMIN.
pub(super) fn socket_map() -> io::Result<OwnedFd> {
    let attributes = MapAttributes { kind: SOCKETS, key_bytes: 4, value_bytes: 4, entries: 1 };
    // SAFETY: the attributes hold no address.
    descriptor(unsafe { bpf(MAP_CREATE, &attributes) })
}

/// Puts a socket into the map.
///
/// # Errors
/// The kernel's.
pub(super) fn enter(map: impl AsFd, socket: impl AsFd) -> io::Result<()> {
    let (key, value) = (0_u32, number(&socket));
    let attributes = ElementAttributes {
        map: number(&map),
        _padding: 0,
        key: (&raw const key).addr() as u64,
        value: (&raw const value).addr() as u64,
        flags: 0,
    };
    // SAFETY: key and value have the sizes that the map was made with, and live until the call returns, which reads them.
    if unsafe { bpf(MAP_UPDATE_ELEM, &attributes) } < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Hands the kernel a program, which it checks. An older kernel takes it for short frames only.
///
/// # Errors
/// The kernel's.
pub(super) fn load(program: &[Instruction]) -> io::Result<OwnedFd> {
    load_with(program, HAS_FRAGS).or_else(|_| load_with(program, 0))
}

fn load_with(program: &[Instruction], flags: u32) -> io::Result<OwnedFd> {
    const LICENSE: &std::ffi::CStr = c"Dual MIT/GPL";
    let attributes = ProgramAttributes {
        kind: XDP_PROGRAM,
        instructions: u32::try_from(program.len()).unwrap_or(u32::MAX),
        first: program.as_ptr().addr() as u64,
        license: LICENSE.as_ptr().addr() as u64,
        log_level: 0,
        log_bytes: 0,
        log: 0,
        kernel_version: 0,
        flags,
        name: *b"tabane_cells\0\0\0\0",
        nic: 0,
        expected_place: XDP_PLACE,
    };
    // SAFETY: so many instructions lie there, and the license ends with a zero; both live until the call returns, which
    // reads them.
    descriptor(unsafe { bpf(PROG_LOAD, &attributes) })
}

/// Puts a program at the NIC of this index, for as long as the descriptor lives.
///
/// # Errors
/// The kernel's; `EBUSY` when there is another program.
pub(super) fn attach(program: impl AsFd, nic: u32, place: Place) -> io::Result<OwnedFd> {
    let attributes =
        LinkAttributes { program: number(&program), nic, place: XDP_PLACE, flags: place.flags() };
    // SAFETY: the attributes hold no address.
    descriptor(unsafe { bpf(LINK_CREATE, &attributes) })
}

/// # Safety
/// Addresses in the attributes are those of what the command reads, which lives until the call returns.
unsafe fn bpf<T>(command: c_long, attributes: &T) -> c_long {
    // SAFETY: the kernel reads as many bytes of the attributes as they have, takes what is missing for zero, and by the
    // caller's promise finds what they point to.
    unsafe { libc::syscall(libc::SYS_bpf, command, std::ptr::from_ref(attributes), mem::size_of::<T>()) }
}

fn descriptor(result: c_long) -> io::Result<OwnedFd> {
    match i32::try_from(result) {
        // SAFETY: the descriptor was just opened (close-on-exec, as all of BPF's are) and nobody else owns it.
        Ok(descriptor @ 0..) => Ok(unsafe { OwnedFd::from_raw_fd(descriptor) }),
        _ => Err(io::Error::last_os_error()),
    }
}

/// A descriptor as attributes have it.
fn number(descriptor: &impl AsFd) -> u32 {
    descriptor.as_fd().as_raw_fd().cast_unsigned()
}

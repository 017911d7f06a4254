//! The part of bpf(2) that Tabane uses: maps, programs, their places, and the instructions that programs are assembled from.
//!
//! Programs of this crate are assembled here, so that nobody needs a compiler, a library or an object file for them. Source: bpf(2),
//! `linux/bpf.h` and `Documentation/bpf/standardization/instruction-set.rst` of Linux 6.18.

use std::io;
use std::mem;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};

use libc::c_long;

/// Commands.
const MAP_CREATE: c_long = 0;
const PROG_LOAD: c_long = 5;
const LINK_CREATE: c_long = 28;

/// Operation codes: class, size or source, mode or operation. Those of 32 bits clear the upper half.
pub(crate) const LOAD_MAP: u8 = 0x18;
pub(crate) const LOAD_U32: u8 = 0x61;
pub(crate) const LOAD_U16: u8 = 0x69;
pub(crate) const LOAD_U8: u8 = 0x71;
pub(crate) const MOVE: u8 = 0xbf;
pub(crate) const MOVE_IMMEDIATE: u8 = 0xb7;
pub(crate) const MOVE_IMMEDIATE_32: u8 = 0xb4;
pub(crate) const ADD: u8 = 0x0f;
pub(crate) const ADD_32: u8 = 0x0c;
pub(crate) const ADD_IMMEDIATE: u8 = 0x07;
pub(crate) const MULTIPLY_IMMEDIATE_32: u8 = 0x24;
pub(crate) const SHIFT_RIGHT_IMMEDIATE_32: u8 = 0x74;
pub(crate) const JUMP: u8 = 0x05;
pub(crate) const JUMP_IF_GREATER: u8 = 0x2d;
pub(crate) const JUMP_IF_AT_MOST: u8 = 0xb5;
pub(crate) const JUMP_IF_EQUAL: u8 = 0x15;
pub(crate) const JUMP_UNLESS_EQUAL: u8 = 0x55;
pub(crate) const CALL: u8 = 0x85;
pub(crate) const EXIT: u8 = 0x95;
/// In place of a source register: the value is the descriptor of a map, or the address of what a map's first entry
/// holds.
pub(crate) const MAP_DESCRIPTOR: u8 = 1;
pub(crate) const MAP_VALUE: u8 = 2;

/// One instruction as the kernel reads it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct Instruction {
    pub(crate) code: u8,
    /// Destination and source.
    registers: u8,
    pub(crate) offset: i16,
    immediate: i32,
}

const _: () = assert!(size_of::<Instruction>() == 8);

/// An instruction. Destination and source are bit fields of C: which comes first depends on the byte order.
pub(crate) const fn op(code: u8, to: u8, from: u8, offset: i16, immediate: i32) -> Instruction {
    let registers = if cfg!(target_endian = "big") { to << 4 | from } else { from << 4 | to };
    Instruction { code, registers, offset, immediate }
}

/// The value of a packet's big-endian bytes when they are loaded in the machine's byte order.
pub(crate) fn in_memory(value: u16) -> i32 {
    i32::from(u16::from_ne_bytes(value.to_be_bytes()))
}

/// The head of `union bpf_attr` for a new map.
#[repr(C)]
pub(crate) struct MapAttributes {
    /// `BPF_MAP_TYPE_…`.
    pub(crate) kind: u32,
    pub(crate) key_bytes: u32,
    pub(crate) value_bytes: u32,
    pub(crate) entries: u32,
    pub(crate) flags: u32,
}

#[repr(C)]
#[derive(Default)]
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

#[derive(Clone, Copy)]
pub(crate) struct ProgramKind {
    /// `BPF_PROG_TYPE_…`, and its place (`BPF_XDP` and the like), if it has one.
    pub(crate) kind: u32,
    pub(crate) place: u32,
    /// Its name for tools such as bpftool.
    pub(crate) name: [u8; 16],
}

/// A new map.
/// Errors: `EPERM` without CAP_BPF.
pub(crate) fn map(attributes: &MapAttributes) -> io::Result<OwnedFd> {
    // SAFETY: the attributes hold no address.
    descriptor(unsafe { call(MAP_CREATE, attributes) })
}

/// Loads a program, which the kernel verifies.
/// Errors: `EPERM` without CAP_BPF.
pub(crate) fn load(kind: ProgramKind, program: &[Instruction], flags: u32) -> io::Result<OwnedFd> {
    const LICENSE: &std::ffi::CStr = c"Dual MIT/GPL";
    let attributes = ProgramAttributes {
        kind: kind.kind,
        instructions: u32::try_from(program.len()).unwrap_or(u32::MAX),
        first: program.as_ptr().addr() as u64,
        license: LICENSE.as_ptr().addr() as u64,
        flags,
        name: kind.name,
        expected_place: kind.place,
        ..ProgramAttributes::default()
    };
    // SAFETY: so many instructions lie there, and the license ends with a zero; both live until the call returns, which
    // reads them.
    descriptor(unsafe { call(PROG_LOAD, &attributes) })
}

#[repr(C)]
struct LinkAttributes {
    program: u32,
    nic: u32,
    place: u32,
    flags: u32,
}

/// Puts a program at a place (`BPF_XDP` and the like) of the NIC of this index, for as long as the descriptor lives.
pub(crate) fn attach(program: impl AsFd, nic: u32, place: u32, flags: u32) -> io::Result<OwnedFd> {
    let attributes = LinkAttributes { program: number(&program), nic, place, flags };
    // SAFETY: the attributes hold no address.
    descriptor(unsafe { call(LINK_CREATE, &attributes) })
}

/// # Safety
/// Addresses in the attributes are those of what the command reads, which lives until the call returns.
pub(crate) unsafe fn call<T>(command: c_long, attributes: &T) -> c_long {
    // SAFETY: the kernel reads as many bytes of the attributes as they have, takes what is missing for zero, and by the
    // caller's promise finds what they point to.
    unsafe { libc::syscall(libc::SYS_bpf, command, std::ptr::from_ref(attributes), mem::size_of::<T>()) }
}

/// The descriptor that a command has opened.
/// Errors: the kernel's: it has opened none.
pub(crate) fn descriptor(result: c_long) -> io::Result<OwnedFd> {
    match i32::try_from(result) {
        // SAFETY: the descriptor was just opened (close-on-exec, as all of BPF's are) and nobody else owns it.
        Ok(descriptor @ 0..) => Ok(unsafe { OwnedFd::from_raw_fd(descriptor) }),
        _ => Err(io::Error::last_os_error()),
    }
}

pub(crate) fn number(descriptor: &impl AsFd) -> u32 {
    descriptor.as_fd().as_raw_fd().cast_unsigned()
}

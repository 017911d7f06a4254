//! Gates at the device: it refuses superframes of flows whose queue is long enough, so that their senders wait.
//!
//! A TAP device takes frames until its queue is full, and then refuses those of all flows. A program at the device
//! refuses by flow: the kernel reports this to a local socket of TCP at once (`NET_XMIT_DROP`, local congestion), which
//! then sends less, and the same bytes later; nothing is lost. Frames from elsewhere (a bridge, a router) pass, for
//! their senders would get no report. So do short frames, and all that is not TCP. Which flow has which gate:
//! `tabane_proto::gate`.
//!
//! Source: `TUNSETFILTEREBPF` and `tun_net_xmit` in `drivers/net/tun.c`, `__tcp_transmit_skb` in
//! `net/ipv4/tcp_output.c` of Linux 6.18.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicU8, Ordering};

use memmap2::{MmapOptions, MmapRaw};
use tabane_proto::gate::{GATES, SHIFT, SPREAD, STEP};

use crate::bpf::{
    self, ADD, ADD_32, ADD_IMMEDIATE, CALL, EXIT, Instruction, JUMP, JUMP_IF_AT_MOST, JUMP_IF_EQUAL,
    JUMP_UNLESS_EQUAL, LOAD_MAP, LOAD_U8, LOAD_U32, MAP_VALUE, MOVE, MOVE_IMMEDIATE, MOVE_IMMEDIATE_32,
    MULTIPLY_IMMEDIATE_32, MapAttributes, ProgramKind, SHIFT_RIGHT_IMMEDIATE_32, in_memory, op,
};

/// `BPF_MAP_TYPE_ARRAY`, `BPF_F_MMAPABLE`, `BPF_PROG_TYPE_SOCKET_FILTER`.
const ARRAY: u32 = 2;
const MAPPABLE: u32 = 1 << 10;
const SOCKET_FILTER: u32 = 1;
/// The helper function `bpf_skb_load_bytes`.
const LOAD_BYTES: i32 = 26;
/// Offsets in `struct __sk_buff`.
const LENGTH: i16 = 0;
const PROTOCOL: i16 = 16;
const INGRESS_IFINDEX: i16 = 36;
/// Frames up to this length pass: acknowledgements, keystrokes.
const SHORT: i32 = 256;
const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;
const TCP: i32 = 6;
const ETHERNET: i32 = 14;
/// Where the headers are copied to on the stack.
const STACK: i16 = -48;

/// All gates, open or closed; dropped with the device.
#[derive(Debug)]
pub struct Gates {
    /// A byte for each gate.
    memory: MmapRaw,
    program: OwnedFd,
}

impl Gates {
    /// Gates that are all open, and the program that obeys them, for [`crate::Tap::set_gates`].
    /// Errors: `EPERM` without CAP_BPF, `EINVAL` before Linux 5.5.
    pub fn new() -> io::Result<Self> {
        let value_bytes = u32::try_from(GATES).unwrap_or(u32::MAX);
        let map =
            bpf::map(&MapAttributes { kind: ARRAY, key_bytes: 4, value_bytes, entries: 1, flags: MAPPABLE })?;
        let kind = ProgramKind { kind: SOCKET_FILTER, place: 0, name: *b"tabane_gates\0\0\0\0" };
        let program = bpf::load(kind, &assemble(map.as_raw_fd()), 0)?;
        let memory = MmapOptions::new().len(GATES).map_raw(&map)?;
        Ok(Self { memory, program })
    }

    /// Closes a gate, below [`GATES`], or opens it; others are left alone.
    pub fn set(&self, gate: u16, is_closed: bool) {
        if usize::from(gate) >= self.memory.len() {
            return;
        }
        // SAFETY: the byte lies inside the mapping, which lives as long as `self`; everybody uses it by single
        // accesses.
        let byte = unsafe { AtomicU8::from_ptr(self.memory.as_mut_ptr().add(gate.into())) };
        byte.store(u8::from(is_closed), Ordering::Relaxed);
    }

    pub(crate) fn program(&self) -> BorrowedFd<'_> {
        self.program.as_fd()
    }
}

/// The program; `map` holds the gates. Its result is 0 for a frame that the device is to refuse.
fn assemble(map: RawFd) -> Vec<Instruction> {
    let mut program = Assembly::default();
    program.add(op(MOVE, 6, 1, 0, 0));
    program.add(op(LOAD_U32, 2, 6, INGRESS_IFINDEX, 0));
    program.pass(op(JUMP_UNLESS_EQUAL, 2, 0, 0, 0));
    program.add(op(LOAD_U32, 2, 6, LENGTH, 0));
    program.pass(op(JUMP_IF_AT_MOST, 2, 0, 0, SHORT));
    program.add(op(MOVE_IMMEDIATE, 7, 0, 0, 0));
    program.add(op(LOAD_U32, 2, 6, PROTOCOL, 0));
    let six = program.add(op(JUMP_IF_EQUAL, 2, 0, 0, in_memory(IPV6)));
    program.pass(op(JUMP_UNLESS_EQUAL, 2, 0, 0, in_memory(IPV4)));
    // Version and length, protocol, two addresses, ports.
    program.load_headers(24);
    program.want(0, 0x45);
    program.want(9, TCP);
    program.hash(12..24);
    let hashed = program.add(op(JUMP, 0, 0, 0, 0));
    program.land(six);
    program.load_headers(44);
    program.want(6, TCP);
    program.hash(8..44);
    program.land(hashed);
    program.add(op(MULTIPLY_IMMEDIATE_32, 7, 0, 0, SPREAD.cast_signed()));
    program.add(op(SHIFT_RIGHT_IMMEDIATE_32, 7, 0, 0, SHIFT.cast_signed()));
    program.add(op(LOAD_MAP, 1, MAP_VALUE, 0, map));
    program.add(op(0, 0, 0, 0, 0));
    program.add(op(ADD, 1, 7, 0, 0));
    program.add(op(LOAD_U8, 2, 1, 0, 0));
    program.pass(op(JUMP_IF_EQUAL, 2, 0, 0, 0));
    program.add(op(MOVE_IMMEDIATE, 0, 0, 0, 0));
    program.add(op(EXIT, 0, 0, 0, 0));
    program.finish()
}

#[derive(Default)]
struct Assembly {
    instructions: Vec<Instruction>,
    /// The jumps to the instructions that pass a frame.
    passing: Vec<usize>,
}

impl Assembly {
    fn add(&mut self, instruction: Instruction) -> usize {
        self.instructions.push(instruction);
        self.instructions.len() - 1
    }

    /// Adds a jump to the instructions that pass a frame.
    fn pass(&mut self, jump: Instruction) {
        let at = self.add(jump);
        self.passing.push(at);
    }

    /// Lets a jump lead to the next instruction.
    fn land(&mut self, jump: usize) {
        let distance = self.instructions.len() - jump - 1;
        self.instructions[jump].offset = i16::try_from(distance).expect("the program is short");
    }

    /// Copies so many bytes behind the Ethernet header to the stack.
    fn load_headers(&mut self, bytes: i32) {
        self.add(op(MOVE, 1, 6, 0, 0));
        self.add(op(MOVE_IMMEDIATE, 2, 0, 0, ETHERNET));
        self.add(op(MOVE, 3, 10, 0, 0));
        self.add(op(ADD_IMMEDIATE, 3, 0, 0, STACK.into()));
        self.add(op(MOVE_IMMEDIATE, 4, 0, 0, bytes));
        self.add(op(CALL, 0, 0, 0, LOAD_BYTES));
        self.pass(op(JUMP_UNLESS_EQUAL, 0, 0, 0, 0));
    }

    /// Passes frames unless this byte of the headers has this value.
    fn want(&mut self, at: i16, value: i32) {
        self.add(op(LOAD_U8, 2, 10, STACK + at, 0));
        self.pass(op(JUMP_UNLESS_EQUAL, 2, 0, 0, value));
    }

    /// Hashes these bytes of the headers.
    fn hash(&mut self, bytes: std::ops::Range<i16>) {
        for at in bytes.step_by(4) {
            self.add(op(LOAD_U32, 2, 10, STACK + at, 0));
            self.add(op(MULTIPLY_IMMEDIATE_32, 7, 0, 0, STEP.cast_signed()));
            self.add(op(ADD_32, 7, 2, 0, 0));
        }
    }

    fn finish(mut self) -> Vec<Instruction> {
        for jump in std::mem::take(&mut self.passing) {
            self.land(jump);
        }
        self.add(op(MOVE_IMMEDIATE_32, 0, 0, 0, -1));
        self.add(op(EXIT, 0, 0, 0, 0));
        self.instructions
    }
}

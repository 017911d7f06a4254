//! AF_XDP: cells pass between the NIC's driver and memory of ours, past the kernel's network stack.
//!
//! ```text
//!   fill ──> kernel ──> receive ──> cells copied to the caller ──> fill       frames of the first part
//!   cells copied in ──> transmit ──> kernel ──> completion ──> free           frames of the second part
//! ```
//!
//! A program at the NIC (`program.rs`) hands cells that come on queue 0 to the socket. Cells on other
//! queues go to the packet socket of the link, and so do all once the program is gone. A driver that
//! can do so reads and writes the frames itself (zero-copy), else the kernel copies.
//!
//! - Frames are kept in two parts, so that neither direction can use up the other's.
//! - An engine (`engine/src/reclaim.rs`) decides when sent frames are taken back. No descriptor reports them: a poll of
//!   the completion ring each 50 us ([`Xdp::service`]) replaces the interrupt.
//! - A run is taken as a whole or not at all.
//!
//! Source: `Documentation/networking/af_xdp.rst` of Linux 6.18.

mod bound;
mod program;
mod rings;

use std::io::{self, IoSlice};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::net::sockopt;
use rustix::net::xdp::XdpDesc;

use tabane_engine::reclaim::{Cause, Counters, Method, Reclaim, Room};

use super::frame::{ETHERNET, HEAD, Mac, address_of, cell_length, ethernet, head};
use super::socket::Coalescer;
use crate::link::Sent;
use crate::run::Run;
use bound::{Bound, Umem};
use program::Place;
use rings::{CompletionRing, FillRing, PIECES, ReceiveRing, TransmitRing};

/// Frames to receive into, 5 ms of full ones at 10 Gbit/s; and frames to send from.
const RECEIVE_FRAMES: u32 = 4096;
const SEND_FRAMES: u32 = 2048;
const FRAMES: usize = (RECEIVE_FRAMES + SEND_FRAMES) as usize;
/// Bytes of kernel memory for packets that it has copied and that have not left, copy mode only.
const KERNEL_BUFFER: usize = 8 << 20;

/// A socket of AF_XDP on queue 0 of a NIC, and the program that feeds it. Dropping it takes the program off the NIC.
#[derive(Debug)]
pub(super) struct Xdp {
    /// Dropped first.
    _program: OwnedFd,
    map: OwnedFd,
    socket: OwnedFd,
    fill: FillRing,
    completion: CompletionRing,
    receive: ReceiveRing,
    transmit: TransmitRing,
    /// Dropped last: the rings refer to it.
    umem: Umem,
    port: u16,
    /// Whether packets may lie in several frames.
    long: bool,
    zero_copy: bool,
    place: Place,
    /// The NIC's address; frames leave under it.
    pub(super) mac: Mac,
    free: Vec<usize>,
    /// For each frame, bytes in it that have not left; 0: it is free.
    under_way: Box<[u32]>,
    queued: usize,
    /// Counts the frames under way, which come back in any order, and decides when to take them back.
    completions: Reclaim<()>,
    /// Most bytes that may be queued.
    limit: usize,
    /// Whether the kernel takes nothing, as while the NIC is down; the next run tries again.
    refused: bool,
}

impl Xdp {
    /// Opens a socket for the cells of `port` and puts the program at the NIC; sent frames come back this `way`.
    pub(super) fn open(
        nic: u32,
        mtu: usize,
        mac: Mac,
        port: u16,
        way: Method,
    ) -> Result<Self, (&'static str, io::Error)> {
        let failed = |step| move |source: io::Error| (step, source);
        let map = program::socket_map().map_err(failed("making a map of sockets"))?;
        let program =
            program::load(&program::assemble(map.as_raw_fd(), port)).map_err(failed("loading a program"))?;
        let attach = |place| program::attach(&program, nic, place).map(|link| (link, place));
        let attached = attach(Place::Driver).or_else(|_| attach(Place::Generic));
        let (program, place) = attached.map_err(failed("attaching a program"))?;

        let bound = Bound::best(nic, mtu, place)?;
        let Bound { socket, umem, fill, completion, receive, transmit, long, zero_copy } = bound;
        // Without it the kernel's default bounds what copy mode has under way.
        let _ = sockopt::set_socket_send_buffer_size_force(&socket, KERNEL_BUFFER);
        let mut opened = Self {
            _program: program,
            map,
            socket,
            fill,
            completion,
            receive,
            transmit,
            port,
            long,
            zero_copy,
            place,
            mac,
            free: (RECEIVE_FRAMES as usize..FRAMES).collect(),
            under_way: vec![0; FRAMES].into(),
            completions: Reclaim::new(way, room(&umem)),
            umem,
            queued: 0,
            limit: usize::MAX,
            refused: false,
        };
        let Self { fill, umem, .. } = &mut opened;
        fill.give((0..RECEIVE_FRAMES as usize).map(|frame| umem.place(frame)));
        program::enter(&opened.map, &opened.socket).map_err(failed("entering a socket into the map"))?;
        Ok(opened)
    }

    pub(super) fn mode(&self) -> &'static str {
        match (self.zero_copy, self.place) {
            (true, _) => "ether/xdp-zerocopy",
            (false, Place::Driver) => "ether/xdp-copy",
            (false, Place::Generic) => "ether/xdp-generic",
        }
    }

    /// How the kernel gives back sent frames.
    pub(super) fn completion(&self) -> Method {
        self.completions.method()
    }

    pub(super) fn completed(&self) -> Counters {
        self.completions.counters()
    }

    /// Sends a run: takes all of it if there is room and the bytes under way are below the limit.
    pub(super) fn send(&mut self, to: Mac, slices: &[IoSlice<'_>], segment: usize) -> Sent {
        self.reclaim(Cause::Send);
        let mut run = Run::new(slices);
        let longest = ETHERNET + HEAD + segment.min(run.bytes());
        let pieces = longest.div_ceil(self.umem.frame());
        if pieces > 1 && !self.long || pieces > PIECES {
            return Sent::Lost(io::Error::from_raw_os_error(libc::EMSGSIZE));
        }
        let wanted = pieces * run.bytes().div_ceil(segment);
        let room = self.free.len().min(self.transmit.0.room() as usize);
        if wanted > room || self.queued >= self.limit {
            self.completions.refuse();
            // The frames in the ring may only wait for a kick.
            return self.kick().map_or_else(Sent::Refused, |()| Sent::Full);
        }
        let ethernet = ethernet(to, self.mac);
        while !run.is_empty() {
            self.put_cell(&ethernet, &mut run, segment);
        }
        // Frames that the kernel refuses now stay in the ring.
        self.kick().map_or_else(Sent::Refused, |()| Sent::Done)
    }

    /// Fills buffers with the cells that came.
    pub(super) fn receive(&mut self, coalescer: &mut Coalescer<'_, '_>) {
        let Self { fill, receive, umem, port, .. } = self;
        let mut given = false;
        while let Some((pieces, count)) = receive.first() {
            let pieces = &pieces[..count];
            if !push(umem, *port, pieces, coalescer) {
                break;
            }
            let frames = pieces.iter().filter_map(|piece| umem.frame_at(piece.addr));
            let ours = frames.filter(|frame| *frame < RECEIVE_FRAMES as usize);
            fill.give(ours.map(|frame| umem.place(frame)));
            receive.take(count);
            given = true;
        }
        if given {
            // A driver that cannot be woken up drops frames, which the link's health shows.
            let _ = fill.wake(&self.socket);
        }
    }

    pub(super) fn queued_bytes(&mut self) -> usize {
        self.reclaim(Cause::Send);
        self.queued
    }

    pub(super) fn set_limit(&mut self, bytes: usize) {
        self.limit = bytes;
    }

    /// Whether to call [`Self::service`] soon: for frames that wait in the ring, for frames that come back by
    /// interrupt, or if `room` is wanted, for that.
    pub(super) fn wants_service(&self, room: bool) -> bool {
        let completions = &self.completions;
        let room = room && completions.method() != Method::Lazy;
        let interrupts = completions.interrupts() && completions.posted() > 0;
        room || interrupts || !self.refused && !self.transmit.0.is_taken()
    }

    /// Lets the kernel go on; says whether a run that found no room should be tried again.
    pub(super) fn service(&mut self) -> bool {
        // Frames that are refused stay in the ring; the next run reports the error.
        let refused = self.kick().is_err();
        if self.completions.interrupts() {
            self.reclaim(Cause::Interrupt);
        }
        refused || self.queued < self.limit && self.free.len() >= SEND_FRAMES as usize / 2
    }

    /// Sends the frames in the ring, as far as the kernel takes them now.
    fn kick(&mut self) -> io::Result<()> {
        let kicked = self.transmit.kick(&self.socket);
        self.refused = kicked.is_err();
        kicked
    }

    /// Takes a cell off the run and puts it into frames, for which there is room.
    fn put_cell(&mut self, ethernet: &[u8; ETHERNET], run: &mut Run<'_>, segment: usize) {
        const SLICES: usize = 128;
        let length = segment.min(run.bytes());
        let mut slices = [IoSlice::new(&[]); SLICES];
        let mut rest = *run;
        let count = rest.take(segment, &mut slices[2..]);
        run.skip(length);
        // A cell of too many slices is lost.
        let Some(count) = count else { return };
        let head = head(self.port, u16::try_from(length).unwrap_or_default());
        (slices[0], slices[1]) = (IoSlice::new(ethernet), IoSlice::new(&head));
        let mut packet = Run::new(&slices[..2 + count]);
        while !packet.is_empty() {
            let Some(frame) = self.free.pop() else { return };
            let place = self.umem.place(frame);
            let length = packet.bytes().min(self.umem.frame());
            if let Some(room) = self.umem.bytes_at_mut(place, length) {
                packet.copy_to(room);
            }
            let bytes = u32::try_from(length).unwrap_or_default();
            self.transmit.put(place, bytes, !packet.is_empty());
            self.under_way[frame] = bytes;
            self.queued += length;
            self.completions.post((), self.umem.frame());
        }
    }

    /// Takes back the frames that have left, unless only an interrupt does.
    fn reclaim(&mut self, cause: Cause) {
        if cause == Cause::Send && !self.completions.asks_at_send() {
            return;
        }
        let Self { completion, completions, umem, under_way, free, queued, .. } = self;
        let mut outstanding = completions.posted();
        completion.reclaim(|place| {
            let Some(frame) = umem.frame_at(place) else { return };
            let bytes = std::mem::take(&mut under_way[frame]);
            if bytes > 0 {
                *queued -= bytes as usize;
                free.push(frame);
                outstanding -= 1;
            }
        });
        completions.reclaim(cause, outstanding).for_each(drop);
    }
}

impl AsFd for Xdp {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Frames to send from, and their bytes.
fn room(umem: &Umem) -> Room {
    let descriptors = SEND_FRAMES as usize;
    Room { descriptors, bytes: descriptors * umem.frame() }
}

/// Passes a packet's cell on; `false`: there is no room for it. A packet that is no cell for this port is dropped.
fn push(umem: &Umem, port: u16, pieces: &[XdpDesc], coalescer: &mut Coalescer<'_, '_>) -> bool {
    let bytes = |piece: &XdpDesc| umem.bytes_at(piece.addr, piece.len as usize);
    let Some(first) = pieces.first().and_then(bytes) else { return true };
    let Some((header, rest)) = first.split_first_chunk::<ETHERNET>() else { return true };
    let Some((head, rest)) = rest.split_first_chunk::<HEAD>() else { return true };
    let came = rest.len() + pieces[1..].iter().map(|piece| piece.len as usize).sum::<usize>();
    let Some(length) = cell_length(*head, port, came) else { return true };
    let [_, _, _, _, _, _, a, b, c, d, e, f, ..] = *header;
    coalescer.push(address_of([a, b, c, d, e, f], port), length, |room| {
        let all = std::iter::once(rest).chain(pieces[1..].iter().filter_map(bytes));
        let mut room = room;
        for piece in all {
            let (now, later) = room.split_at_mut(piece.len().min(room.len()));
            now.copy_from_slice(&piece[..now.len()]);
            room = later;
        }
    })
}

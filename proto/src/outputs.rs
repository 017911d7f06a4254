//! What comes out besides cells and frames: control messages that wait to be sent, events and counters.
//!
//! Beside the path. Every room may queue a message here. The core writes it when the I/O asks, so that it reports the state
//! of that moment.

pub mod counters;
pub mod event;

use crate::security::TAG;
use crate::wire::cell::HEADER;
use crate::wire::heartbeat::HEARTBEAT_MAX;
use crate::wire::hello::HELLO_MAX;
use crate::wire::repair::REQUEST_MAX;
use alloc::collections::VecDeque;
use alloc::vec;
use alloc::vec::Vec;
use core::net::SocketAddr;
use counters::Counters;
use event::Events;

const CONTROL_MAX: usize = max(HEARTBEAT_MAX, max(HELLO_MAX, REQUEST_MAX)) + TAG;

const fn max(one: usize, other: usize) -> usize {
    if one > other { one } else { other }
}

/// A message that waits to be sent.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Control {
    /// A hello to everyone, or to an endpoint.
    Greet { link: u8, to: Option<SocketAddr> },
    /// A hello to a peer.
    Answer { link: u8, peer: u16, to: SocketAddr },
    /// A hello to a peer that says that the link leaves.
    Farewell { link: u8, peer: u16, to: SocketAddr },
    /// A heartbeat.
    Heartbeat { link: u8, peer: u16 },
    /// A heartbeat with so much padding that it shows what the path carries.
    Probe { link: u8, peer: u16 },
    /// A repair request, on the link with the shortest queue. `after`: it went over that link before.
    Repair { peer: u16, after: Option<u8> },
}

pub(crate) struct Written {
    pub(crate) link: u8,
    pub(crate) to: Option<SocketAddr>,
    pub(crate) length: usize,
    /// The peer that it took a link number of.
    pub(crate) numbered: Option<u16>,
}

/// The message that the I/O is sending.
pub(crate) struct Spoken {
    /// `None`: it belongs to a handshake.
    pub(crate) control: Option<Control>,
    pub(crate) link: u8,
    pub(crate) bytes: usize,
    pub(crate) numbered: Option<u16>,
}

/// A control message for the I/O to send.
pub struct ControlMessage<'a> {
    /// The link to send through.
    pub link: u8,
    /// The endpoint; `None`: the multicast group.
    pub to: Option<SocketAddr>,
    /// The cell.
    pub bytes: &'a [u8],
}

/// All messages that wait.
pub(crate) struct Outbox {
    waiting: VecDeque<Control>,
    /// The message that was written last.
    bytes: Vec<u8>,
}

impl Default for Outbox {
    fn default() -> Self {
        Self { waiting: VecDeque::new(), bytes: vec![0; HEADER + CONTROL_MAX] }
    }
}

impl Outbox {
    pub(crate) fn push(&mut self, control: Control) {
        self.waiting.push_back(control);
    }

    /// Queues a message before all others.
    pub(crate) fn push_first(&mut self, control: Control) {
        self.waiting.push_front(control);
    }

    pub(crate) fn extend(&mut self, controls: impl Iterator<Item = Control>) {
        self.waiting.extend(controls);
    }

    pub(crate) fn pop(&mut self) -> Option<Control> {
        self.waiting.pop_front()
    }

    pub(crate) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Queues a repair request to a peer, unless one waits already.
    pub(crate) fn ask_repair(&mut self, index: u16) {
        let waits = |control: &Control| matches!(control, Control::Repair { peer, .. } if *peer == index);
        if !self.waiting.iter().any(waits) {
            self.push(Control::Repair { peer: index, after: None });
        }
    }

    /// The first sending of a request did not leave: the second, which is next, becomes the first.
    pub(crate) fn lose_first_request(&mut self) {
        if let Some(Control::Repair { after, .. }) = self.waiting.front_mut() {
            *after = None;
        }
    }

    /// Where a message is written, header first.
    pub(crate) fn space(&mut self) -> &mut [u8] {
        &mut self.bytes
    }

    /// Makes room for a message of so many bytes with its tag.
    pub(crate) fn make_room(&mut self, bytes: usize) {
        self.bytes.resize(self.bytes.len().max(bytes), 0);
    }

    /// The message of `length` bytes that was written last.
    pub(crate) fn written(&self, length: usize) -> &[u8] {
        &self.bytes[..length]
    }

    #[cfg(test)]
    pub(crate) fn waiting(&mut self) -> &mut VecDeque<Control> {
        &mut self.waiting
    }
}

#[derive(Default)]
pub(crate) struct Outputs {
    pub(crate) counters: Counters,
    pub(crate) events: Events,
    pub(crate) outbox: Outbox,
}

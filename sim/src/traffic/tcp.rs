//! Flows of senders with CUBIC: each frame is some segments, and is acknowledged by a small frame of the flow that answers.
//!
//! Beside [`crate::traffic`], which carries their frames as those of any flow; their windows: [`crate::cubic`].

use crate::cubic::Cubic;
use crate::flow::Sizes;
use crate::traffic::{FlowNumber, Sent, Traffic};
use tabane_proto::Instant;

/// Bytes of a segment, and those of the headers before it.
const SEGMENT: u32 = 1_448;
const HEADERS: u32 = 66;
pub(super) const ACKNOWLEDGEMENT: Sizes = Sizes::Fixed(HEADERS as usize);
/// A superframe is so small a part of the window, and has so many segments at most.
const SUPERFRAMES: f64 = 32.0;
const SEGMENTS_MOST: u32 = 44;

/// How many segments a frame has.
fn segments(length: u32) -> u32 {
    length.saturating_sub(HEADERS).div_ceil(SEGMENT)
}

/// A sender.
#[derive(Debug)]
pub(super) struct Tcp {
    window: Cubic,
    /// Segments on their way.
    in_flight: u32,
    /// Frames whose fate it knows: the number after them.
    known: u32,
    /// For each acknowledgement, the frame that it is for.
    acknowledged: Vec<u32>,
}

impl Tcp {
    pub(super) fn new() -> Self {
        Self { window: Cubic::new(), in_flight: 0, known: 0, acknowledged: Vec::new() }
    }

    /// A frame arrived, and the next acknowledgement is for it.
    pub(super) fn handle_arrival(&mut self, frame: u32) {
        self.acknowledged.push(frame);
    }
}

impl Traffic {
    /// Sends what the window allows.
    fn fill_tcp(&mut self, now: Instant, number: FlowNumber) {
        while let Some(tcp) = &mut self.flows[number].tcp {
            let window = tcp.window.window();
            let fits = |segments: &u32| f64::from(*segments) * SUPERFRAMES <= window;
            let part = (1..=SEGMENTS_MOST).take_while(fits).last().unwrap_or(1);
            if f64::from(tcp.in_flight + part) > window.max(1.0) {
                return;
            }
            tcp.in_flight += part;
            self.flows[number].due.push_back(part * SEGMENT + HEADERS);
            self.offer(now, number);
        }
    }

    /// Begins; or has nothing been acknowledged since the last time, sends all again.
    pub(super) fn wait_for_acknowledgements(&mut self, now: Instant, number: FlowNumber) {
        let state = &mut self.flows[number];
        let sent = state.sent.len();
        let Some(tcp) = &mut state.tcp else { return };
        let known = tcp.known as usize;
        if core::mem::replace(&mut state.asked, known) == known && known < sent {
            tcp.window.handle_timeout();
            (tcp.in_flight, tcp.known) = (0, u32::try_from(sent).unwrap_or(u32::MAX));
        }
        self.fill_tcp(now, number);
    }

    /// An acknowledgement came: of the frame that it is for, of those before it that came, and of the loss of the others.
    pub(super) fn acknowledge(&mut self, now: Instant, number: FlowNumber, answer: u32) {
        let state = &mut self.flows[number];
        let Some(tcp) = &mut state.tcp else { return };
        let last = tcp.acknowledged[answer as usize];
        for frame in tcp.known..=last {
            let Sent { offered, delivered, length, trimmed, .. } = state.sent[frame as usize];
            let trip = now.since(offered.unwrap_or(now));
            tcp.in_flight -= segments(length);
            if delivered.is_none() || trimmed > 0 {
                tcp.window.handle_loss(now, trip);
            }
            let came = delivered.map_or(0, |_| segments(length) - u32::from(trimmed > 0));
            (0..came).for_each(|_| tcp.window.handle_ack(now, trip));
        }
        tcp.known = tcp.known.max(last + 1);
        self.fill_tcp(now, number);
    }
}

//! Control messages (hellos, handshakes, heartbeats, requests) on their way out. The core writes a message when the I/O asks
//! for it, so that the message reports the state of that moment.
//!
//! Invariant: a number under which a message may have left is not given to another cell.

use crate::bundle::Bundle;
use crate::outputs::{Control, ControlMessage, Spoken, Written};
use crate::send::transmit::Outcome;
use crate::time::Instant;

impl Bundle {
    /// The next control message. The caller polls after every `handle_*`, before [`Bundle::poll_batch`]. The message counts as
    /// sent unless [`Self::handle_control_sent`] says otherwise before the next call.
    pub fn poll_control(&mut self, now: Instant) -> Option<ControlMessage<'_>> {
        loop {
            let control = self.out.outbox.pop();
            let written = match control {
                Some(control) => self.write_control(now, control),
                None => Some(self.write_handshake()?),
            };
            let Some(Written { link, to, length, numbered }) = written else { continue };
            let state = &mut self.links[link];
            state.queue.handle_sent(length);
            state.handle_packets(now, state.bytes_of(1, length));
            let sent = state.queue.sent();
            if let Some(paths) = numbered.and_then(|index| self.links.paths_mut(index)) {
                paths.outbound[link].mark_carried(now, sent);
            }
            self.spoken = Some(Spoken { control, link, bytes: length, numbered });
            let link = self.links.socket(link);
            return Some(ControlMessage { link, to, bytes: self.out.outbox.written(length) });
        }
    }

    /// Writes a message; `None` when there is nobody to send it to.
    fn write_control(&mut self, now: Instant, control: Control) -> Option<Written> {
        let Self { receiver, links, sessions, group, out, .. } = self;
        let outbox = &mut out.outbox;
        match control {
            Control::Heartbeat { link, peer } => {
                links.write_heartbeat(now, (link, peer), false, sessions, outbox)
            }
            Control::Probe { link, peer } => links.write_heartbeat(now, (link, peer), true, sessions, outbox),
            Control::Repair { peer, after } => {
                receiver.write_request(now, (peer, after), links, sessions, outbox)
            }
            hello => group.write_hello(hello, sessions, links, outbox),
        }
    }

    fn write_handshake(&mut self) -> Option<Written> {
        let ((link, to), cell) = self.sessions.next_handshake()?;
        let space = self.out.outbox.space();
        let length = cell.len().min(space.len());
        space[..length].copy_from_slice(&cell[..length]);
        Some(Written { link, to: Some(to), length, numbered: None })
    }

    /// The outcome of the last control message. When the socket had no room, no byte has left: the core takes the number
    /// back, and sends heartbeats and requests when there is room ([`Self::handle_writable`]). After another error nobody
    /// knows whether the message has left, so its number is lost: no number seals two cells. Timers repeat other messages.
    pub fn handle_control_sent(&mut self, outcome: Outcome) {
        let Some(spoken) = self.spoken.take().filter(|_| outcome != Outcome::Sent) else { return };
        let link = &mut self.links[spoken.link];
        link.queue.take_back(spoken.bytes);
        if outcome != Outcome::Full {
            self.out.counters.drop_refused += 1;
            return;
        }
        link.full = true;
        let Some(paths) = spoken.numbered.and_then(|index| self.links.paths_mut(index)) else { return };
        let path = &mut paths.outbound[spoken.link];
        path.give_back_numbers(1);
        match spoken.control {
            Some(Control::Heartbeat { .. }) => path.pacing.is_owed = true,
            Some(Control::Probe { .. }) => path.path_mtu.take_back(),
            // Over a link that has room, or later.
            Some(again @ Control::Repair { peer, after: Some(_) }) => {
                self.receiver.take_back_request(peer);
                self.out.outbox.push_first(again);
            }
            Some(Control::Repair { after: None, .. }) => self.out.outbox.lose_first_request(),
            _ => {}
        }
    }
}

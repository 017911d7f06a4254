//! What the hostile node has heard on the link, from the moment before the daemons were started.

use std::collections::VecDeque;

use super::frame::Datagram;

/// Kinds of cells (docs/wire.md, 4).
pub(super) const DATA: u8 = 0;
pub(super) const GREETING: u8 = 1;
pub(super) const HEARTBEAT: u8 = 2;
pub(super) const HANDSHAKE: u8 = 4;
/// Greetings and handshakes that are kept, the first ones.
const BEGINNINGS_MAX: usize = 256;
/// Other cells that are kept, the latest.
const RECENT_MAX: usize = 4_096;

/// Cells from one host to the other.
#[derive(Clone, Debug, Default)]
pub(super) struct Recording {
    /// Greetings and handshakes.
    pub(super) beginnings: Vec<Datagram>,
    /// What came lately, of every other kind.
    pub(super) recent: VecDeque<Datagram>,
}

impl Recording {
    /// Keeps `datagram`.
    pub(super) fn note(&mut self, datagram: Datagram) {
        match kind(&datagram.cell) {
            Some(GREETING | HANDSHAKE) if self.beginnings.len() < BEGINNINGS_MAX => {
                self.beginnings.push(datagram);
            }
            Some(DATA | HEARTBEAT | 3) => {
                if self.recent.len() == RECENT_MAX {
                    self.recent.pop_front();
                }
                self.recent.push_back(datagram);
            }
            _ => {}
        }
    }

    /// The latest cell of this kind.
    pub(super) fn latest(&self, wanted: u8) -> Option<&Datagram> {
        let mut all = self.recent.iter().rev().chain(self.beginnings.iter().rev());
        all.find(|datagram| kind(&datagram.cell) == Some(wanted))
    }
}

/// Kind of a cell; its header is in clear, sealed or not.
pub(super) fn kind(cell: &[u8]) -> Option<u8> {
    cell.first().map(|byte| byte & 0x0f)
}

#[cfg(test)]
mod tests {
    use super::super::frame::tests::datagram;
    use super::*;

    #[test]
    fn beginnings_are_kept_apart_from_what_comes_later() {
        let mut recording = Recording::default();
        for cell in [[0x11, 1], [0x10, 2], [0x12, 3], [0x10, 4], [0x1f, 5]] {
            recording.note(datagram(&cell));
        }
        assert_eq!((recording.beginnings.len(), recording.recent.len()), (1, 3));
        assert_eq!(recording.latest(DATA), Some(&datagram(&[0x10, 4])));
        assert_eq!(recording.latest(GREETING), Some(&datagram(&[0x11, 1])));
        assert_eq!(recording.latest(HANDSHAKE), None);
    }
}

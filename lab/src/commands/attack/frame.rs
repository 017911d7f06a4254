//! Datagrams in frames: UDP over IPv6, as packet sockets give and take it, superframes included.

use std::collections::VecDeque;
use std::ops::Range;

use tabane_io::packet::HEADER as VIRTIO;
use tabane_kit::emulator::frame::folded_sum;

/// Bytes of the headers of Ethernet, IPv6 and UDP.
pub(super) const HEADERS: usize = 14 + 40 + 8;
pub(super) const TO_MAC: Range<usize> = 0..6;
pub(super) const FROM_MAC: Range<usize> = 6..12;
pub(super) const FROM_ADDRESS: Range<usize> = 22..38;
const ETHERTYPE: Range<usize> = 12..14;
const IP_LENGTH: Range<usize> = 18..20;
const PROTOCOL: usize = 20;
const ADDRESSES: Range<usize> = 22..54;
const UDP: usize = 54;
const UDP_LENGTH: Range<usize> = 58..60;
const UDP_CHECKSUM: Range<usize> = 60..62;
const IPV6: [u8; 2] = [0x86, 0xdd];
const PROTOCOL_UDP: u8 = 17;
/// Virtio header: VIRTIO_NET_HDR_F_NEEDS_CSUM and VIRTIO_NET_HDR_GSO_UDP_L4.
const NEEDS_CHECKSUM: u8 = 1;
const KIND_UDP: u8 = 5;
/// Most cells in a superframe: all of them fit, whatever their length.
const CELLS_MAX: usize = 32;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Datagram {
    /// Of Ethernet, IPv6 and UDP; lengths and checksum mean nothing.
    pub(super) headers: [u8; HEADERS],
    pub(super) cell: Vec<u8>,
}

/// What came in a frame behind its virtio header; nothing when it is no UDP over IPv6.
pub(super) fn datagrams(frame: &[u8]) -> Vec<Datagram> {
    let Some((virtio, frame)) = frame.split_first_chunk::<VIRTIO>() else { return Vec::new() };
    let Some((headers, payload)) = frame.split_first_chunk::<HEADERS>() else { return Vec::new() };
    if headers[ETHERTYPE] != IPV6 || headers[PROTOCOL] != PROTOCOL_UDP {
        return Vec::new();
    }
    let length = usize::from(u16::from_be_bytes([headers[UDP_LENGTH.start], headers[UDP_LENGTH.start + 1]]));
    let is_superframe = virtio[1] == KIND_UDP;
    // Padding of the smallest frames is no payload.
    let payload =
        if is_superframe { payload } else { &payload[..payload.len().min(length.saturating_sub(8))] };
    let segment = usize::from(u16::from_ne_bytes([virtio[4], virtio[5]]));
    let cell = if is_superframe && segment > 0 { segment } else { payload.len().max(1) };
    payload.chunks(cell).map(|cell| Datagram { headers: *headers, cell: cell.to_vec() }).collect()
}

pub(super) fn frames(datagrams: &[Datagram]) -> impl Iterator<Item = Vec<u8>> {
    let alike = |a: &Datagram, b: &Datagram| a.headers == b.headers && a.cell.len() == b.cell.len();
    datagrams.chunk_by(alike).flat_map(|run| run.chunks(CELLS_MAX)).map(frame)
}

/// One frame of datagrams that are alike. The receiver's kernel trusts a checksum that is still to be finished.
fn frame(run: &[Datagram]) -> Vec<u8> {
    let cell = run[0].cell.len();
    let segment = if run.len() > 1 { short(cell) } else { 0 };
    let kind = if run.len() > 1 { KIND_UDP } else { 0 };
    let mut frame = vec![NEEDS_CHECKSUM, kind];
    for field in [short(HEADERS), segment, short(UDP), short(UDP_CHECKSUM.start - UDP)] {
        frame.extend(field.to_ne_bytes());
    }
    let mut headers = run[0].headers;
    let length = short(8 + run.len() * cell).to_be_bytes();
    headers[IP_LENGTH].copy_from_slice(&length);
    headers[UDP_LENGTH].copy_from_slice(&length);
    let pseudo = [&headers[ADDRESSES], &length[..], &[0, PROTOCOL_UDP]].concat();
    headers[UDP_CHECKSUM].copy_from_slice(&folded_sum(&pseudo).to_be_bytes());
    frame.extend(headers);
    run.iter().for_each(|datagram| frame.extend(&datagram.cell));
    frame
}

fn short(length: usize) -> u16 {
    u16::try_from(length).expect("cells in a superframe are bounded by the link's MTU")
}

// What the hostile node has heard on the link, from the moment before the daemons were started.

/// Kinds of cells (docs/wire.md, 4).
pub(super) const DATA: u8 = 0;
pub(super) const GREETING: u8 = 1;
pub(super) const HEARTBEAT: u8 = 2;
pub(super) const HANDSHAKE: u8 = 4;
/// Greetings and handshakes that are kept, the first ones.
const BEGINNINGS_MAX: usize = 256;
/// Other cells that are kept, the latest.
const RECENT_MAX: usize = 4_096;

#[derive(Clone, Debug, Default)]
pub(super) struct Recording {
    pub(super) beginnings: Vec<Datagram>,
    /// What came lately, of every other kind.
    pub(super) recent: VecDeque<Datagram>,
}

impl Recording {
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
pub(super) mod tests {
    use super::*;

    pub(in crate::commands::attack) fn datagram(cell: &[u8]) -> Datagram {
        let mut headers = [0; HEADERS];
        headers[ETHERTYPE].copy_from_slice(&IPV6);
        headers[PROTOCOL] = PROTOCOL_UDP;
        Datagram { headers, cell: cell.to_vec() }
    }

    fn cells(frame: &[u8]) -> Vec<Vec<u8>> {
        datagrams(frame).into_iter().map(|datagram| datagram.cell).collect()
    }

    #[test]
    fn what_is_framed_is_found_again() {
        let sent = [datagram(b"one"), datagram(b"two"), datagram(b"three")];
        let frames: Vec<Vec<u8>> = frames(&sent).collect();
        assert_eq!(frames.len(), 2, "cells of one length share a superframe");
        assert_eq!(cells(&frames[0]), [b"one", b"two"]);
        assert_eq!(cells(&frames[1]), [b"three"]);
    }

    #[test]
    fn padding_and_other_protocols_are_left_out() {
        let mut padded = frame(&[datagram(b"x")]);
        padded.resize(VIRTIO + 80, 0);
        assert_eq!(cells(&padded), [b"x"]);
        padded[VIRTIO + PROTOCOL] = 6;
        assert!(cells(&padded).is_empty() && cells(&[0; 20]).is_empty());
    }

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

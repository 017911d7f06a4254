//! The header between the Ethernet header and a cell: port and length (`docs/wire.md`, section 2).
//!
//! Ethernet pads short frames, and a cell does not say how long it is. The port distinguishes workers and bundles on
//! one NIC, as UDP's does.

use super::Mac;

/// The first EtherType for local experiments (IEEE 802, 9.2.4): it needs no registration, and no switch acts upon it.
pub const ETHER_TYPE: u16 = 0x88b5;
/// Bytes between the Ethernet header and the cell.
pub const HEAD: usize = 4;
/// Bytes of an Ethernet header without VLAN tag.
pub const ETHERNET: usize = 14;

/// The header before a cell of `length` bytes.
pub fn head(port: u16, length: u16) -> [u8; HEAD] {
    let ([a, b], [c, d]) = (port.to_be_bytes(), length.to_be_bytes());
    [a, b, c, d]
}

/// The length of the cell behind `head`, when it is for `port` and within the `room` bytes that came.
pub(super) fn cell_length(head: [u8; HEAD], port: u16, room: usize) -> Option<usize> {
    let [a, b, c, d] = head;
    let length = usize::from(u16::from_be_bytes([c, d]));
    (u16::from_be_bytes([a, b]) == port && (1..=room).contains(&length)).then_some(length)
}

/// An Ethernet header.
pub fn ethernet(to: Mac, from: Mac) -> [u8; ETHERNET] {
    let mut header = [0; ETHERNET];
    header[..6].copy_from_slice(&to);
    header[6..12].copy_from_slice(&from);
    header[12..].copy_from_slice(&ETHER_TYPE.to_be_bytes());
    header
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_holds_port_and_length() {
        let head = head(7420, 30);
        assert_eq!(head, [0x1c, 0xfc, 0, 30]);
        assert_eq!(cell_length(head, 7420, 46), Some(30), "the rest is padding");
        assert_eq!(cell_length(head, 7420, 30), Some(30));
        assert_eq!(cell_length(head, 7420, 29), None, "cut on the way");
        assert_eq!(cell_length(head, 7421, 46), None, "for another worker");
        assert_eq!(cell_length(super::head(7420, 0), 7420, 46), None, "no cell is empty");
    }

    #[test]
    fn an_ethernet_header_names_both_ends_and_the_type() {
        assert_eq!(ethernet([1; 6], [2; 6]), [1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2, 0x88, 0xb5]);
    }
}

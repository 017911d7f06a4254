//! The hello: which node is there, over which link, and under which session number it receives.
//!
//! A hello to everyone (multicast, or to an endpoint that has not answered yet) carries no session; the answer to one peer does.
//! Hellos decide whether two nodes form a bundle; all other cells carry the session number.

use super::Malformed;
use super::cell::{HEADER, Kind};
use super::fields::{Reader, Writer};
use core::fmt;
use core::net::Ipv6Addr;

/// The longest name in bytes.
pub const NAME_MAX: usize = 32;
/// The longest hello, without the cell header.
pub const HELLO_MAX: usize = 8 + 8 + 8 + 2 + 2 + 2 + 1 + 1 + 1 + 1 + NAME_MAX + 4 + 1 + KERNEL_END;
const KERNEL_END: usize = 6 + 2 + 16;

/// A node: the MAC address of its first NIC and its UDP port, so that it is the same after a restart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub u64);

impl NodeId {
    /// The identity of the node whose first NIC has this address and whose links use this UDP port, unless they have one of their own.
    pub fn new(mac: [u8; 6], port: u16) -> Self {
        let [a, b, c, d, e, f] = mac;
        let [high, low] = port.to_be_bytes();
        Self(u64::from_be_bytes([a, b, c, d, e, f, high, low]))
    }
}

impl fmt::Display for NodeId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, f, high, low] = self.0.to_be_bytes();
        let port = u16::from_be_bytes([high, low]);
        write!(out, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{f:02x}/{port}")
    }
}

/// A node's name: text of at most [`NAME_MAX`] bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Name {
    bytes: [u8; NAME_MAX],
    length: u8,
}

impl Name {
    /// The name, truncated at the last character that fits.
    pub fn new(text: &str) -> Self {
        let cut = &text[..text.floor_char_boundary(NAME_MAX)];
        let mut name = Self::default();
        name.bytes[..cut.len()].copy_from_slice(cut.as_bytes());
        #[expect(clippy::cast_possible_truncation, reason = "NAME_MAX is 32")]
        let length = cut.len() as u8;
        name.length = length;
        name
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        core::str::from_utf8(&self.bytes[..usize::from(self.length)]).unwrap_or("")
    }
}

/// Where a link of a node receives frames of the kernel path, encapsulated in IPv6 and UDP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelEnd {
    /// The NIC's address.
    pub mac: [u8; 6],
    /// The address of IPv6; no other host needs to know it.
    pub address: Ipv6Addr,
    /// The port of UDP to which they are sent.
    pub port: u16,
    /// Whether the node puts frames of one flow that came over several links in order.
    pub orders: bool,
}

/// A hello.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hello {
    /// Who speaks.
    pub node: NodeId,
    /// Differs after each start of the node's daemon: the state of the former one is void.
    pub incarnation: u64,
    /// Nodes with another group are not spoken to (derived from the group key; 0 without one).
    pub group: u64,
    /// The number that the addressee shall put into its cells to the speaker; 0: none given yet.
    pub session: u16,
    /// The number that the speaker was given by the addressee; 0: none yet, please answer.
    pub your_session: u16,
    /// The largest link frame (cell with header) that the speaker's NIC takes, in bytes.
    pub cell_max: u16,
    /// The most that the speaker wants to receive from the addressee on this link, in kbit/s; not 0.
    pub receives: Option<u32>,
    /// The speaker's number of the link on which this is sent.
    pub link: u8,
    /// How many workers the speaker runs; both ends must run the same number.
    pub workers: u8,
    /// Whether the speaker's device takes UDP superframes (Linux 6.2).
    pub takes_uso: bool,
    /// The speaker takes this link out: it receives cells that are on their way; the addressee sends nothing more there.
    pub leaves: bool,
    /// The speaker's cells are sealed: it takes part with its group only.
    pub seals: bool,
    /// The speaker does not know where the addressee listens on this link, and waits for a hello.
    pub asks: bool,
    /// The speaker is about to be replaced by another process: the addressee keeps frames for it.
    pub pauses: bool,
    /// The speaker ends, and takes all its links out.
    pub ends: bool,
    /// The speaker drains this link: data to it takes another, if there is one.
    pub drains: bool,
    /// For people.
    pub name: Name,
    /// Where this link of the speaker receives frames of the kernel path; where its cells are sealed, only in a sealed hello.
    pub kernel: Option<KernelEnd>,
}

/// Bits of the capabilities.
const TAKES_USO: u8 = 1;
const LEAVES: u8 = 2;
const SEALS: u8 = 4;
const ASKS: u8 = 8;
const PAUSES: u8 = 16;
const ENDS: u8 = 32;
const DRAINS: u8 = 64;
const RECEIVES: u8 = 128;
/// Bits of the further capabilities.
const KERNEL: u8 = 1;
const ORDERS: u8 = 2;

/// The version of a greeting and its node, which stand at the same place in every version. Reads only the kind and the
/// node.
pub fn greeter(cell: &[u8]) -> Option<(u8, NodeId)> {
    let (first, node) = (*cell.first()?, cell.get(HEADER..)?.first_chunk()?);
    (first & 0x0f == Kind::Hello as u8).then_some((first >> 4, NodeId(u64::from_be_bytes(*node))))
}

impl Hello {
    /// Reads a hello from the payload of a cell that was not sealed. Bytes behind it are ignored (frames may be padded).
    ///
    /// # Errors
    /// [`Malformed`] when the bytes are not a hello.
    pub fn parse(payload: &[u8]) -> Result<Self, Malformed> {
        let mut reader = Reader(payload);
        let hello = Self::read(&mut reader)?;
        // Behind the greeting of a node that seals stands its group tag.
        if hello.seals { Ok(hello) } else { hello.read_further(&mut reader) }
    }

    /// The same of a sealed cell that was opened, without its tag.
    ///
    /// # Errors
    /// As [`Self::parse`].
    pub fn parse_opened(payload: &[u8]) -> Result<Self, Malformed> {
        let mut reader = Reader(payload);
        Self::read(&mut reader)?.read_further(&mut reader)
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        let node = NodeId(reader.u64()?);
        let (incarnation, group) = (reader.u64()?, reader.u64()?);
        let (session, your_session, cell_max) = (reader.u16()?, reader.u16()?, reader.u16()?);
        let (link, workers, capabilities) = (reader.u8()?, reader.u8()?, reader.u8()?);
        let length = usize::from(reader.u8()?);
        if length > NAME_MAX || usize::from(link) >= super::cell::LINKS || workers == 0 {
            return Err(Malformed::Field);
        }
        let text = core::str::from_utf8(reader.bytes(length)?).map_err(|_| Malformed::Field)?;
        let name = Name::new(text);
        let receives = (capabilities & RECEIVES != 0).then(|| reader.u32()).transpose()?;
        if receives == Some(0) {
            return Err(Malformed::Field);
        }
        Ok(Self {
            node,
            incarnation,
            group,
            session,
            your_session,
            cell_max,
            receives,
            link,
            workers,
            takes_uso: capabilities & TAKES_USO != 0,
            leaves: capabilities & LEAVES != 0,
            seals: capabilities & SEALS != 0,
            asks: capabilities & ASKS != 0,
            pauses: capabilities & PAUSES != 0,
            ends: capabilities & ENDS != 0,
            drains: capabilities & DRAINS != 0,
            name,
            kernel: None,
        })
    }

    /// Adds what stands behind the hello of a node that is not an older one.
    fn read_further(self, reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        let further = if reader.0.is_empty() { 0 } else { reader.u8()? };
        let kernel =
            (further & KERNEL != 0).then(|| kernel_end(reader, further & ORDERS != 0)).transpose()?;
        Ok(Self { kernel, ..self })
    }

    /// Writes the hello to `payload` (at least [`HELLO_MAX`] bytes) and returns its length.
    pub fn emit(&self, payload: &mut [u8]) -> usize {
        let mut writer = Writer::new(payload);
        writer.u64(self.node.0).u64(self.incarnation).u64(self.group);
        writer.u16(self.session).u16(self.your_session).u16(self.cell_max);
        writer.u8(self.link).u8(self.workers).u8(self.capabilities());
        writer.u8(self.name.length).bytes(self.name.as_str().as_bytes());
        if let Some(receives) = self.receives {
            writer.u32(receives);
        }
        if let Some(KernelEnd { mac, address, port, orders }) = self.kernel {
            let further = KERNEL | if orders { ORDERS } else { 0 };
            writer.u8(further).bytes(&mac).u16(port).bytes(&address.octets());
        }
        writer.len()
    }

    fn capabilities(&self) -> u8 {
        let bits = [
            (self.takes_uso, TAKES_USO),
            (self.leaves, LEAVES),
            (self.seals, SEALS),
            (self.asks, ASKS),
            (self.pauses, PAUSES),
            (self.ends, ENDS),
            (self.drains, DRAINS),
            (self.receives.is_some(), RECEIVES),
        ];
        bits.into_iter().filter(|(set, _)| *set).fold(0, |bits, (_, bit)| bits | bit)
    }
}

fn kernel_end(reader: &mut Reader<'_>, orders: bool) -> Result<KernelEnd, Malformed> {
    let mac = reader.array()?;
    let port = reader.u16()?;
    Ok(KernelEnd { mac, port, address: reader.array::<16>()?.into(), orders })
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    fn example() -> Hello {
        Hello {
            node: NodeId::new([2, 0, 0, 0, 0, 1], 7420),
            incarnation: 0x1122_3344_5566_7788,
            group: 0x99,
            session: 0x0102,
            cell_max: 1452,
            receives: Some(50_000),
            link: 1,
            workers: 1,
            takes_uso: true,
            name: Name::new("h1"),
            kernel: Some(KernelEnd {
                mac: [2, 0, 0, 0, 0, 3],
                address: "fe80::3".parse().unwrap(),
                port: 7421,
                orders: true,
            }),
            ..Hello::default()
        }
    }

    #[test]
    fn each_capability_is_a_bit() {
        let none = Hello { takes_uso: false, receives: None, kernel: None, ..example() };
        let hellos = [
            (Hello { takes_uso: true, ..none }, 1),
            (Hello { leaves: true, ..none }, 2),
            (Hello { seals: true, ..none }, 4),
            (Hello { asks: true, ..none }, 8),
            (Hello { pauses: true, ..none }, 16),
            (Hello { ends: true, ..none }, 32),
            (Hello { drains: true, ..none }, 64),
            (Hello { receives: Some(1), ..none }, 128),
        ];
        for (hello, bit) in hellos {
            let mut bytes = [0; HELLO_MAX];
            hello.emit(&mut bytes);
            assert_eq!(bytes[32], bit);
            assert_eq!(Hello::parse(&bytes), Ok(hello));
        }
    }

    #[test]
    fn golden_bytes() {
        let mut bytes = [0; HELLO_MAX];
        let length = example().emit(&mut bytes);
        assert_eq!(bytes[..length], crate::wire::golden("hello"));
        assert_eq!(Hello::parse(&bytes), Ok(example()), "padding behind it is ignored");
        assert_eq!(example().node.to_string(), "02:00:00:00:00:01/7420");
    }

    #[test]
    fn the_longest_is_as_long_as_said_and_what_it_cannot_have_is_refused() {
        let longest = Hello { name: Name::new(&"n".repeat(NAME_MAX)), ..example() };
        let mut bytes = [0; 2 * HELLO_MAX];
        assert_eq!(longest.emit(&mut bytes), HELLO_MAX);
        assert_eq!(Hello::parse(&bytes), Ok(longest));
        for (place, value) in [(30, 16), (31, 0), (33, 33)] {
            let mut bytes = bytes;
            bytes[place] = value;
            assert_eq!(Hello::parse(&bytes), Err(Malformed::Field), "byte {place}");
        }
    }

    #[test]
    fn truncation_at_every_byte_is_refused() {
        let mut bytes = [0; HELLO_MAX];
        let length = example().emit(&mut bytes);
        let older = length - 1 - KERNEL_END;
        for cut in (0..length).filter(|cut| *cut != older) {
            assert_eq!(Hello::parse(&bytes[..cut]), Err(Malformed::Truncated), "cut at {cut}");
        }
        assert_eq!(Hello::parse(&bytes[..older]), Ok(Hello { kernel: None, ..example() }), "an older node's");
    }

    #[test]
    fn a_node_that_seals_says_in_sealed_cells_where_it_takes_frames() {
        let mut bytes = [0; HELLO_MAX];
        let hello = Hello { seals: true, ..example() };
        let length = hello.emit(&mut bytes);
        assert_eq!(Hello::parse_opened(&bytes[..length]), Ok(hello));
        bytes[length - 1 - KERNEL_END..].fill(0xff);
        assert_eq!(Hello::parse(&bytes), Ok(Hello { kernel: None, ..hello }), "a tag stands behind it");
    }

    #[test]
    fn a_long_name_is_truncated_at_a_character() {
        let name = Name::new("束ね束ね束ね束ね束ね束ね");
        assert_eq!(name.as_str(), "束ね束ね束ね束ね束ね");
    }
}

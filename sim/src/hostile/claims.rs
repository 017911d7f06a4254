//! Initiations in the name of other nodes: the member claims their keys, and goes by what stands in the clear.
//!
//! Beside [`super::way`]. Who holds a node's key and who only claims it write the same first message. So the member makes it with
//! the node's key, and never answers with that.

use crate::cable::Place;
use crate::node::group;
use crate::random::Random;
use crate::topology::NodeNumber;
use std::collections::BTreeMap;
use tabane_proto::security::{Security, TAG};
use tabane_proto::wire::cell::{HEADER, Header, Kind};
use tabane_proto::wire::handshake::{Message, Step};
use tabane_proto::wire::hello::{HELLO_MAX, Hello, NodeId};
use tabane_seal::Group;

#[derive(Debug, Default)]
pub(super) struct InTheClear {
    greetings: BTreeMap<NodeNumber, Hello>,
    /// The session and the epoch of the last cell from a node to another.
    sessions: BTreeMap<[NodeNumber; 2], (u16, u8)>,
}

impl InTheClear {
    /// A node sends a cell, to everyone or to a node.
    pub(super) fn watch(&mut self, from: Place, to: Option<Place>, header: &Header, cell: &[u8]) {
        if let Some(to) = to {
            if header.epoch != 0 {
                self.sessions.insert([from.node, to.node], (header.session, header.epoch));
            }
        } else if header.kind == Kind::Hello
            && let Some(hello) = greeting(cell)
        {
            self.greetings.insert(from.node, hello);
        }
    }

    /// An initiation to a node in the name of any other, of their session or of a new one.
    pub(super) fn initiation(&self, to: NodeNumber, random: &mut Random) -> Option<Vec<u8>> {
        let others: Vec<_> = self.greetings.keys().filter(|node| **node != to).collect();
        let from = *others.get(random.index(others.len()))?;
        let (given, epoch) = self.sessions.get(&[*from, to])?;
        let (session, _) = self.sessions.get(&[to, *from])?;
        let renews = random.chance(500_000);
        let hello = self.greetings.get(from)?;
        let hello = if renews {
            Hello { session: *session, your_session: *given, ..*hello }
        } else {
            Hello {
                session: u16::try_from(random.within(1..=0xffff)).unwrap_or(1),
                your_session: 0,
                ..*hello
            }
        };
        let addressee = self.greetings.get(&to)?.node;
        let epoch = if renews { *epoch % u8::MAX + 1 } else { 1 };
        let serial = random.pick(&[1, 2, u32::MAX - 1, u32::MAX]);
        let mut cell =
            initiation(&mut group(hello.node, random.number()), &hello, addressee, (epoch, serial), &[])?;
        if let Some(stamp) = cell.last_chunk_mut::<TAG>().filter(|_| random.chance(200_000)) {
            random.fill(stamp);
        }
        Some(cell)
    }
}

/// The hello of a greeting, which has the group's tag.
pub fn greeting(cell: &[u8]) -> Option<Hello> {
    let (hello, _) = cell.get(HEADER..)?.split_last_chunk::<TAG>()?;
    Hello::parse(hello).ok()
}

/// The initiation of who has `hello`, by somebody of the group: with this epoch and serial, and without a stamp. The bytes `over`
/// are laid over the hello that the handshake carries.
pub fn initiation(
    group: &mut Group,
    hello: &Hello,
    addressee: NodeId,
    (epoch, serial): (u8, u32),
    over: &[u8],
) -> Option<Vec<u8>> {
    let (mut payload, mut body) = ([0; HELLO_MAX], Vec::new());
    let length = hello.emit(&mut payload);
    payload.iter_mut().zip(over).for_each(|(byte, over)| *byte ^= over);
    group.initiate().write(&payload[..length.max(over.len().min(HELLO_MAX))], &mut body).ok()?;
    let Hello { node, incarnation, .. } = *hello;
    let step = Step::Initiation;
    let covered = Message { step, epoch, serial, node, incarnation, addressee, body: &body }.emit();
    Some([&covered[..], &group.tag(0, &covered), &[0; TAG]].concat())
}

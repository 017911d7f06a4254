//! Which link carries the next cells: the policies, one file each.
//!
//! Called by `send::schedule`. A policy sees the links that are up and the cells that wait, and gives some of the cells to one
//! link; the scheduler calls it again for the others. It knows nothing of sockets, peers' addresses or repair. Which policy decides over a frame:
//! [`crate::policy::class`].

mod active_backup;
mod adaptive;
pub mod class;
pub mod classify;
mod duplicate;
pub mod gate;
mod hash;
mod rr;
mod senders;
#[cfg(test)]
mod skew;
mod tlb;
mod tlb_history;
mod weighted;

use crate::link::paths::Reach;
use crate::policy::classify::HashLayers;
pub use crate::policy::rr::{Turn, UnknownTurn};
pub(crate) use crate::policy::senders::Seen;
use crate::policy::senders::Senders;
pub use crate::policy::senders::{NEWCOMERS, SENDERS};
use crate::time::Instant;
use crate::wire::cell::LINKS;
use alloc::boxed::Box;
use core::fmt;
use core::ops::{Deref, DerefMut};
use core::str::FromStr;
use core::time::Duration;

/// A link as a policy sees it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Choice {
    pub(crate) link: u8,
    /// How long the next cell waits: for the bytes in the link's own queue, and behind it where that can be foreseen.
    pub(crate) wait: Duration,
    /// Bytes per second, when stated or measured.
    pub(crate) rate: Option<u64>,
    /// Bytes per second at which it takes cells, as far as that is known: also while it starts, and its rate is not known yet.
    pub(crate) pace: Option<u64>,
    /// Bytes per second that its NIC sends, as stated, or as it says.
    pub(crate) speed: Option<u64>,
    /// Bytes per second that its NIC receives, as stated, or as it says.
    pub(crate) receives: Option<u64>,
    /// Bytes per second that others sent over its NIC of late.
    pub(crate) others: u64,
    /// Bytes per second that its NIC received of late, for whomever.
    pub(crate) received: u64,
    /// The link's part of the traffic, as the user states it.
    pub(crate) weight: Option<u32>,
    /// How much later than on the fastest link a cell arrives; without `wait` where that can be foreseen.
    pub(crate) skew: Duration,
    /// It is too far away to share a flow with the others.
    pub(crate) is_far: bool,
    /// To the peer and back.
    pub(crate) round_trip: Duration,
    /// The link takes no more cells at the moment.
    pub(crate) full: bool,
    /// How long until it is likely to take some, if that can be foreseen.
    pub(crate) opens: Option<Duration>,
}

/// Bytes per second of a link of which nothing is known, among such: 10 Gbit/s.
const RATE_UNKNOWN: u64 = 1_250_000_000;

/// Bytes per second of each choice. One that nobody has measured counts with its NIC's speed, but as no faster than the fastest that
/// was: the bottleneck may stand behind the NIC.
fn rates(choices: &[Choice]) -> impl Fn(&Choice) -> u64 + use<> {
    let fastest = choices.iter().filter_map(|choice| choice.rate).max();
    move |choice| {
        let guess = choice.speed.into_iter().chain(fastest).min();
        choice.rate.or(guess).unwrap_or(RATE_UNKNOWN)
    }
}

/// Less than one part in so many of a NIC's speed is no load: the headers around packets, what NICs say by themselves, and counters
/// that are not read at one moment.
const NO_LOAD: u64 = 32;

/// A NIC that receives as much as it can has one part in so many left: who comes gets a part of those who fill it.
const FULL: u64 = 4;

/// What a NIC has left.
#[derive(Clone, Copy, Debug, Default)]
struct Room {
    /// Bytes per second that it can send beside what others send over it.
    send: u64,
    /// Bytes per second that it could receive beside what it does receive.
    receive: u64,
}

/// What the NIC of each choice has left. One of which no speed is known has what was measured, which others had their part of already.
fn rooms(choices: &[Choice]) -> impl Fn(&Choice) -> Room + use<> {
    let rate = rates(choices);
    let beside = |speed: u64, load: u64| speed.saturating_sub(if load < speed / NO_LOAD { 0 } else { load });
    move |choice| {
        let rate = rate(choice);
        // One that was seen to carry more than it says is as fast as that.
        let [sends, receives] =
            [choice.speed, choice.receives].map(|speed| speed.map(|speed| speed.max(rate)));
        let receives = receives.unwrap_or(rate);
        Room {
            send: sends.map_or(rate, |speed| rate.min(beside(speed, choice.others))),
            receive: beside(receives, choice.received).max(receives / FULL),
        }
    }
}

/// Cells that wait for a link, all for one peer and of one flow.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Waiting {
    /// The present, to some milliseconds.
    pub(crate) now: Instant,
    /// Index of the peer that they are for.
    pub(crate) peer: u16,
    /// The flow that they belong to: [`Distribute::layers`] says what makes one.
    pub(crate) flow: u32,
    /// By which links it goes.
    pub(crate) reach: Reach,
    /// How many they are, at least 1.
    pub(crate) cells: usize,
    pub(crate) cell_bytes: usize,
    /// How many cells leave, over whichever link, until the last one of the flow that waits now has left.
    pub(crate) backlog: usize,
    /// To the peer and back, over the longest way.
    pub(crate) round_trip: Duration,
}

/// A policy's answer: so many cells for the link with this index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Share {
    /// Index into the choices.
    pub(crate) index: usize,
    /// Cells, at least 1; more than wait means all.
    pub(crate) cells: usize,
}

impl Share {
    /// All cells for one link, or `None` while it is full: a flow that is bound to a link waits for it.
    fn all(choices: &[Choice], index: usize, waiting: &Waiting) -> Option<Self> {
        (!choices[index].full).then_some(Self { index, cells: waiting.cells })
    }
}

/// How programs do what a policy does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum InKernel {
    /// A hash of addresses and ports binds a flow to one of these links, a bit each.
    Hash(u16),
    /// A flow's frames are spread so; the speed that they take each choice for, in bytes per second.
    Spread(Choosing, [u64; LINKS]),
    /// They keep each sender on one link. Those of the next that come.
    Senders([u8; NEWCOMERS]),
}

pub(crate) trait Distribute: Send {
    /// How many of the cells that wait go to which link next; `None`: wait until a link takes more. `choices` is not empty
    /// and sorted by link. A policy that binds flows is told by [`Self::seat`] alone.
    fn share(&mut self, choices: &[Choice], waiting: &Waiting) -> Option<Share> {
        let index = self.seat(choices, waiting)?;
        Share::all(choices, index, waiting)
    }

    /// The headers that make a flow, if the policy tells flows apart.
    fn layers(&self) -> Option<HashLayers> {
        None
    }

    /// The index of the link that a flow is bound to, if the policy tells flows apart.
    fn seat(&mut self, choices: &[Choice], waiting: &Waiting) -> Option<usize> {
        let _ = (choices, waiting);
        None
    }

    /// How programs do what the policy does; `None`: they cannot.
    fn in_kernel(&mut self, choices: &[Choice], waiting: &Waiting) -> Option<InKernel> {
        let _ = (choices, waiting);
        None
    }

    fn senders(&mut self) -> Option<&mut Senders> {
        None
    }

    /// A sender has this link from now on.
    fn handle_seat(&mut self, flow: u32, link: u8) {
        let _ = (flow, link);
    }

    /// The kernel took so many bytes of a flow for a link.
    fn handle_sent(&mut self, flow: u32, link: u8, bytes: u64) {
        let _ = (flow, link, bytes);
    }

    /// Whether the policy wants to know what is received.
    fn heeds_received(&self) -> bool {
        false
    }

    /// Bytes were delivered that answer a flow, or that it is to answer; `link`: over which of ours they came.
    fn handle_received(&mut self, flow: u32, link: Option<u8>, bytes: u64) {
        let _ = (flow, link, bytes);
    }
}

/// How programs in the kernel choose among the links that are open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Choosing {
    /// A hash of addresses and ports binds a flow to a link.
    #[default]
    Hash,
    /// Each frame takes the link that is free first, by the links' speeds.
    Earliest,
    /// Each frame takes the link that lacks most of its share, by the links' speeds.
    Shares,
    /// Each sender has a link: [`Bundle::poll_moves`](crate::Bundle::poll_moves).
    Senders {
        /// The links of the next that come, by how many came before modulo the length.
        newcomers: [u8; NEWCOMERS],
        /// Whether programs count what is received as well, and give who answers the link by which the flow came.
        received: bool,
    },
}

impl Choosing {
    /// Whether frames of one flow use several links.
    pub fn spreads(self) -> bool {
        matches!(self, Self::Earliest | Self::Shares)
    }
}

/// What a policy does with one flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nature {
    /// It spreads the flow's cells over links.
    Spreads,
    /// It binds the flow to one link while that is up.
    Binds,
    /// It sends each cell over every link.
    Replicates,
}

/// The policies: what each is for, its kind, its name in files, flags and the status, its nature, and how it begins.
macro_rules! policies {
    ($($(#[$about:meta])+ $kind:ident, $name:literal, $nature:ident, $begin:expr;)+) => {
        /// The names of the policies.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub enum PolicyKind {
            $($(#[$about])+ $kind,)+
        }

        impl PolicyKind {
            /// Every policy.
            pub const ALL: [Self; [$($name,)+].len()] = [$(Self::$kind,)+];

            /// The name in files, flags and the status.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$kind => $name,)+
                }
            }

            /// What it does with one flow.
            pub fn nature(self) -> Nature {
                match self {
                    $(Self::$kind => Nature::$nature,)+
                }
            }

            /// The policy with the state of one that has seen nothing.
            fn begin(self, options: &PolicyOptions) -> Box<dyn Distribute> {
                match self {
                    $(Self::$kind => Box::new($begin(options)),)+
                }
            }
        }
    };
}

policies! {
    /// The link that will deliver first, from measured rate, queue and delay.
    #[default]
    Adaptive, "adaptive", Spreads, |_| adaptive::Adaptive::default();
    /// One link after the other.
    RoundRobin, "rr", Spreads, rr::RoundRobin::new;
    /// By weight, stated or measured.
    Weighted, "weighted", Spreads, |_| weighted::Weighted::default();
    /// Each flow on the link with most headroom; renewed every 10 s.
    Tlb, "tlb", Binds, |_| tlb::Tlb::default();
    /// As `Tlb`, balanced by past link load and the flows' volumes.
    TlbHistory, "tlb-history", Binds, |_| tlb_history::TlbHistory::default();
    /// Each flow on the link that a hash of its headers names.
    Hash, "hash", Binds, hash::Hash::new;
    /// One link, and another when it fails.
    ActiveBackup, "active-backup", Binds, active_backup::ActiveBackup::new;
    /// Each cell on every link: the first replica wins.
    Duplicate, "duplicate", Replicates, |_| duplicate::Duplicate::default();
}

impl fmt::Display for PolicyKind {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.name())
    }
}

/// A text that names no policy. Printed, it says which there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownPolicy;

impl FromStr for PolicyKind {
    type Err = UnknownPolicy;

    fn from_str(text: &str) -> Result<Self, UnknownPolicy> {
        Self::ALL.into_iter().find(|kind| kind.name() == text).ok_or(UnknownPolicy)
    }
}

impl fmt::Display for UnknownPolicy {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("no policy has this name; allowed: ")?;
        PolicyKind::ALL.into_iter().enumerate().try_for_each(|(index, kind)| {
            out.write_str(if index == 0 { "" } else { ", " })?;
            out.write_str(kind.name())
        })
    }
}

impl core::error::Error for UnknownPolicy {}

/// The options of the policies that have some.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PolicyOptions {
    /// `active-backup`: the link that is used while its path is up.
    pub primary: Option<u8>,
    /// `active-backup`: whether the primary takes over again when it has come back.
    pub preempt: bool,
    /// `hash`: the headers that make a flow.
    pub hash: HashLayers,
    /// `rr`: how many cells a link gets in its turn.
    pub turn: Turn,
}

impl Default for PolicyOptions {
    fn default() -> Self {
        Self { primary: None, preempt: true, hash: HashLayers::default(), turn: Turn::default() }
    }
}

/// A policy in force, with its state, which distributes.
pub(crate) struct Policy {
    kind: PolicyKind,
    state: Box<dyn Distribute>,
}

impl Policy {
    pub(crate) fn new(kind: PolicyKind, options: &PolicyOptions) -> Self {
        Self { kind, state: kind.begin(options) }
    }

    pub(crate) fn kind(&self) -> PolicyKind {
        self.kind
    }

    pub(crate) fn replicates(&self) -> bool {
        self.kind.nature() == Nature::Replicates
    }

    /// Hands in how many newcomers programs have given a link, and what they know of each sender.
    pub(crate) fn handle_senders(&mut self, newcomers: u64, seen: impl Fn(u32) -> Option<Seen>) {
        let Some(senders) = self.state.senders() else { return };
        senders.handle_newcomers(newcomers);
        for flow in 0..SENDERS {
            let Some(seen) = seen(flow) else { continue };
            let Some(senders) = self.state.senders() else { return };
            let ([sent, received], moved) = senders.handle_seen(flow, &seen);
            if let Some(link) = moved {
                self.state.handle_seat(flow, link);
            }
            self.state.handle_sent(flow, seen.link, sent);
            self.state.handle_received(flow, Some(seen.link), received);
        }
    }

    /// The senders that have another link than programs know of: number, peer and link.
    pub(crate) fn moves(&mut self) -> impl Iterator<Item = (u32, Option<(u16, u8)>)> {
        self.state.senders().into_iter().flat_map(Senders::moves)
    }
}

impl Deref for Policy {
    type Target = dyn Distribute;

    fn deref(&self) -> &Self::Target {
        &*self.state
    }
}

impl DerefMut for Policy {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut *self.state
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;

    #[test]
    fn a_link_that_nobody_has_measured_is_as_fast_as_its_nic_and_no_faster_than_one_that_was() {
        let speed = |megabits: u64, choice: Choice| Choice { speed: Some(megabits * 125_000), ..choice };
        let measured = speed(10_000, example::choice(0, Some(25_000_000)));
        let [fast, slow] = [10_000, 100].map(|megabits| speed(megabits, example::choice(1, None)));
        assert_eq!(rates(&[measured, fast])(&fast), 25_000_000);
        assert_eq!(rates(&[measured, slow])(&slow), 12_500_000);
        assert_eq!(rates(&[fast, slow])(&fast), 1_250_000_000);
        assert_eq!(rates(&[example::choice(0, None)])(&example::choice(0, None)), RATE_UNKNOWN);
    }

    /// `tabane status` names these policies where frames to a peer travel in cells.
    #[test]
    fn programs_do_what_each_policy_does_that_sends_no_replicas() {
        for kind in PolicyKind::ALL {
            let mut policy = Policy::new(kind, &PolicyOptions::default());
            let way = policy.in_kernel(&example::links(), &example::waiting(0, 1));
            assert_eq!(way.is_some(), kind.nature() != Nature::Replicates, "{kind}");
        }
    }

    #[test]
    fn names_are_read_as_they_are_printed() {
        for kind in PolicyKind::ALL {
            assert_eq!(kind.to_string().parse(), Ok(kind));
        }
        let why = "best".parse::<PolicyKind>().unwrap_err().to_string();
        let names = PolicyKind::ALL.map(PolicyKind::name).join(", ");
        assert_eq!(why, std::format!("no policy has this name; allowed: {names}"));
    }
}

/// What the tests of policies share.
#[cfg(test)]
mod example {
    use super::{Choice, InKernel, NEWCOMERS, Policy, Waiting};
    use core::time::Duration;

    pub(super) const CELL: usize = 1_452;
    pub(super) const GIGABIT: u64 = 125_000_000;
    pub(super) const RATE: u64 = GIGABIT / 10;

    /// A link that is idle.
    pub(super) fn choice(link: u8, rate: Option<u64>) -> Choice {
        Choice { link, rate, opens: Some(Duration::ZERO), ..Choice::default() }
    }

    /// Two links of 100 Mbit/s.
    pub(super) fn links() -> [Choice; 2] {
        [0, 1].map(|link| choice(link, Some(RATE)))
    }

    pub(super) fn waiting(flow: u32, cells: usize) -> Waiting {
        Waiting { flow, cells, cell_bytes: CELL, backlog: cells, ..Waiting::default() }
    }

    /// The links of the next senders that come.
    pub(super) fn newcomers(policy: &mut Policy, choices: &[Choice], waiting: &Waiting) -> [u8; NEWCOMERS] {
        match policy.in_kernel(choices, waiting) {
            Some(InKernel::Senders(links)) => links,
            other => panic!("it has senders: {other:?}"),
        }
    }
}

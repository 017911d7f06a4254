//! The keys of a session: which one seals, and which ones open.
//!
//! Beside the path. Each handshake gives a pair of keys, one for each direction; the epoch is their number. The initiator seals
//! with the new key at once, the responder as soon as it has opened a cell under it. The former key opens cells for a while,
//! so a change of keys loses none. A session replaces keys that go back to a dropped group key at once.
//!
//! A session is with one node's own key: handshakes that renew its keys prove that key again.
//!
//! Invariant: no key seals the same number twice, for the numbers of links go on when keys change.

use crate::security::{Number, PublicKey, Rekey, SessionKeys, TAG};
use crate::session::replay::Replay;
use crate::time::Instant;
use crate::wire::cell::LINKS;
use crate::wire::numbered::Numbered;
use alloc::boxed::Box;
use core::time::Duration;

/// Number of no link: keys vouch for initiations under it, each with the initiation's serial.
const VOUCHING: u8 = 0xff;
/// A replaced key opens cells for this time: cells that wait in queues are younger.
const OPENED_FOR: Duration = Duration::from_secs(10);

/// What a handshake gave.
pub(crate) struct Agreed {
    /// The number of the keys.
    pub(crate) epoch: u8,
    pub(crate) keys: SessionKeys,
    /// The group key of the handshake, named by the tag that it makes of no bytes.
    pub(crate) group_key: [u8; TAG],
    /// The peer's own key.
    pub(crate) peer: Option<PublicKey>,
}

/// One pair of keys.
struct Epoch {
    number: u8,
    keys: SessionKeys,
    /// The group key that it goes back to, as in [`Agreed`], and since when that is not accepted.
    group_key: [u8; TAG],
    dropped: Option<Instant>,
    /// When it was agreed on, or was replaced.
    since: Instant,
    /// Cells sealed with it, and opened.
    sealed: u64,
    opened: u64,
}

impl Epoch {
    fn new(now: Instant, agreed: Agreed) -> Self {
        let Agreed { epoch: number, keys, group_key, .. } = agreed;
        Self { number, keys, group_key, dropped: None, since: now, sealed: 0, opened: 0 }
    }

    fn open(&mut self, number: Number, header: &[u8], sealed: &mut [u8]) -> bool {
        let is_authentic = self.keys.opening.open(number, header, sealed);
        self.opened += u64::from(is_authentic);
        is_authentic
    }
}

/// Epochs that count as later ones: the others are over.
const BEYOND: u16 = 127;

pub(crate) struct Keyring {
    /// The peer's own key, the same for all epochs.
    peer: Option<PublicKey>,
    current: Epoch,
    /// Keys that the peer may seal with from now on; it has not yet.
    next: Option<Epoch>,
    /// Keys that the peer sealed with before.
    previous: Option<Epoch>,
    /// The numbers received on each of the peer's links, whatever the epoch.
    windows: Box<Numbered<[Replay; LINKS]>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// Its number was received before, or is too old to tell.
    Replayed,
    /// It is forged or damaged, or of an epoch that is over.
    Forged,
}

impl Keyring {
    pub(crate) fn new(now: Instant, agreed: Agreed) -> Self {
        let windows = Box::new(Numbered(core::array::from_fn(|_| Replay::default())));
        Self { peer: agreed.peer, current: Epoch::new(now, agreed), next: None, previous: None, windows }
    }

    pub(crate) fn peer(&self) -> Option<PublicKey> {
        self.peer
    }

    pub(crate) fn epoch(&self) -> u8 {
        self.current.number
    }

    /// The number of the keys that come next: 1 to 255, then 1 again.
    pub(crate) fn next_epoch(&self) -> u8 {
        self.current.number % u8::MAX + 1
    }

    /// Cells sealed and opened with the current keys.
    pub(crate) fn cells(&self) -> (u64, u64) {
        (self.current.sealed, self.current.opened)
    }

    /// The ciphers of the current keys: what seals, and what opens.
    pub(crate) fn ciphers(&self) -> [&'static str; 2] {
        let SessionKeys { sealing, opening } = &self.current.keys;
        [sealing.cipher(), opening.cipher()]
    }

    /// The peer has these keys, too: they seal from now on.
    pub(crate) fn install(&mut self, now: Instant, agreed: Agreed) {
        self.change(now, Epoch::new(now, agreed));
    }

    /// Keys that the peer may have: they seal as soon as the peer has used them.
    pub(crate) fn offer(&mut self, now: Instant, agreed: Agreed) {
        self.next = Some(Epoch::new(now, agreed));
    }

    /// Other group keys are accepted from now on.
    pub(crate) fn review(&mut self, now: Instant, is_accepted: impl Fn(&[u8; TAG]) -> bool) {
        for epoch in [Some(&mut self.current), self.next.as_mut()].into_iter().flatten() {
            epoch.dropped = if is_accepted(&epoch.group_key) { None } else { epoch.dropped.or(Some(now)) };
        }
    }

    /// When the key that seals was agreed on, and since when its group key is not accepted.
    pub(crate) fn age(&self) -> (Instant, Option<Instant>) {
        (self.current.since, self.current.dropped)
    }

    /// Whether the key that seals must be replaced, and no new one is offered.
    pub(crate) fn is_old(&self, now: Instant, limits: &Rekey) -> bool {
        let counts = |next: &&Epoch| next.dropped.is_none() && now.since(next.since) < OPENED_FOR / 2;
        let offered = self.next.as_ref().filter(counts).is_some();
        let Epoch { since, sealed, dropped, .. } = self.current;
        !offered && (dropped.is_some() || now.since(since) >= limits.after || sealed >= limits.cells)
    }

    /// Seals a payload to `sealed`, which is [`TAG`] bytes longer. The header names the epoch.
    pub(crate) fn seal(&mut self, number: Number, header: &[u8], payload: &[u8], sealed: &mut [u8]) {
        self.current.sealed += 1;
        self.current.keys.sealing.seal(number, header, payload, sealed);
    }

    /// A tag over an initiation that is to renew these keys. Nobody but the two sides of the session can make it.
    pub(crate) fn vouch(&self, serial: u32, initiation: &[u8]) -> [u8; TAG] {
        let mut tag = [0; TAG];
        self.current.keys.sealing.seal(vouching(serial), initiation, &[], &mut tag);
        tag
    }

    /// Whether the peer has made the tag, with the same keys.
    pub(crate) fn is_vouched(&self, serial: u32, initiation: &[u8], tag: &[u8; TAG]) -> bool {
        self.current.keys.opening.open(vouching(serial), initiation, &mut tag.clone())
    }

    /// Opens in place what was sealed under an epoch, once.
    ///
    /// # Errors
    /// [`Refused`]; then nothing has changed but the bytes, which are undefined.
    pub(crate) fn open(
        &mut self,
        now: Instant,
        epoch: u8,
        number: Number,
        header: &[u8],
        sealed: &mut [u8],
    ) -> Result<(), Refused> {
        if !self.windows[number.link].is_new(number.seq) {
            return Err(Refused::Replayed);
        }
        if !self.open_under(now, epoch, number, header, sealed) {
            return Err(Refused::Forged);
        }
        self.windows[number.link].note(number.seq);
        Ok(())
    }

    fn open_under(
        &mut self,
        now: Instant,
        epoch: u8,
        number: Number,
        header: &[u8],
        sealed: &mut [u8],
    ) -> bool {
        if self.current.number == epoch {
            return self.current.open(number, header, sealed);
        }
        self.previous.take_if(|previous| now.since(previous.since) > OPENED_FOR);
        if let Some(previous) = self.previous.as_mut().filter(|previous| previous.number == epoch) {
            return previous.open(number, header, sealed);
        }
        let opens = |next: &mut Epoch| next.number == epoch && next.open(number, header, sealed);
        let used = self.next.take_if(opens);
        let is_used = used.is_some();
        if let Some(next) = used {
            self.change(now, Epoch { since: now, ..next });
        }
        is_used
    }

    /// Whether keys of this epoch come later than all that are known.
    pub(crate) fn is_beyond(&self, epoch: u8) -> bool {
        let later = |epoch: u8| {
            (u16::from(epoch) + u16::from(u8::MAX) - u16::from(self.current.number)) % u16::from(u8::MAX)
        };
        let known = self.next.as_ref().map_or(0, |next| later(next.number));
        epoch != 0 && (known + 1..=BEYOND).contains(&later(epoch))
    }

    fn change(&mut self, now: Instant, next: Epoch) {
        self.next = None;
        let replaced = core::mem::replace(&mut self.current, next);
        self.previous = Some(Epoch { since: now, ..replaced });
    }
}

/// The number of an initiation: no cell has it, and no other initiation of this node.
fn vouching(serial: u32) -> Number {
    Number { link: VOUCHING, seq: serial.into() }
}

//! How a hostile member gets its own keys: a tap on the cryptography of its bundle.
//!
//! Stands between a bundle and [`tabane_seal`]. Handshakes and keys are the real ones. The tap notes each sealed cell with its
//! header, its full number and the key, so that the member can seal further cells under the same key.
//!
//! Invariant: at most [`NOTES`] notes are kept.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use tabane_proto::security::{Handshake, Key, Number, PublicKey, Rejected, Security, SessionKeys, TAG};
use tabane_proto::wire::cell::{HEADER, Header, Kind};
use tabane_seal::Group;

/// Sealed cells that were not seen on a link yet: a batch, and some control messages.
const NOTES: usize = 256;

pub(crate) type Shared = Arc<Mutex<Box<dyn Key>>>;

pub(crate) struct Note {
    header: [u8; HEADER],
    pub(crate) number: Number,
    /// Its payload, unless it carries data.
    pub(crate) payload: Vec<u8>,
    pub(crate) key: Shared,
}

/// Notes of the cells that were sealed lately. Its clones share them.
#[derive(Clone, Default)]
pub struct Tap(Arc<Mutex<VecDeque<Note>>>);

impl Tap {
    /// The note of the cell with this header; those before it are dropped.
    pub(crate) fn take(&self, header: &[u8]) -> Option<Note> {
        let mut notes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let index = notes.iter().position(|note| note.header == header)?;
        notes.drain(..index);
        notes.pop_front()
    }

    fn put(&self, note: Note) {
        let mut notes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if notes.len() == NOTES {
            notes.pop_front();
        }
        notes.push_back(note);
    }
}

pub struct TappedGroup {
    pub group: Group,
    pub tap: Tap,
}

impl TappedGroup {
    fn tapped(&self, handshake: Box<dyn Handshake>) -> Box<dyn Handshake> {
        Box::new(TappedHandshake { handshake, tap: self.tap.clone() })
    }
}

impl Security for TappedGroup {
    fn tag(&self, key: usize, bytes: &[u8]) -> [u8; TAG] {
        self.group.tag(key, bytes)
    }

    fn tagged_by(&self, bytes: &[u8], tag: &[u8; TAG]) -> Option<usize> {
        self.group.tagged_by(bytes, tag)
    }

    fn initiate(&mut self) -> Box<dyn Handshake> {
        let handshake = self.group.initiate();
        self.tapped(handshake)
    }

    fn respond(&mut self, key: usize) -> Box<dyn Handshake> {
        let handshake = self.group.respond(key);
        self.tapped(handshake)
    }

    fn accepts(&self, peer: Option<&PublicKey>) -> bool {
        self.group.accepts(peer)
    }

    fn random(&mut self) -> [u8; TAG] {
        self.group.random()
    }
}

struct TappedHandshake {
    handshake: Box<dyn Handshake>,
    tap: Tap,
}

impl Handshake for TappedHandshake {
    fn write(&mut self, payload: &[u8], message: &mut Vec<u8>) -> Result<(), Rejected> {
        self.handshake.write(payload, message)
    }

    fn read(&mut self, message: &[u8], payload: &mut Vec<u8>) -> Result<(), Rejected> {
        self.handshake.read(message, payload)
    }

    fn peer(&self) -> Option<PublicKey> {
        self.handshake.peer()
    }

    fn finish(self: Box<Self>) -> SessionKeys {
        let SessionKeys { sealing, opening } = self.handshake.finish();
        let key = Arc::new(Mutex::new(sealing));
        SessionKeys { sealing: Box::new(TappedKey { key, tap: self.tap }), opening }
    }
}

struct TappedKey {
    key: Shared,
    tap: Tap,
}

impl Key for TappedKey {
    fn seal(&self, number: Number, header: &[u8], payload: &[u8], sealed: &mut [u8]) {
        seal(&self.key, number, header, payload, sealed);
        let Some(bytes) = header.first_chunk::<HEADER>() else { return };
        let is_data = Header::parse(header).is_ok_and(|header| header.kind == Kind::Data);
        let payload = if is_data { Vec::new() } else { payload.to_vec() };
        self.tap.put(Note { header: *bytes, number, payload, key: Arc::clone(&self.key) });
    }

    fn open(&self, _: Number, _: &[u8], _: &mut [u8]) -> bool {
        false
    }

    fn cipher(&self) -> &'static str {
        self.key.lock().unwrap_or_else(PoisonError::into_inner).cipher()
    }
}

pub(crate) fn seal(key: &Shared, number: Number, header: &[u8], payload: &[u8], sealed: &mut [u8]) {
    let key = key.lock().unwrap_or_else(PoisonError::into_inner);
    key.seal(number, header, payload, sealed);
}

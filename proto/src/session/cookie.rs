//! Cookies: bound the cost of handshakes when many are begun at once.
//!
//! Beside the path, in front of [`crate::session::handshake`]. An initiation makes its receiver compute two products on a curve
//! and keep a session for a while. As long as few arrive, the receiver answers them. When more arrive, it answers with a
//! cookie, which costs two hashes and no memory, and computes only for a sender that returns with a stamp made of it. The
//! stamp proves the sender's address. The cookie travels openly, but only the group can make a stamp.
//!
//! Invariant: the cost of all initiations in a second is bounded, however many arrive.
//! Source: `WireGuard`, Donenfeld, NDSS 2017, section 5.3; RFC 6347 (DTLS), 4.2.1.

use crate::security::{Security, TAG};
use crate::time::{Instant, nanos};
use core::net::{IpAddr, SocketAddr};
use core::time::Duration;

/// Initiations in a second that are answered without a stamp.
const UNSTAMPED: u32 = 64;
/// Initiations with a stamp that are answered in a second: their senders' addresses are proven.
const STAMPED: u32 = 512;
/// Cookies given in a second: an attacker gets no more of this node's work.
const COOKIES: u32 = 256;
/// A secret makes cookies for this time, and checks them for as long again.
const SECRET_FOR: Duration = Duration::from_secs(60);
/// The first byte of the input that is hashed for a cookie, or for a stamp; no cell begins so.
const PURPOSE_COOKIE: u8 = 0;
const PURPOSE_STAMP: u8 = 1;

/// Bytes that prove that their sender receives at its address.
pub(crate) type Cookie = [u8; TAG];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    Answer,
    /// Its sender must return with a stamp of this.
    Again(Cookie),
    Drop,
}

#[derive(Debug, Default)]
pub(crate) struct Cookies {
    /// The one in use, and the one before.
    secrets: Option<[[u8; TAG]; 2]>,
    changed: Instant,
    unstamped: TokenBucket,
    stamped: TokenBucket,
    given: TokenBucket,
}

impl Cookies {
    pub(crate) fn new(now: Instant) -> Self {
        Self {
            secrets: None,
            changed: now,
            unstamped: TokenBucket::new(now, UNSTAMPED),
            stamped: TokenBucket::new(now, STAMPED),
            given: TokenBucket::new(now, COOKIES),
        }
    }

    /// An initiation with a valid tag arrived `from` an address; `covered` is what its stamp covers.
    pub(crate) fn admit(
        &mut self,
        now: Instant,
        security: &mut dyn Security,
        from: SocketAddr,
        covered: &[u8],
        stamp: &[u8; TAG],
    ) -> Admission {
        if self.unstamped.take(now) {
            return Admission::Answer;
        }
        let secrets = self.secrets(now, security);
        let cookies = secrets.map(|secret| bake(security, &secret, from));
        let is_stamped = *stamp != [0; TAG]
            && cookies.iter().any(|cookie| security.tagged_by(&stamped(covered, cookie), stamp).is_some());
        if is_stamped {
            return if self.stamped.take(now) { Admission::Answer } else { Admission::Drop };
        }
        if self.given.take(now) { Admission::Again(cookies[0]) } else { Admission::Drop }
    }

    fn secrets(&mut self, now: Instant, security: &mut dyn Security) -> [[u8; TAG]; 2] {
        let old = self.secrets.filter(|_| now.since(self.changed) < 2 * SECRET_FOR);
        let secrets = match old {
            Some(secrets) if now.since(self.changed) < SECRET_FOR => return secrets,
            Some([current, _]) => [security.random(), current],
            None => [security.random(), security.random()],
        };
        self.changed = now;
        self.secrets = Some(secrets);
        secrets
    }
}

/// The stamp of a cell, made of a cookie that its receiver gave.
pub(crate) fn stamp(security: &dyn Security, covered: &[u8], cookie: &Cookie) -> [u8; TAG] {
    security.tag(0, &stamped(covered, cookie))
}

fn stamped(covered: &[u8], cookie: &Cookie) -> alloc::vec::Vec<u8> {
    [&[PURPOSE_STAMP], &cookie[..], covered].concat()
}

fn bake(security: &dyn Security, secret: &[u8; TAG], from: SocketAddr) -> Cookie {
    let address = match from.ip() {
        IpAddr::V4(address) => address.to_ipv6_mapped(),
        IpAddr::V6(address) => address,
    };
    security.tag(0, &[&[PURPOSE_COOKIE], &secret[..], &address.octets(), &from.port().to_be_bytes()].concat())
}

/// A token bucket: so many tokens in a second, as many at once.
#[derive(Debug, Default)]
struct TokenBucket {
    per_second: u32,
    /// When the bucket is full again.
    full_at: Instant,
}

impl TokenBucket {
    fn new(now: Instant, per_second: u32) -> Self {
        Self { per_second, full_at: now }
    }

    fn take(&mut self, now: Instant) -> bool {
        let one = Duration::from_secs(1) / self.per_second;
        let full_at = self.full_at.max(now) + one;
        let is_there = nanos(full_at.since(now)) <= 1_000_000_000;
        if is_there {
            self.full_at = full_at;
        }
        is_there
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_bucket_gives_so_many_at_once_and_in_a_second() {
        let at = |millis: u64| Instant::from_nanos(millis * 1_000_000);
        let mut bucket = TokenBucket::new(at(0), 64);
        assert_eq!((0..1_000).filter(|_| bucket.take(at(5_000))).count(), 64);
        assert_eq!((0..1_000).filter(|_| bucket.take(at(5_500))).count(), 32);
        assert_eq!((0..10_000).filter(|milli| bucket.take(at(5_500 + milli))).count() / 10, 63);
    }
}

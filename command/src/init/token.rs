//! The line that carries a bundle from its first machine to the others: key, name, network and what has to be the same.
//!
//! ```text
//!   tabane1: base64url of
//!     4 bytes   the first of SHA-256 of all that follows: a line that was cut off is noticed
//!     32 bytes  key of the group
//!     UTF-8     name, `sealed` or `none`, port, policy, MTU, address of the first machine or `-`: in this order, a space between two
//! ```
//!
//! Who has the line belongs to the group, as who has the key file.

use base64ct::{Base64UrlUnpadded, Encoding};
use tabane_io::tap::is_device_name;
use tabane_proto::PolicyKind;
use tabane_seal::sha256;
use zeroize::Zeroizing;

use tabane_config::key::Key;
use tabane_config::{Cidr, Mtu, Security};

const PREFIX: &str = "tabane1:";
/// Longest line that is read, in bytes; the longest that is written has some 200.
pub(super) const LINE_MAX: usize = 512;
const CHECK: usize = 4;
const KEY: usize = 32;

/// What a further machine has to know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Token {
    pub(super) name: String,
    pub(super) key: Key,
    pub(super) sealed: bool,
    pub(super) port: u16,
    pub(super) policy: PolicyKind,
    pub(super) mtu: Mtu,
    /// Address of the first machine's device, if it has one.
    pub(super) address: Option<Cidr>,
}

/// Why a line is no token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum TokenError {
    #[error("the line does not begin with `{PREFIX}`")]
    Prefix,
    #[error("the line is not whole")]
    Damaged,
    #[error("the line was made by another version")]
    Unknown,
}

impl Token {
    /// The line; it holds the key.
    pub(crate) fn line(&self) -> Zeroizing<String> {
        let address = self.address.as_ref().map_or_else(|| "-".to_owned(), ToString::to_string);
        let security = if self.sealed { Security::Sealed } else { Security::None }.name();
        let Token { name, port, policy, mtu, .. } = self;
        let words = format!("{name} {security} {port} {} {mtu} {address}", policy.name());
        Self::line_of(&Zeroizing::new([&self.key.0[..], words.as_bytes()].concat()))
    }

    /// The line of what follows the check.
    pub(crate) fn line_of(body: &[u8]) -> Zeroizing<String> {
        let whole = Zeroizing::new([&sha256(body)[..CHECK], body].concat());
        Zeroizing::new(format!("{PREFIX}{}", Base64UrlUnpadded::encode_string(&whole)))
    }

    /// Reads a line that [`Self::line`] has made.
    pub(crate) fn parse(line: &str) -> Result<Token, TokenError> {
        let text = line.trim().strip_prefix(PREFIX).ok_or(TokenError::Prefix)?;
        let whole =
            Base64UrlUnpadded::decode_vec(text).map(Zeroizing::new).map_err(|_| TokenError::Damaged)?;
        let (check, body) = whole.split_first_chunk::<CHECK>().ok_or(TokenError::Damaged)?;
        if sha256(body)[..CHECK] != check[..] {
            return Err(TokenError::Damaged);
        }
        let (key, words) = body.split_first_chunk::<KEY>().ok_or(TokenError::Damaged)?;
        let words = std::str::from_utf8(words).map_err(|_| TokenError::Unknown)?;
        Self::of_words(*key, words).ok_or(TokenError::Unknown)
    }

    fn of_words(key: [u8; KEY], words: &str) -> Option<Token> {
        let mut words = words.split(' ');
        let name = words.next().filter(|name| is_device_name(name))?.to_owned();
        let security = words.next()?;
        let sealed = security == Security::Sealed.name();
        if !sealed && security != Security::None.name() {
            return None;
        }
        let port = words.next()?.parse().ok().filter(|port| *port > 0)?;
        let policy = words.next()?.parse().ok()?;
        let mtu = words.next()?.parse().ok()?;
        let address = match words.next()? {
            "-" => None,
            address => Some(address.parse().ok()?),
        };
        Some(Token { name, key: Key(key), sealed, port, policy, mtu, address })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token() -> Token {
        Token {
            name: "tb0".to_owned(),
            key: Key([7; 32]),
            sealed: true,
            port: 7420,
            policy: PolicyKind::default(),
            mtu: Mtu::Auto,
            address: Some("10.9.0.1/24".parse().expect("an address")),
        }
    }

    #[test]
    fn a_line_is_read_as_what_was_written() {
        let open = Token { sealed: false, address: None, mtu: Mtu::Stated(1_500), ..token() };
        let ipv6 = Token { address: Some("fd00::1/64".parse().expect("an address")), ..token() };
        for token in [token(), open, ipv6] {
            let line = token.line();
            assert_eq!(Token::parse(&format!(" {}\n", line.as_str())), Ok(token));
            assert!(line.len() < 120, "{} characters are too many to paste", line.len());
        }
    }

    #[test]
    fn no_part_of_a_line_is_a_token() {
        let line = token().line();
        for end in 0..line.len() {
            assert!(Token::parse(&line[..end]).is_err(), "{end} characters");
        }
        for at in PREFIX.len()..line.len() {
            let mut other = line.as_bytes().to_vec();
            other[at] = if other[at] == b'A' { b'B' } else { b'A' };
            let other = String::from_utf8(other).expect("ASCII");
            assert!(other == *line || Token::parse(&other).is_err(), "character {at}");
        }
    }

    #[test]
    fn a_token_of_another_version_is_named_so() {
        let line = Token::line_of(&[&[7; 32][..], b"tb0 sealed 7420 fastest 1500 -"].concat());
        assert_eq!(Token::parse(&line), Err(TokenError::Unknown));
        assert_eq!(Token::parse("tabane2:AAAA"), Err(TokenError::Prefix));
    }
}

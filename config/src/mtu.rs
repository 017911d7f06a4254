//! The MTU of the device, as people write it: a number of bytes, or `auto`.

use std::fmt;
use std::str::FromStr;

use super::limits::MTU;
use super::problem::quoted;
use toml::Value;

/// The MTU of the device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mtu {
    /// What fits into the links' packets whole where programs in the kernel carry frames, else [`Mtu::ETHERNET`].
    #[default]
    Auto,
    /// So many bytes, 68 to 65,521.
    Stated(u16),
}

impl Mtu {
    /// That of Ethernet (RFC 894), in bytes.
    pub const ETHERNET: u16 = 1500;
    /// What [`Self::from_str`] takes, for error sentences.
    pub const ALLOWED: &str = "auto, or 68 to 65521 bytes (the maximum of a TAP device)";

    /// The MTU where what fits whole is `whole` bytes; `None`: nothing has to.
    pub fn bytes(self, whole: Option<u16>) -> u16 {
        match self {
            Self::Auto => whole.unwrap_or(Self::ETHERNET),
            Self::Stated(bytes) => bytes,
        }
    }

    pub fn toml(self) -> Value {
        match self {
            Self::Auto => "auto".into(),
            Self::Stated(bytes) => i64::from(bytes).into(),
        }
    }
}

impl FromStr for Mtu {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "auto" {
            return Ok(Self::Auto);
        }
        let bytes: i64 = text.parse().map_err(|_| format!("{} is unknown", quoted(text)))?;
        let stated = u16::try_from(bytes).ok().filter(|_| MTU.hold(bytes)).map(Self::Stated);
        stated.ok_or_else(|| format!("{bytes} is out of range"))
    }
}

impl fmt::Display for Mtu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::Stated(bytes) => bytes.fmt(f),
        }
    }
}

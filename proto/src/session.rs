//! Who is let in, and what is secret.

pub(crate) mod cookie;
pub(crate) mod expiry;
pub(crate) mod handshake;
pub(crate) mod keyring;
pub(crate) mod replay;
pub(crate) mod seal;
pub mod security;

//! The configuration of a bundle: what was typed ([`settings::Settings`]), and what follows from it ([`Config`]).
//!
//! ```text
//!   file.rs   TOML ──┐   (table.rs takes it apart)
//!                    ├─ Settings ── resolve.rs, links.rs, classes.rs ── Config ── print.rs ── TOML
//!   flags ───────────┘                                                    └────── difference.rs ── sentences
//! ```
//!
//! The tables of `keys.rs` (the bundle and its offloads), `links/keys.rs` and `classes.rs` hold the keys and all that is known of each; every
//! step above goes through them, and so do the flags of `tabane up`, `tabane save` and the reference (`reference.rs`).
//!
//! A [`Config`] exists only when every rule holds. Printed, it is TOML that reads back as the same [`Config`].
//!
//! The rule of this crate: of the machine it asks nothing but the files that the user names, and it knows no daemon.

#![forbid(unsafe_code)]

pub mod address;
pub mod classes;
mod config;
pub mod difference;
pub mod file;
pub mod form;
pub mod key;
pub mod keys;
pub mod limits;
pub mod links;
mod mtu;
mod print;
pub mod problem;
mod rate;
pub mod reference;
pub mod resolve;
pub mod rule;
pub mod settings;
mod table;
#[cfg(test)]
mod tests;
pub mod units;
mod window;

pub use address::{Cidr, Peer};
pub use classes::parse_class;
pub use config::{
    Access, Config, DataPath, EtherConfig, FixedConfig, LinkConfig, LiveConfig, Offload, PORT, Ports,
    Reordering, Security, read,
};
pub use links::{LinkChange, link_name, parse_change, parse_link};
pub use mtu::Mtu;
pub use rate::LinkRate;
pub use resolve::parse_allow;
pub use units::print_fragments;
pub use window::{WindowConfig, names_window};

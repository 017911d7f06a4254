//! The wire format: what the bytes of a cell mean. `docs/wire.md` is the specification, with golden bytes.
//!
//! All integers are big-endian, except the virtio header inside a record, which is little-endian as the kernel
//! takes it. Parsers never panic, whatever the bytes: they return [`Malformed`].

pub mod cell;
mod fields;
pub mod handshake;
pub mod heartbeat;
pub mod hello;
pub(crate) mod numbered;
pub mod record;
pub mod repair;

/// The bytes of the block `golden NAME` of the specification: hexadecimal, up to the `;` of each line.
#[cfg(test)]
fn golden(name: &str) -> alloc::vec::Vec<u8> {
    let (_, block) =
        include_str!("../../docs/wire.md").split_once(&std::format!("```golden {name}\n")).unwrap();
    let lines = block.lines().take_while(|line| *line != "```");
    let digits = lines.flat_map(|line| line.split(';').next().unwrap().split_whitespace());
    digits.map(|byte| u8::from_str_radix(byte, 16).unwrap()).collect()
}

/// Why bytes were refused. Every refusal is counted by its reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Malformed {
    /// Fewer bytes than the fixed part needs.
    Truncated,
    /// Another version of the format.
    Version,
    /// A kind of cell or record that this version does not know.
    Kind,
    /// A field holds a value that it may not hold.
    Field,
}

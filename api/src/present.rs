//! Which bundles are up in this network namespace: the kernel lists the sockets that they listen on.
//!
//! Source: `/proc/net/unix` (proc_net(5)); flag 0x10000 (`__SO_ACCEPTCON`) marks a socket that listens.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Read, Seek};

use tabane_io::tap::is_device_name;

use crate::connection::{AskError, connect_at_once};

const SOCKETS: &str = "/proc/self/net/unix";
/// Names that are asked: any user may take many.
const NAMES_MAX: usize = 256;
/// Of a socket that listens.
const LISTENS: u32 = 0x1_0000;

/// The kernel's list, kept open for who gives the right to open files up before it asks.
#[derive(Debug)]
pub struct Present(File);

impl Present {
    /// Opens the list of the network namespace that this process is in.
    pub fn open() -> io::Result<Self> {
        Ok(Self(File::open(SOCKETS)?))
    }

    /// As [`present`], now.
    pub fn names(&mut self) -> io::Result<Vec<String>> {
        let mut sockets = Vec::new();
        self.0.rewind()?;
        self.0.read_to_end(&mut sockets)?;
        let names = names(&sockets).into_iter().take(NAMES_MAX);
        Ok(names.filter(|name| connect_at_once(name).is_ok()).collect())
    }
}

/// The names of all bundles that are up here, sorted; without those of users whom a command does not ask.
pub fn present() -> io::Result<Vec<String>> {
    Present::open()?.names()
}

/// The bundle that a command means: the one that is named, else the only one that is up.
pub fn meant(name: Option<String>) -> Result<String, AskError> {
    if let Some(name) = name {
        return Ok(name);
    }
    let mut names = present()?;
    match (names.pop(), names.is_empty()) {
        (Some(only), true) => Ok(only),
        (Some(last), false) => Err(AskError::Several { names: [names, vec![last]].concat() }),
        (None, _) => Err(AskError::NoneUp),
    }
}

/// The names in the list; a socket's name may be any bytes.
fn names(sockets: &[u8]) -> BTreeSet<String> {
    let lines = sockets.split(|byte| *byte == b'\n').filter_map(|line| std::str::from_utf8(line).ok());
    lines.filter_map(name).map(str::to_owned).collect()
}

fn name(line: &str) -> Option<&str> {
    let mut words = line.split_whitespace();
    let flags = u32::from_str_radix(words.nth(3)?, 16).ok()?;
    let path = words.nth(3)?;
    path.strip_prefix("@tabane/").filter(|name| flags & LISTENS != 0 && is_device_name(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_sockets_that_listen_name_a_bundle() {
        let sockets = "\
Num       RefCount Protocol Flags    Type St Inode Path
0000000000000000: 00000002 00000000 00010000 0001 01 20101 @tabane/tb1
0000000000000000: 00000003 00000000 00000000 0001 03 20102 @tabane/tb0
0000000000000000: 00000002 00000000 00010000 0001 01 20103 @tabane/tb0
0000000000000000: 00000002 00000000 00010000 0001 01 20104 /run/tabane/tb2
0000000000000000: 00000002 00000000 00010000 0001 01 20105
rubbish
";
        let sockets =
            [b"0000: 00000002 00000000 00010000 0001 01 20099 @\xff\n", sockets.as_bytes()].concat();
        assert_eq!(names(&sockets).into_iter().collect::<Vec<_>>(), ["tb0", "tb1"]);
    }
}

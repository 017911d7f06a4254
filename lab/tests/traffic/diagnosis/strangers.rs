//! Two nodes that hear each other and are no peers.

use std::io::Write;

use anyhow::Result;
use tabane_kit::bundle::{Bundle, DEVICE, Options, Protection};
use tabane_kit::topology::Topology;

use super::{doctor, named};
use crate::stage::{FAST, options, options_with, plan};
use crate::{Case, Need};

/// A key that the other node does not have.
const OTHER_KEY: &str = "6f74686572206b657973206f70656e206f7468657220646f6f72732e2e2e2e2e";

pub(crate) fn cases() -> Vec<Case> {
    vec![Case::new("doctor_names_why_two_nodes_are_no_peers", Need::Daemon, strangers)]
}

fn strangers() -> Result<()> {
    let topology = Topology::build(plan(&[FAST; 2]))?;
    let mut file = tempfile::NamedTempFile::new()?;
    writeln!(file, "{OTHER_KEY}")?;
    let other_key = Options { protection: Protection::KeyFile(file.path().to_owned()), ..options()? };
    let plain = Options { protection: Protection::None, ..options()? };
    let other_port = options_with(&["--port", "7500"])?;
    let usual = options()?;
    for (fault, here, there) in [
        ("another key at the other node", &usual, &other_key),
        ("the other node does not seal", &usual, &plain),
        ("this node does not seal, the other does", &plain, &usual),
        ("another port at the other node", &usual, &other_port),
    ] {
        let start =
            |host: usize, options| Bundle::start(topology.host(host), host, &topology.nics(), options);
        let mut bundles = [start(0, here)?, start(1, there)?];
        for bundle in &mut bundles {
            bundle.wait_until("a bundle that answers", |_| true)?;
        }
        named(fault, "doctor", &doctor(topology.host(0), &[DEVICE])?)?;
        Bundle::stop_all(bundles)?;
    }
    Ok(())
}

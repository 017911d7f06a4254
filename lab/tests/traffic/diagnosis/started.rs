//! Faults that are there before two nodes start: they do not meet, or one link never works, or the bundle was told to do without
//! something.

use std::io::Write;

use tempfile::NamedTempFile;

use super::bundle::{BROKEN, CLOSED, hook};
use super::{ANSWER_WITHIN, Group, Way, doctor, named};
use crate::traffic::stage::*;

const OTHER_KEY: &str = "6f74686572206b657973206f70656e206f7468657220646f6f72732e2e2e2e2e";

struct Fault {
    /// As the page calls it, and what names it.
    fault: &'static str,
    name: &'static str,
    /// What the first line of `tabane status` says, where it names the fault.
    status: &'static str,
    plant: fn(&Topology) -> Result<()>,
    here: Node,
    there: Option<Node>,
    meet: usize,
}

#[derive(Clone, Copy)]
struct Node {
    key: Key,
    nics: [&'static str; LINKS],
    arguments: &'static [&'static str],
}

#[derive(Clone, Copy)]
enum Key {
    Group,
    Other,
    None,
}

const USUAL: Node = Node { key: Key::Group, nics: ["eth1", "eth2"], arguments: &[] };
const STRANGERS: Fault = Fault {
    fault: "another key at the other node",
    name: "stranger",
    status: "",
    plant: |_| Ok(()),
    here: USUAL,
    there: Some(Node { key: Key::Other, ..USUAL }),
    meet: 0,
};

const FAULTS: [Fault; 10] = [
    Fault { status: "has another key; give both nodes the same key file", ..STRANGERS },
    Fault {
        fault: "the other node does not seal",
        status: "does not seal and this node does; set the same `security` on both",
        there: Some(Node { key: Key::None, ..USUAL }),
        ..STRANGERS
    },
    Fault {
        fault: "this node does not seal, the other does",
        status: "seals and this node does not",
        here: Node { key: Key::None, ..USUAL },
        there: Some(USUAL),
        ..STRANGERS
    },
    Fault {
        fault: "another port at the other node",
        name: "other-port",
        status: "no greeting has come: is the other node up, on the same port, ",
        there: Some(Node { arguments: &["--port", "7500"], ..USUAL }),
        ..STRANGERS
    },
    Fault {
        fault: "two workers at the other node",
        name: "peer-refused",
        status: "it runs 2 workers and this node 1",
        there: Some(Node { arguments: &["--workers", "2"], ..USUAL }),
        ..STRANGERS
    },
    Fault { fault: "no other node", name: "nobody", there: None, ..STRANGERS },
    Fault {
        fault: "UDP port closed by nftables at all NICs",
        name: "greetings-blocked",
        plant: |topology| hook(topology.host(0), "inet", "input", CLOSED),
        there: Some(USUAL),
        ..STRANGERS
    },
    Fault {
        fault: "a switch that never carried anything",
        name: "no-path",
        plant: |topology| topology.kill_switch(BROKEN).map(drop),
        there: Some(USUAL),
        meet: 1,
        ..STRANGERS
    },
    Fault {
        fault: "a bundle without GSO",
        name: "gso-off",
        here: Node { arguments: &["--no-gso"], ..USUAL },
        there: Some(USUAL),
        meet: LINKS,
        ..STRANGERS
    },
    Fault {
        fault: "a bundle without GRO",
        name: "gro-off",
        here: Node { arguments: &["--no-gro"], ..USUAL },
        there: Some(USUAL),
        meet: LINKS,
        ..STRANGERS
    },
];

pub(super) fn groups() -> Vec<Group> {
    let faults = FAULTS.iter().map(|fault| (fault.fault, fault.name));
    // Exercises: up --insecure --port --key
    vec![Group::new("doctor", "what_is_wrong_from_the_beginning", faults, Way::BOTH, |way| {
        FAULTS.iter().try_for_each(|fault| fault.run(way))
    })]
}

impl Fault {
    fn run(&self, way: Way) -> Result<()> {
        let topology = Topology::build(plan(&[FAST; LINKS]))?;
        (self.plant)(&topology)?;
        let mut other_key = NamedTempFile::new()?;
        writeln!(other_key, "{OTHER_KEY}")?;
        let start = |(host, node): (usize, &Node)| {
            Bundle::start(topology.host(host), host, &node.links(way), &node.options(way, &other_key)?)
        };
        let nodes = [&self.here].into_iter().chain(&self.there).enumerate();
        let mut bundles = nodes.map(start).collect::<Result<Vec<_>>>()?;
        for bundle in &mut bundles {
            bundle.wait_until("a bundle that answers", |status| {
                self.meet == 0 || status.is_ready(1, self.meet)
            })?;
        }
        if self.meet > 0 && way == Way::Programs {
            Bundle::wait_for_programs(&mut bundles)?;
        }
        wait_for("what is wrong", ANSWER_WITHIN, || {
            let said = bundles[0].ask(&["status", DEVICE, "-v"])?;
            let first = said.lines().next().unwrap_or_default();
            Ok((self.status.is_empty() || first.contains("NO PEER") && first.contains(self.status))
                .then_some(()))
        })?;
        named(self.fault, "doctor", &doctor(topology.host(0), &[DEVICE])?)?;
        Bundle::stop_all(bundles)
    }
}

impl Node {
    /// Sealed bundles take the kernel path over links that something else protects.
    fn links(&self, way: Way) -> Vec<String> {
        let protected = if way == Way::Programs { ",protected" } else { "" };
        self.nics.iter().map(|nic| format!("{nic}{protected}")).collect()
    }

    fn options(&self, way: Way, other_key: &NamedTempFile) -> Result<Options> {
        let path: &[&str] =
            if way == Way::Programs { &["--data-path", "auto", "--policy", "hash"] } else { &[] };
        let protection = match self.key {
            Key::Group => Protection::LabKey,
            Key::Other => Protection::KeyFile(other_key.path().to_owned()),
            Key::None => Protection::None,
        };
        Ok(Options { protection, ..options_with(&[self.arguments, path].concat())? })
    }
}

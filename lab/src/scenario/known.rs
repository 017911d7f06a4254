//! The experiments of the lab that are scenarios: a command each, whose file is part of this program.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::Subcommand;

use super::{Experiment, Manner};

/// Makes [`Known`] of a table: what it is in a sentence, its variant, its name.
macro_rules! known {
    ($($(#[doc = $doc:literal])* $variant:ident: $name:literal;)*) => {
        /// An experiment that is a scenario.
        #[derive(Clone, Debug, Subcommand)]
        pub enum Known {
            $($(#[doc = $doc])* #[command(name = $name)] $variant(Manner),)*
        }

        impl Known {
            /// Its name, its text, and how it is run.
            const fn parts(&self) -> (&'static str, &'static str, &Manner) {
                match self {
                    $(Known::$variant(manner) =>
                        ($name, include_str!(concat!("../../experiments/", $name, ".toml")), manner),)*
                }
            }
        }
    };
}

known! {
    /// TCP and QUIC over two links of unequal rate and delay, beside the best of them alone: about 14 minutes
    Aggregate: "aggregate";
    /// nginx, PostgreSQL, Redis and nfs-ganesha over one link, over two, and while a switch dies: about 10 minutes
    Apps: "apps";
    /// What a failing link costs: faults x links x repair, with TCP and UDP under way: about 20 minutes
    Failover: "failover";
    /// The kernel path's striping with its reorder qdisc and without, beside bonding and cells, in a guest: about 25 minutes
    Kernel: "kernel";
    /// TCP over links that lose frames at random: bare, and bundled without and with repair: about 12 minutes
    Loss: "loss";
    /// All hosts of a bundle send to all others at once while a switch is alive, dead and alive again
    Mesh: "mesh";
    /// The lab's wire emulator beside netem, in a guest: delay, rate, loss; about 12 minutes
    Netem: "netem";
    /// Bonding, team, MPTCP and bundles side by side in a guest, MPTCP and bundles on this machine: about an hour
    Rivals: "rivals";
    /// TCP over links whose queues stand in routers behind the NICs, unequal ones too: about 40 minutes
    Routers: "routers";
    /// What a page, a scrape each second and `top` cost a bundle: pairs with and without, about 4 minutes
    Watching: "watching";
    /// A VLAN on the device beside the device itself, in a guest; about 6 minutes
    Vlan: "vlan";
}

impl Known {
    /// Runs it.
    pub fn run(&self) -> Result<ExitCode> {
        let (name, text, manner) = self.parts();
        let json = PathBuf::from(format!("target/lab/{name}.json"));
        let (name, file, text) = (name.to_string(), format!("{name}.toml"), text.to_string());
        Experiment { name, file, text, json, manner }.run()
    }
}

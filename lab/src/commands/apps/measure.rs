//! The loads over every path.

use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use anyhow::Result;

use super::summary::key;
use tabane_kit::bundle::{self, Bundle};
use tabane_kit::progress;
use tabane_kit::rate::Bitrate;
use tabane_kit::report::Report;
use tabane_kit::topology::{LinkPlan, Plan, Topology, address};
use tabane_kit::workload::web::File;
use tabane_kit::workload::{database, ganesha, store, web};

/// Rate of each of the two links.
pub(super) const LINK_RATE: Bitrate = Bitrate::mbit(1_000);
/// Clients at once.
pub(super) const CLIENTS: u16 = 8;
/// The link whose switch dies.
const VICTIM: usize = 1;

/// How the loads are measured.
pub(super) struct Bench {
    /// The executable `tabane`.
    pub(super) daemon: PathBuf,
    pub(super) rounds: usize,
    /// Length of each load.
    pub(super) seconds: u32,
    pub(super) seed: u64,
}

/// What listens on the second host.
struct Servers {
    _web: web::Server,
    _database: database::Server,
    _store: store::Server,
    files: ganesha::Server,
}

/// What clients do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Job {
    Fetch(File),
    Transact,
    Set,
    Read,
}

/// What carries the frames of the bundle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Carrier {
    /// Sealed cells.
    Cells,
    /// Programs in the kernel.
    Programs,
}

impl Job {
    const ALL: [Job; 5] =
        [Job::Fetch(File::Large), Job::Fetch(File::Small), Job::Transact, Job::Set, Job::Read];

    /// The unit of what is measured of it.
    pub(super) fn unit(self) -> &'static str {
        match self {
            Job::Fetch(File::Large) | Job::Read => "Mbit/s",
            Job::Fetch(File::Small) | Job::Transact | Job::Set => "1/s",
        }
    }
}

impl fmt::Display for Job {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Job::Fetch(File::Large) => "nginx, 16 MiB files",
            Job::Fetch(File::Small) => "nginx, 1 KiB files",
            Job::Transact => "PostgreSQL, TPC-B",
            Job::Set => "Redis, SET",
            Job::Read => "nfs-ganesha, a 16 MiB file",
        })
    }
}

impl fmt::Display for Carrier {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Carrier::Cells => "cells",
            Carrier::Programs => "kernel",
        })
    }
}

/// A job by a carrier.
pub(super) type Load = (Carrier, Job);

/// The paths of each load: one link, the bundle, and the bundle one switch of which is dead for the second third of the time.
pub(super) const PATHS: [&str; 3] = ["link", "bundle", "outage"];

impl Bench {
    /// Measures every job over every path, with each carrier; returns how many requests or transactions of each failed.
    pub(super) fn run(&self, report: &mut Report) -> Result<Vec<(Load, u64)>> {
        let topology = Topology::build(Plan::two_hosts(vec![LinkPlan::shaped(LINK_RATE); 2]))?;
        let server = topology.host(1);
        let servers = Servers {
            _web: web::Server::start(server)?,
            _database: {
                let _step = progress::step("filling a database");
                database::Server::start(server)?
            },
            _store: store::Server::start(server)?,
            files: ganesha::Server::start(server, self.seed)?,
        };
        let mut failed = Vec::new();
        for carrier in [Carrier::Cells, Carrier::Programs] {
            let bundles = self.start(&topology, carrier)?;
            for job in Job::ALL {
                let load = (carrier, job);
                failed.push((load, self.measure(&topology, &servers, load, report)?));
            }
            Bundle::stop_all(bundles)?;
        }
        Ok(failed)
    }

    fn start<'a>(&self, topology: &'a Topology, carrier: Carrier) -> Result<Vec<Bundle<'a>>> {
        if carrier == Carrier::Cells {
            return Bundle::start_all(topology, &bundle::Options::new(&self.daemon));
        }
        let mut bundles = Bundle::start_all(topology, &bundle::Options::by_programs(&self.daemon, "kernel"))?;
        Bundle::wait_for_programs(&mut bundles)?;
        Ok(bundles)
    }

    /// Measures a load over every path; returns how much of it failed.
    fn measure(
        &self,
        topology: &Topology,
        servers: &Servers,
        load: Load,
        report: &mut Report,
    ) -> Result<u64> {
        let (carrier, job) = load;
        let mut failed = 0;
        for round in 1..=self.rounds {
            let what = format!("{carrier}: {job}, round {round} of {}", self.rounds);
            let _step = progress::step(&what);
            for path in PATHS {
                let server = if path == "link" { address(0, 1).into() } else { bundle::address(1) };
                let (speed, failures) = self.load(topology, servers, (job, server), path == "outage")?;
                report.push(format!("{}.{path}", key(load)), job.unit(), speed);
                failed += failures;
            }
        }
        Ok(failed)
    }

    /// One load of a server at an address; returns how fast it was, and how much failed.
    fn load(
        &self,
        topology: &Topology,
        servers: &Servers,
        (job, server): (Job, IpAddr),
        with_outage: bool,
    ) -> Result<(f64, u64)> {
        let client = topology.host(0);
        match job {
            Job::Fetch(file) => {
                let load = web::Load::start(client, server, file, CLIENTS, self.seconds)?;
                self.meanwhile(topology, with_outage)?;
                let outcome = load.finish()?;
                let speed = if file == File::Large { outcome.mbps() } else { outcome.rate() };
                Ok((speed, outcome.failed))
            }
            Job::Transact => {
                let load = database::Load::start(client, server, CLIENTS, self.seconds)?;
                self.meanwhile(topology, with_outage)?;
                let outcome = load.finish()?;
                Ok((outcome.rate, outcome.failed))
            }
            Job::Set => {
                let load = store::Load::start(client, server, CLIENTS, self.seconds)?;
                self.meanwhile(topology, with_outage)?;
                Ok((load.finish()?, 0))
            }
            Job::Read => {
                let load = servers.files.load(client, server, CLIENTS, self.seconds)?;
                self.meanwhile(topology, with_outage)?;
                let outcome = load.finish();
                Ok((outcome.mbps, outcome.failed))
            }
        }
    }

    fn meanwhile(&self, topology: &Topology, with_outage: bool) -> Result<()> {
        if with_outage {
            let third = Duration::from_secs(self.seconds.into()) / 3;
            thread::sleep(third);
            topology.kill_switch(VICTIM)?;
            thread::sleep(third);
            topology.revive_switch(VICTIM)?;
        }
        Ok(())
    }
}

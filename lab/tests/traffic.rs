//! Real traffic through real bundles in network namespaces: exact contents, exact counts.
//!
//! Every trial builds its own topology, starts the program `tabane` (`TABANE_BIN`, else the one that cargo builds first) on its
//! hosts, and checks in the end that all of it stops cleanly. `cargo nextest` runs each as a process of its own, in a
//! sandbox of its own, several side by side; those whose names begin with `alone::` judge what the processors decide, and have
//! them to themselves, those that begin with `calm::` nearly so. In one process trials run one at a time, for they share the names of the namespaces. Where trials cannot
//! run they are reported as ignored, with the reason.

mod addresses;
mod beside;
mod changes;
mod classes;
mod configured;
mod data_path;
mod datagrams;
mod device;
mod diagnosis;
mod engines;
mod ether;
mod experiments;
mod faults;
mod fits_in;
mod fleet;
mod forwarded;
mod frames;
pub(crate) mod fresh;
mod kernels;
mod lab;
mod live;
mod macsec;
mod metrics;
mod narrow;
mod nics;
mod package;
mod page;
mod probe;
mod reorder;
mod routed;
mod scenario;
mod screens;
mod service;
mod settings;
mod sites;
mod stage;
mod streams;
mod systemd;
mod terminal;
mod top;
mod traces;
mod upgrade;
mod window;
mod without;

use anyhow::Result;

use crate::case::Case;

/// What this program does in place of testing, when it runs in a guest.
pub(crate) fn in_guest() -> Option<Result<()>> {
    reorder::in_guest()
}

pub(crate) fn cases() -> Vec<Case> {
    let groups = [
        experiments::cases(),
        lab::cases(),
        streams::cases(),
        probe::cases(),
        datagrams::cases(),
        device::cases(),
        diagnosis::cases(),
        kernels::cases(),
        beside::cases(),
        forwarded::cases(),
        addresses::cases(),
        faults::cases(),
        fits_in::cases(),
        fleet::cases(),
        frames::cases(),
        macsec::cases(),
        changes::cases(),
        live::cases(),
        metrics::cases(),
        classes::cases(),
        configured::cases(),
        data_path::cases(),
        engines::cases(),
        narrow::cases(),
        nics::cases(),
        package::cases(),
        page::cases(),
        reorder::cases(),
        routed::cases(),
        scenario::cases(),
        screens::cases(),
        service::cases(),
        settings::cases(),
        sites::cases(),
        systemd::cases(),
        top::cases(),
        traces::cases(),
        upgrade::cases(),
        window::cases(),
        without::cases(),
        ether::cases(),
    ];
    groups.into_iter().flatten().collect()
}

//! Programs over MPI: each rank sits on a host of its own, though no host has a server to let it in.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Result, ensure};
use tabane_kit::rate::Bitrate;
use tabane_kit::topology::{LinkPlan, Plan, Topology, address};
use tabane_kit::workload::mpi::Mpi;

use crate::{Case, Need};

pub(crate) fn cases() -> Vec<Case> {
    vec![Case::new("mpi_ranks_sit_on_their_hosts", Need::Mpirun, ranks)]
}

fn ranks() -> Result<()> {
    let links = vec![LinkPlan::shaped(Bitrate::gbit(1))];
    let topology = Topology::build(Plan { hosts: 3, ..Plan::two_hosts(links) })?;
    let mpi = Mpi::over(&topology, address(0, 0).into())?;
    fs::write(mpi.directory().join("where"), "ip -oneline -4 address show dev eth1")?;
    let output = mpi.run(Path::new("sh"), &["where"], Duration::from_secs(30))?.success("mpirun")?;
    ensure!(output.lines().count() == 3, "{output}");
    for host in 0..3 {
        ensure!(output.contains(&format!(" {}/24 ", address(0, host))), "no rank on host {host}: {output}");
    }
    Ok(())
}

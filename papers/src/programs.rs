//! P3.mpi: what parallel programs exchange, by 4 ranks, and files by NFS, through a window of memory and over gigabit Ethernet.
//!
//! The paper expects MPI to gain (section 7), and measures no program. As in P2, the exchange of the NAS Parallel Benchmarks is
//! replayed. The server of NFS is nfs-ganesha, for the kernel may have none.

use tabane_kit::workload::app::App;
use tabane_kit::workload::ganesha;

use super::memory::Hosts;
use super::parallel::{ALIKE, GAINS, list, speeds};
use super::swept;
use crate::prelude::*;
use crate::workload::exchange::{Class, Kernel};

const HOSTS: usize = 4;
const MTU: u32 = 1_500;
const CLIENTS: u16 = 4;
const NFS: &str = "NFS";
const SEED: u64 = 1;

type Seen = Vec<(&'static str, Samples)>;

pub(super) fn run(setting: &Setting) -> Result<Outcome> {
    let (mut over_ethernet, mut over_memory) = (Seen::new(), Seen::new());
    let hosts = Hosts { count: HOSTS, ..Hosts::two() };
    for round in 1..=setting.rounds {
        let _step = progress::step(&format!("round {round}"));
        let topology = swept::ethernet_hosts(HOSTS, MTU)?;
        let addresses: Vec<IpAddr> = (0..HOSTS).map(|host| address(0, host).into()).collect();
        see(setting, &topology, &addresses, &mut over_ethernet)?;
        drop(topology);
        let addresses: Vec<IpAddr> = (0..HOSTS).map(bundle::address).collect();
        hosts.measure(setting, |topology| see(setting, topology, &addresses, &mut over_memory))?;
    }
    let mut outcome = Outcome::default();
    let mut ratios = Vec::new();
    for ((name, ethernet), (_, memory)) in over_ethernet.into_iter().zip(over_memory) {
        let ratio = times(&memory, &ethernet);
        ratios.push((name.to_string(), ratio.clone()));
        outcome.own(format!("{name}: Ethernet"), ethernet);
        outcome.own(format!("{name}: memory"), memory);
        outcome.own(format!("{name}: memory beside Ethernet"), ratio);
    }
    judge(&mut outcome, &ratios);
    Ok(outcome)
}

fn see(setting: &Setting, topology: &Topology, addresses: &[IpAddr], seen: &mut Seen) -> Result<()> {
    let mut add = |name, unit, speed| match seen.iter_mut().find(|(known, _)| *known == name) {
        Some((_, samples)) => samples.push(speed),
        None => seen.push((name, Samples::new(unit, vec![speed]))),
    };
    for (kernel, speed) in speeds(topology, addresses, Class::A)? {
        add(kernel.name(), "per second", speed);
    }
    let _step = progress::step(NFS);
    let server = App::Files.serve(topology.host(1), SEED)?;
    let read = ganesha::load(&server, topology.host(0), addresses[1], CLIENTS, setting.seconds)?.finish();
    ensure!(read.failed == 0, "{} clients of NFS failed", read.failed);
    add(NFS, "Mbit/s", read.speed);
    Ok(())
}

fn judge(outcome: &mut Outcome, ratios: &[(String, Samples)]) {
    let (computing, rest): (Vec<_>, Vec<_>) =
        ratios.iter().cloned().partition(|(name, _)| name == Kernel::Ep.name());
    let (files, exchanging): (Vec<_>, Vec<_>) = rest.into_iter().partition(|(name, _)| name == NFS);
    let gain = |ratios: &[(String, Samples)]| ratios.iter().all(|(_, ratio)| ratio.median() >= GAINS);
    outcome.finding(
        "7: MPI gains by the NIC in a memory slot",
        gain(&exchanging),
        list("gigabit Ethernet", &exchanging),
    );
    outcome.finding(
        "files by NFS come faster through memory",
        gain(&files),
        list("gigabit Ethernet", &files),
    );
    outcome.finding(
        "what only computes is as fast through memory as over Ethernet",
        computing.iter().all(|(_, ratio)| (ratio.median() - 1.0).abs() <= ALIKE),
        list("gigabit Ethernet", &computing),
    );
}

//! Real traffic through real bundles in network namespaces: exact contents, exact counts.
//!
//! Every trial builds its own topology, starts the program `tabane` (`TABANE_BIN`, else the one that cargo builds first) on its
//! hosts, and checks in the end that all of it stops cleanly. `cargo nextest` runs each as a process of its own, in a
//! sandbox of its own, several side by side; those whose names begin with `alone::` judge what the processors decide, and have
//! them to themselves. In one process trials run one at a time, for they share the names of the namespaces. Where trials cannot
//! run they are reported as ignored, with the reason.

mod addresses;
mod beside;
mod bridge;
mod carrier;
mod changes;
mod classes;
mod configured;
mod data_path;
mod datagrams;
mod device;
mod diagnosis;
mod emulator;
mod engines;
mod ether;
mod experiments;
mod faults;
mod fits_in;
mod fleet;
mod forwarded;
mod frames;
pub(crate) mod fresh;
mod jumbo;
mod kernels;
mod lab;
mod live;
mod loads;
mod macsec;
mod metrics;
mod moved;
mod narrow;
mod neighbours;
mod nics;
mod package;
mod page;
mod parallel;
mod policies;
mod probe;
mod reorder;
mod restart;
mod routed;
mod scenario;
mod screens;
mod service;
mod settings;
mod sites;
mod slow_peer;
mod stage;
mod streams;
mod systemd;
mod terminal;
mod top;
mod traces;
mod upgrade;
mod versions;
mod vlan;
mod window;
mod without;
mod workers;

use std::env;
use std::path::Path;

use anyhow::Result;
use libtest_mimic::Trial;
use tabane_io::trial::trial;
use tabane_kit::prerequisites::{
    CNI_MACVLAN, DNSMASQ, ETCD, ETCDCTL, ETHTOOL, IPERF3, MPIRUN, NFT, SETPRIV, STRACE, SYSTEMD, TCPDUMP,
    TMUX, TSHARK, Tool, require_daemon, require_priority, require_tools, require_xdp,
};
use tabane_kit::{bundle, prometheus};

/// The names of trials begin so that have the processors to themselves; `.config/nextest.toml` sees to it.
const ALONE: &str = "alone::";
/// The names of trials begin so that `make test` leaves to `make test-all`: guests, browsers, packages, and what takes minutes.
const NIGHTLY: &str = "nightly::";

/// A named trial and what it needs besides the sandbox.
struct Case {
    name: String,
    needs: Need,
    test: Box<dyn FnOnce() -> Result<()> + Send>,
}

/// What a trial needs.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Need {
    Nothing,
    Daemon,
    DaemonAndTcpdump,
    DaemonBefore,
    DaemonBeforeAndPrograms,
    DaemonAndCni,
    DaemonAndIperf,
    DaemonAndDns,
    DaemonAndEtcd,
    DaemonAndEthtool,
    DaemonAndXdp,
    DaemonAndMpirun,
    DaemonAndNat,
    DaemonAndNft,
    DaemonAndPriority,
    DaemonAndPrograms,
    DaemonAndPrometheus,
    DaemonAndSystemd,
    DaemonAndSystemdAndEtcd,
    Package,
    DaemonAndTshark,
    DaemonAndTmux,
    DaemonAndBrowser,
    DaemonAndWeb,
    Diagnosis,
    DiagnosisByPrograms,
    WebAndPrometheus,
    WebAndSystemd,
    DaemonAndSetpriv,
    Kubernetes,
    Mpirun,
    NewGuest,
    NewGuestAndMinutes,
    GuestAndMinutes(&'static str),
}

impl Case {
    fn new(name: impl Into<String>, needs: Need, test: impl FnOnce() -> Result<()> + Send + 'static) -> Case {
        Case { name: name.into(), needs, test: Box::new(test) }
    }

    /// A trial that judges what the processors decide: nothing else runs beside it.
    fn alone(
        name: impl Into<String>,
        needs: Need,
        test: impl FnOnce() -> Result<()> + Send + 'static,
    ) -> Case {
        Case::new(format!("{ALONE}{}", name.into()), needs, test)
    }

    /// A trial that takes minutes: `make test-all` runs it, alone.
    fn nightly(
        name: impl Into<String>,
        needs: Need,
        test: impl FnOnce() -> Result<()> + Send + 'static,
    ) -> Case {
        Case::new(format!("{NIGHTLY}{}", name.into()), needs, test)
    }

    /// The trial, ignored when something is missing.
    fn trial(self, missing: impl Fn(Need) -> Option<String>) -> Trial {
        let Case { name, needs, test } = self;
        trial(&name, missing(needs).as_deref(), || Ok(test().map_err(|error| format!("{error:#}"))?))
    }
}

/// What this program does in place of testing, when it runs in a guest.
pub(crate) fn in_guest() -> Option<Result<()>> {
    reorder::in_guest()
}

/// All trials, or the one that is wanted: what one needs is not asked for the others. `lack` is why none can run here.
pub(crate) fn trials(wanted: Option<&str>, lack: Option<&str>) -> Vec<Trial> {
    let cases = cases().into_iter().filter(|case| wanted.is_none_or(|name| name.starts_with(&case.name)));
    cases
        .map(|case| case.trial(|need| lack.map_or_else(|| missing(need), |lack| Some(lack.to_owned()))))
        .collect()
}

fn cases() -> Vec<Case> {
    let groups = [
        lab::cases(),
        experiments::cases(),
        emulator::cases(),
        streams::cases(),
        policies::cases(),
        probe::cases(),
        datagrams::cases(),
        device::cases(),
        diagnosis::cases(),
        moved::cases(),
        neighbours::cases(),
        vlan::cases(),
        jumbo::cases(),
        kernels::cases(),
        beside::cases(),
        bridge::cases(),
        forwarded::cases(),
        addresses::cases(),
        faults::cases(),
        fits_in::cases(),
        fleet::cases(),
        frames::cases(),
        macsec::cases(),
        carrier::cases(),
        changes::cases(),
        live::cases(),
        metrics::cases(),
        classes::cases(),
        configured::cases(),
        data_path::cases(),
        engines::cases(),
        narrow::cases(),
        loads::cases(),
        nics::cases(),
        package::cases(),
        page::cases(),
        parallel::cases(),
        reorder::cases(),
        restart::cases(),
        routed::cases(),
        scenario::cases(),
        screens::cases(),
        service::cases(),
        settings::cases(),
        sites::cases(),
        slow_peer::cases(),
        systemd::cases(),
        top::cases(),
        traces::cases(),
        upgrade::cases(),
        versions::cases(),
        window::cases(),
        without::cases(),
        workers::cases(),
        ether::cases(),
    ];
    groups.into_iter().flatten().collect()
}

fn missing(need: Need) -> Option<String> {
    let daemon = || require_daemon(&bundle::program(None)?).map_err(anyhow::Error::from);
    let all = |needs: &[Need]| {
        let lack = needs.iter().find_map(|need| missing(*need));
        lack.map_or(Ok(()), |lack| Err(anyhow::Error::msg(lack)))
    };
    let tool = |tool: Tool| Ok(require_tools(&env::var_os("PATH").unwrap_or_default(), &[tool])?);
    let lack = match need {
        Need::Nothing => Ok(()),
        Need::Daemon => daemon(),
        Need::DaemonAndTcpdump => daemon().and_then(|()| tool(TCPDUMP)),
        Need::DaemonBefore => daemon().and_then(|()| versions::require_before()),
        Need::DaemonBeforeAndPrograms => all(&[Need::DaemonBefore, Need::DaemonAndPrograms]),
        Need::DaemonAndCni => daemon().and_then(|()| tool(CNI_MACVLAN)),
        Need::DaemonAndIperf => daemon().and_then(|()| tool(IPERF3)),
        Need::DaemonAndDns => daemon().and_then(|()| tool(DNSMASQ)),
        Need::DaemonAndEtcd => daemon().and_then(|()| tool(ETCD)).and_then(|()| tool(ETCDCTL)),
        Need::DaemonAndEthtool => daemon().and_then(|()| tool(ETHTOOL)),
        Need::DaemonAndXdp => daemon().and_then(|()| Ok(require_xdp()?)),
        Need::DaemonAndMpirun => daemon().and_then(|()| tool(MPIRUN)),
        Need::DaemonAndNat => daemon().and_then(|()| sites::require_nat(tool)),
        Need::DaemonAndNft => daemon().and_then(|()| tool(NFT)),
        Need::DaemonAndPrometheus => daemon().and_then(|()| Ok(prometheus::require()?)),
        Need::DaemonAndPriority => daemon().and_then(|()| Ok(require_priority()?)),
        Need::DaemonAndPrograms => {
            daemon().and_then(|()| tool(SETPRIV)).and_then(|()| data_path::require_programs())
        }
        Need::DaemonAndSystemdAndEtcd => all(&[Need::DaemonAndSystemd, Need::DaemonAndEtcd]),
        Need::DaemonAndSystemd => daemon()
            .and_then(|()| tool(SYSTEMD))
            .and_then(|()| tool(SETPRIV))
            .and_then(|()| tool(STRACE))
            .and_then(|()| tabane_kit::systemd::require()),
        Need::Package => daemon().and_then(|()| package::require()),
        Need::DaemonAndTshark => daemon().and_then(|()| tool(TSHARK)),
        Need::DaemonAndTmux => daemon().and_then(|()| tool(TMUX)).and_then(|()| tool(SETPRIV)),
        Need::DaemonAndBrowser => daemon().and_then(|()| page::require_browser(tool)),
        Need::DaemonAndWeb => daemon().and_then(|()| page::require_web()),
        Need::Diagnosis => all(&[Need::DaemonAndNft, Need::DaemonAndEthtool, Need::DaemonAndPriority])
            .and_then(|()| tool(STRACE)),
        Need::DiagnosisByPrograms => all(&[Need::Diagnosis, Need::DaemonAndPrograms]),
        Need::WebAndPrometheus => page::require_web().and_then(|()| all(&[Need::DaemonAndPrometheus])),
        Need::WebAndSystemd => page::require_web().and_then(|()| all(&[Need::DaemonAndSystemd])),
        Need::DaemonAndSetpriv => daemon().and_then(|()| tool(SETPRIV)),
        Need::Kubernetes => fits_in::require_kubernetes(),
        Need::Mpirun => tool(MPIRUN),
        Need::NewGuest => daemon().and_then(|()| reorder::require_guest(Path::new(reorder::GUEST), tool)),
        Need::GuestAndMinutes(guest) => daemon()
            .and_then(|()| reorder::require_guest(&kernels::directory(guest), tool))
            .and_then(|()| reorder::require_minutes()),
        Need::NewGuestAndMinutes => all(&[Need::NewGuest]).and_then(|()| reorder::require_minutes()),
    };
    lack.err().map(|lack| format!("{lack:#}"))
}

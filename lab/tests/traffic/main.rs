//! Real traffic through real bundles in network namespaces: exact contents, exact counts.
//!
//! Every trial builds its own topology, starts the program `tabane` (`TABANE_BIN`, else the one beside the test)
//! on its hosts, and checks in the end that all of it stops cleanly. Trials run one at a time: they share the names
//! of the namespaces and the few CPUs. Only the lab's experiments, which take as long as all others and mostly wait, run beside
//! them, in a sandbox of their own. Where trials cannot run they are reported as ignored, with the reason.

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

use std::io::{self, Write};
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::{env, thread};

use anyhow::Result;
use libtest_mimic::{Arguments, Trial};
use tabane_kit::prerequisites::{
    CNI_MACVLAN, DNSMASQ, ETCD, ETCDCTL, ETHTOOL, IPERF3, MPIRUN, NFT, SETPRIV, STRACE, SYSTEMD, TCPDUMP,
    TMUX, TSHARK, Tool, require_daemon, require_priority, require_tools, require_xdp,
};
use tabane_kit::sandbox::{self, Side};
use tabane_kit::{bundle, prometheus};

/// The names of the lab's experiments begin so.
const EXPERIMENT: &str = "experiment_";

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

    /// The trial, ignored when something is missing.
    fn trial(self, missing: impl Fn(Need) -> Option<String>) -> Trial {
        match missing(self.needs) {
            None => Trial::test(self.name, || Ok((self.test)().map_err(|error| format!("{error:#}"))?)),
            Some(reason) => {
                Trial::test(format!("{} [SKIPPED: {reason}]", self.name), || Ok(())).with_ignored_flag(true)
            }
        }
    }
}

fn main() -> Result<ExitCode> {
    if let Some(done) = reorder::in_guest() {
        return done.map(|()| ExitCode::SUCCESS);
    }
    if env::args_os().len() == 1 {
        return side_by_side();
    }
    let mut arguments = Arguments::from_args();
    arguments.test_threads = Some(1);
    let trials: Vec<Trial> = match sandbox::enter(&[]) {
        Ok(Side::Outside(code)) => return Ok(code),
        Ok(Side::Inside) => cases().into_iter().map(|case| case.trial(missing)).collect(),
        Err(error) => {
            let reason = format!("{error:#}");
            cases().into_iter().map(|case| case.trial(|_| Some(reason.clone()))).collect()
        }
    };
    Ok(libtest_mimic::run(&arguments, trials).exit_code())
}

/// Runs the experiments and all other trials at once; what the experiments print comes last.
fn side_by_side() -> Result<ExitCode> {
    let program = env::current_exe()?;
    let mut experiments = Command::new(&program);
    experiments.arg(EXPERIMENT).stdout(Stdio::piped()).stderr(Stdio::piped());
    let experiments = experiments.spawn()?;
    let experiments = thread::spawn(|| experiments.wait_with_output());
    let others = Command::new(&program).args(["--skip", EXPERIMENT]).status()?;
    let experiments = experiments.join().expect("nothing panics there")?;
    io::stdout().write_all(&experiments.stdout)?;
    io::stderr().write_all(&experiments.stderr)?;
    Ok(if others.success() && experiments.status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
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

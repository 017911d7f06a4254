//! What a service manager is told (`sd_notify(3)`), as a real socket hears it: ready with the device, another process after an
//! upgrade, and the end.

use std::io::{self, ErrorKind};
use std::os::unix::net::UnixDatagram;
use std::process::Stdio;

use crate::traffic::stage::*;

const UPGRADES: usize = 3;
const PACE: Pace = Pace { per_second: 2_000, bytes: 200 };
const TIMED: Duration = Duration::from_secs(20);

pub(crate) fn cases() -> Vec<Case> {
    // Exercises: upgrade --background
    vec![Case::new("a_service_manager_follows_a_bundle_through_upgrades", DAEMON, followed)]
}

struct Ear(UnixDatagram);

impl Ear {
    fn bind(path: &Path) -> Result<Ear> {
        let socket = UnixDatagram::bind(path)?;
        socket.set_read_timeout(Some(WITHIN))?;
        Ok(Ear(socket))
    }

    fn next(&self) -> Result<String> {
        let mut word = [0; 256];
        let length = self.0.recv(&mut word).context("nothing was said")?;
        Ok(String::from_utf8_lossy(&word[..length]).into_owned())
    }

    fn is_silent(&self) -> Result<()> {
        self.0.set_nonblocking(true)?;
        let more = self.next();
        self.0.set_nonblocking(false)?;
        match more {
            Ok(word) => bail!("{word} was said besides"),
            Err(error) => {
                let kind = error.downcast::<io::Error>().map(|error| error.kind());
                ensure!(matches!(kind, Ok(ErrorKind::WouldBlock)), "{kind:?}");
                Ok(())
            }
        }
    }
}

fn status(host: &Namespace) -> Result<Status> {
    Ok(serde_json::from_str(&tabane(host, "status tb0 --json")?)?)
}

/// The new process has no `NOTIFY_SOCKET` of its own, as under a manager that gives it to the main process alone.
fn followed() -> Result<()> {
    let topology = Topology::build(plan(&[FAST; LINKS]))?;
    let (host, directory) = (topology.host(0), tempfile::tempdir()?);
    let path = directory.path().join("notify");
    let ear = Ear::bind(&path)?;
    let options = Options { protection: Protection::None, ..options()? };
    let mut peer = Bundle::start(topology.host(1), 1, &topology.nics(), &options)?;
    let mut command = host.command(program(None)?);
    command.args(["up", "--insecure", "--address", &format!("{}/24", address(0))]);
    command.args((0..LINKS).flat_map(|link| ["--link".to_owned(), nic(link)]));
    command.env("NOTIFY_SOCKET", &path);
    let mut service = Some(Process::start(command)?);
    ensure!(ear.next()? == "READY=1", "the first word");
    let devices = host.ip("-brief link")?;
    ensure!(devices.contains(DEVICE), "ready before its device: {devices}");
    peer.wait_until("all links", |status| status.is_ready(1, LINKS))?;

    let flow = datagrams(&topology, PACE, TIMED)?;
    for _ in 0..UPGRADES {
        let before = status(host)?.pid;
        let mut upgrade = host.command(program(None)?);
        upgrade.args(["upgrade", DEVICE, "--background"]);
        // What is left in the background would keep a pipe open.
        let ending = upgrade.stdout(Stdio::null()).stderr(Stdio::null()).status()?;
        ensure!(ending.success(), "the upgrade: {ending}");
        let now = status(host)?.pid;
        ensure!(now != before, "the bundle stays with process {before}");
        let mut words = [ear.next()?, ear.next()?];
        words.sort();
        ensure!(words == [format!("MAINPID={now}"), "READY=1".to_owned()], "{words:?}, not process {now}");
        if let Some(first) = service.take() {
            first.wait(WITHIN)?.success("the process that was replaced")?;
        }
        peer.wait_until("all links", |status| status.is_ready(1, LINKS))?;
    }
    let outcome = flow.finish()?;
    ensure!(outcome.lost_at_ns.is_empty() && outcome.doubled == 0, "{outcome:?}");
    ear.is_silent()?;
    tabane(host, "down tb0")?;
    ensure!(ear.next()? == "STOPPING=1", "the last word");
    wait_for("a device that is gone", WITHIN, || {
        Ok((!host.ip("-brief link")?.contains(DEVICE)).then_some(()))
    })?;
    ear.is_silent()?;
    peer.stop()?.success("a daemon told to stop").map(drop)
}

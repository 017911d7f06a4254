//! The first five minutes: a bundle is set up, joined, looked at, and undone; and what does not fit says so.

use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::process::{Output, Stdio};

use tabane_kit::process::words;
use tabane_kit::sandbox::Mounted;
use tempfile::TempDir;

use crate::traffic::environment::say;
use crate::traffic::stage::*;

const FILES: &str = "/etc/tabane";

pub(crate) fn cases() -> Vec<Case> {
    vec![
        // Exercises: forget, policy, list, status --json, init --insecure
        Case::new("a_bundle_is_set_up_joined_and_forgotten", DAEMON, forgotten),
        // Exercises: init --name --key --policy --port --mtu --link --address --yes --no-start --file
        // Exercises: join --link --address --yes --no-start --file
        Case::new("what_init_and_join_are_told_is_in_force", DAEMON, in_force),
        // Exercises: list --json
        Case::new("a_name_is_needed_where_several_bundles_are_up", DAEMON, several),
        Case::new("a_line_that_is_not_whole_writes_nothing", DAEMON, not_whole),
    ]
}

/// An `/etc` for this trial: the machine's, without bundles.
struct Etc {
    _mounted: Mounted,
}

impl Etc {
    fn begin() -> Result<Etc> {
        let copy = tempfile::tempdir()?;
        process::run(words("cp", "-a /etc/.").arg(copy.path()))?;
        let mounted = Mounted::new("/etc".as_ref(), "none", "tmpfs", "mode=755")?;
        process::run(words("cp", "-a").arg(copy.path().join(".")).arg("/etc"))?;
        if Path::new(FILES).exists() {
            fs::remove_dir_all(FILES)?;
        }
        Ok(Etc { _mounted: mounted })
    }
}

/// The line for other machines that `tabane init` prints when it is told this, and all that it prints.
fn init(host: &Namespace, arguments: &str) -> Result<(String, String)> {
    let words: Vec<&str> = arguments.split_whitespace().collect();
    let said = tabane(host, format!("init --yes --no-start {}", words.join(" ")).trim_end())?;
    let line =
        said.lines().find(|line| line.starts_with("tabane1:")).context("no line for others")?.to_owned();
    Ok((line, said))
}

fn join(host: &Namespace, line: &str, arguments: &str) -> Result<Output> {
    let mut command = host.command(program(None)?);
    command.arg("join").args(arguments.split_whitespace());
    let mut join = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    // Who needs no line reads none.
    let _ = writeln!(join.stdin.take().context("piped")?, "{line}");
    Ok(join.wait_with_output()?)
}

/// It is joined, and its file is the one that `tabane up` is to be told.
fn has_joined(host: &Namespace, line: &str, arguments: &str, file: &Path) -> Result<()> {
    let output = join(host, line, &format!("{arguments} --yes --no-start --file {}", file.display()))?;
    let said = String::from_utf8([output.stdout, output.stderr].concat())?;
    let is_told = said.contains(&format!("tabane up {}", file.display()));
    ensure!(output.status.success() && is_told, "{said}");
    Ok(())
}

fn up<'a>(host: &'a Namespace, device: &str, config: &Path) -> Result<Bundle<'a>> {
    Bundle::start_from(host, &program(None)?, device, config)
}

fn file(directory: &TempDir, name: &str) -> PathBuf {
    directory.path().join(name)
}

/// From nothing to a link that dies, and back to nothing; and the same without keys.
fn forgotten() -> Result<()> {
    let (_etc, directory) = (Etc::begin()?, tempfile::tempdir()?);
    let topology = Topology::build(plan(&[FAST; LINKS]))?;
    let (near, far) = (topology.host(0), topology.host(1));
    let (line, _) = init(near, "")?;
    for (name, mode) in [("tb0.key", 0o600), ("tb0.toml", 0o644)] {
        let permissions = fs::metadata(Path::new(FILES).join(name))?.permissions();
        ensure!(permissions.mode() & 0o777 == mode, "{name}: {permissions:?}");
    }
    let checked = tabane(near, "check tb0")?;
    let starts = ["nic = ", "key = ", "address = "];
    let named = checked.lines().filter(|line| starts.iter().any(|start| line.starts_with(start)));
    ensure!(named.count() == LINKS + 2, "{checked}");
    has_joined(far, &line, "", &file(&directory, "tb0.toml"))?;
    let mut bundles = [up(near, DEVICE, DEVICE.as_ref())?, up(far, DEVICE, &file(&directory, "tb0.toml"))?];
    ready(&mut bundles, LINKS)?;
    ensure!(answered(near, "10.9.0.2", 20)? == 20, "pings are lost");
    say(
        near,
        &[
            ("list", "tb0 healthy: 2 of 2 links, 1 peer\n"),
            ("policy", "adaptive\n"),
            ("policy rr", "policy rr, was adaptive\n"),
            ("receive", "adaptive\n"),
        ],
    )?;
    let says = |bundle: &Bundle<'_>, words: &[&str]| {
        wait_for(&words.join(", "), WITHIN, || {
            let said = bundle.ask(&["status"])?;
            Ok(words.iter().all(|words| said.contains(words)).then_some(()))
        })
    };
    near.ip("link set eth2 down")?;
    says(&bundles[0], &["DEGRADED: redundancy lost since ", "eth2 has no carrier"])?;
    says(&bundles[1], &["DEGRADED: redundancy lost since "])?;
    near.ip("link set eth2 up")?;
    says(&bundles[0], &["healthy"])?;
    let status: Value = serde_json::from_str(&tabane(near, "status --json")?)?;
    let health = &status["health"];
    let is_well = health["state"] == "healthy" && health["since"].is_null();
    ensure!(is_well && health["redundancy_lost"] == false, "{health}");
    let [first, second] = bundles;
    say(near, &[("forget tb0", "tb0 is down; deleted /etc/tabane/tb0.key and /etc/tabane/tb0.toml\n")])?;
    first.end()?.success("a daemon that is forgotten")?;
    ensure!(fs::read_dir(FILES)?.next().is_none() && !near.ip("-brief link")?.contains(DEVICE));
    say(
        near,
        &[
            (
                "forget tb0",
                "tabane: tb0: /etc/tabane/tb0.toml does not exist; allowed: the name of a bundle that has one\n",
            ),
            ("status", "tabane: no bundle is up in this network namespace\n"),
        ],
    )?;
    second.stop()?.success("a daemon told to stop")?;

    let (line, _) = init(near, "--insecure --link eth1 --address none")?;
    has_joined(far, &line, "--link eth1 --address none", &file(&directory, "open.toml"))?;
    let mut bundles = [up(near, DEVICE, DEVICE.as_ref())?, up(far, DEVICE, &file(&directory, "open.toml"))?];
    ready(&mut bundles, 1)?;
    for bundle in &bundles {
        let security = bundle.status()?.security;
        ensure!(security == "none", "{security}");
    }
    Bundle::stop_all(bundles)
}

/// Name, key, policy, port, MTU, links, addresses, files: what the first machine is told reaches the second where it has to be the same.
fn in_force() -> Result<()> {
    let (_etc, directory) = (Etc::begin()?, tempfile::tempdir()?);
    let topology = Topology::build(plan(&[FAST; LINKS]))?;
    let (near, far) = (topology.host(0), topology.host(1));
    let [own, near_file, far_file] = ["own", "near.toml", "far.toml"].map(|name| file(&directory, name));
    tabane(near, &format!("genkey {}", own.display()))?;
    let (line, said) = init(
        near,
        &format!(
            "--name tb7 --key {} --policy rr --port 7555 --mtu 9000 --link eth1 --link eth2,rate=1Gbit/s \
             --address 10.8.0.1/24 --file {}",
            own.display(),
            near_file.display()
        ),
    )?;
    ensure!(said.contains(&format!("tabane up {}", near_file.display())), "{said}");
    ensure!(fs::read(own)? == fs::read(near_file.with_extension("key"))?, "another key");
    has_joined(far, &line, "--link eth2 --link eth1 --address 10.8.0.9/24", &far_file)?;
    let mut bundles = [up(near, "tb7", &near_file)?, up(far, "tb7", &far_file)?];
    ready(&mut bundles, LINKS)?;
    let (status, far_status) = (bundles[0].status()?, bundles[1].status()?);
    let rates = status.links.iter().map(|link| link.stated_bps);
    ensure!(rates.eq([None, Some(1_000_000_000)]) && status.name == "tb7", "{status:?}");
    ensure!(status.mtu == 9_000 && status.policy == "rr" && far_status.policy == "rr", "{status:?}");
    let links: Vec<_> = far_status.links.iter().map(|link| &link.nic).collect();
    ensure!(links == [&nic(1), &nic(0)], "{links:?}");
    let sockets = process::run(near.command("ss").arg("-ulnH"))?;
    ensure!((0..LINKS).all(|link| sockets.contains(&format!("{}:7555", nic(link)))), "{sockets}");
    let device = near.ip("-oneline link show tb7")?;
    ensure!(device.contains(" mtu 9000 "), "{device}");
    ensure!(answered(near, "10.8.0.9", 20)? == 20, "pings are lost");
    ensure!(!Path::new(FILES).exists(), "{FILES} was made");
    Bundle::stop_all(bundles)
}

/// A second bundle has a port of its own, and commands ask which one is meant.
fn several() -> Result<()> {
    let _etc = Etc::begin()?;
    let topology = Topology::build(plan(&[FAST; LINKS]))?;
    let near = topology.host(0);
    init(near, "--link eth1")?;
    init(near, "--name tb1 --link eth2 --address none")?;
    for (name, port) in [("tb0", "port = 7420\n"), ("tb1", "port = 7520\n")] {
        let text = fs::read_to_string(Path::new(FILES).join(name).with_extension("toml"))?;
        ensure!(text.contains(port), "{name}: {text}");
    }
    let exists = "tabane: /etc/tabane/tb0.toml exists already; `tabane forget tb0` deletes it, or choose another name\n";
    say(near, &[("init --yes --no-start --link eth1", exists)])?;
    let mut bundles = ["tb0", "tb1"].map(|name| up(near, name, name.as_ref()));
    for bundle in bundles.iter_mut().flatten() {
        bundle.wait_until("a bundle that answers", |_| true)?;
    }
    let which = "tabane: several bundles are up; say which: tb0, tb1\n";
    say(near, &[("down", which), ("status --json", which)])?;
    let listed = tabane(near, "list")?;
    ensure!(listed.lines().map(|line| &line[..3]).eq(["tb0", "tb1"]), "{listed}");
    let listed: Value = serde_json::from_str(&tabane(near, "list --json")?)?;
    ensure!([0, 1].map(|number| listed[number]["name"].as_str()) == [Some("tb0"), Some("tb1")], "{listed}");
    let shown = tabane(near, "status")?;
    ensure!(shown.matches("NO PEER").count() == 2, "{shown}");
    say(
        near,
        &[
            ("policy tb1", "adaptive\n"),
            ("policy tb1 rr", "policy rr, was adaptive\n"),
            ("down tb0", ""),
            ("policy", "rr\n"),
            ("down", ""),
        ],
    )?;
    bundles.into_iter().try_for_each(|bundle| bundle?.end()?.success("a daemon told to stop").map(drop))
}

fn not_whole() -> Result<()> {
    let (_etc, directory) = (Etc::begin()?, tempfile::tempdir()?);
    let topology = Topology::build(plan(&[FAST]))?;
    let (line, _) = init(topology.host(0), "--link eth1")?;
    let no_line = "does not begin with `tabane1:`";
    for (line, why) in [(&line[..90], "is not whole"), ("rubbish", no_line), ("", no_line)] {
        let file = file(&directory, "tb0.toml").display().to_string();
        let output = join(topology.host(1), line, &format!("--yes --file {file}"))?;
        let said = String::from_utf8([output.stdout, output.stderr].concat())?;
        let sentence = format!(
            "tabane: the line {why}; allowed: the line that `tabane init` has printed, on standard input\n"
        );
        ensure!(output.status.code() == Some(2) && said == sentence, "{said}");
    }
    ensure!(directory.path().read_dir()?.next().is_none(), "something is written");
    Ok(())
}

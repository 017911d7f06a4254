//! Bundles that come from files alone: what the files say is in force.

use std::os::unix::fs::PermissionsExt;

use crate::traffic::stage::*;

const WIRE: &str = "wire7";
const PORT: u16 = 7_555;
/// What each host seals with, whatever the other does.
const CIPHERS: [&str; 2] = ["chacha20-poly1305", "aes-256-gcm"];
/// Datagrams of 40 Mbit/s fill no link, so weights alone decide.
const PACE: Pace = Pace { per_second: 5_000, bytes: 1_000 };
const TIMED: Duration = Duration::from_secs(1);
const NOBODY: &str = "65534";

pub(crate) fn cases() -> Vec<Case> {
    vec![
        // Exercises: up --cipher --allow, name =, key =, accept_keys =, node_key =, allow =, port =, mtu =, policy =
        // Exercises: receive =, fragments =, workers =, address =, cipher =, user =, tx_queue_len =, link =, link.nic =
        // Exercises: link.local =, link.peers =, link.rate =, link.weight =
        Case::new("what_a_file_says_is_in_force", DAEMON, in_force),
        // Exercises: link.rate.down =, link.rate.up =
        Case::new("stated_rates_are_kept_in_each_direction", DAEMON, rates),
    ]
}

/// All that a file can say of two links by which peers are named. Weights of 1 and 3 make it visible.
fn text(host: usize, other_node: &str) -> String {
    let (key, old) = [("first", "second"), ("second", "first")][host];
    let links: String = [1, 3]
        .iter()
        .enumerate()
        .map(|(link, weight)| {
            let (own, peer) = (address_of(link, host), address_of(link, 1 - host));
            format!(
                "[[link]]\nnic = \"{}\"\nlocal = \"{own}\"\npeers = [\"{peer}:{PORT}\"]\nrate = \"150 Mbit/s\"\nweight = {weight}\n",
                nic(link)
            )
        })
        .collect();
    format!(
        r#"name = "{WIRE}"
key = "{key}"
accept_keys = ["{old}"]
node_key = "node{host}"
allow = ["{other_node}"]
port = {PORT}
mtu = 1400
policy = "weighted"
repair = false
primary = "eth2"
preempt = false
hash = "layer2"
receive = "timer"
receive_interval = "200 us"
spin_share = "50 %"
fragments = "copy"
workers = 2
address = ["{}/24"]
security = "sealed"
cipher = "{}"
user = "nobody"
control_group = "nogroup"
sandbox = true
tx_queue_len = 123
[offload]
gso = false
gro = false
tso = false
uso = false
checksum = true
[[class]]
match = {{ protocol = "udp", port = 53 }}
policy = "duplicate"
{links}"#,
        address(host),
        CIPHERS[host],
    )
}

fn write(directory: &Path, name: &str, text: &str) -> Result<PathBuf> {
    let path = directory.join(name);
    fs::write(&path, text)?;
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600))?;
    Ok(path)
}

pub(crate) fn node_key(directory: &Path, host: usize) -> Result<String> {
    let path = directory.join(format!("node{host}"));
    let mut command = std::process::Command::new(program(None)?);
    Ok(process::run(command.args(["genkey", "--node"]).arg(path))?.trim().to_owned())
}

fn in_force() -> Result<()> {
    let topology = Topology::build(Plan { addressed: true, ..plan(&[FAST; 2]) })?;
    let directory = tempfile::tempdir()?;
    for (name, digits) in [("first", "a1"), ("second", "b2")] {
        write(directory.path(), name, &digits.repeat(32))?;
    }
    let nodes = [node_key(directory.path(), 0)?, node_key(directory.path(), 1)?];
    let mut bundles = Vec::new();
    for (number, host) in topology.hosts().iter().enumerate() {
        let text = text(number, &nodes[1 - number]);
        let path = write(directory.path(), &format!("{number}.toml"), &text)?;
        bundles.push(Bundle::start_from(host, &program(None)?, WIRE, &path)?);
    }
    ready(&mut bundles, 2)?;
    // A busy machine, which polls without repair here, may lose some: not before they have crossed a link.
    let [less, more] = brought(topology.host(1), || datagrams(&topology, PACE, TIMED)?.outcome().map(drop))?;
    let share = more as f64 / less as f64;
    ensure!((2.4..3.6).contains(&share), "weights of 1 and 3: {less} and {more} bytes");
    send_both_ways(&topology, FILE)?;
    for (number, (bundle, host)) in bundles.iter().zip(topology.hosts()).enumerate() {
        told(bundle, number, &nodes)?;
        seen(host, bundle.pid().context("a running daemon")?)?;
    }
    Bundle::stop_all(bundles)
}

fn told(bundle: &Bundle<'_>, number: usize, nodes: &[String; 2]) -> Result<()> {
    let status = bundle.status()?;
    let (peer, other) = (&status.peers[0], 1 - number);
    let said = [
        ("policy", status.policy == "weighted"),
        ("receive", status.receive == "timer"),
        ("fragments", status.fragments.starts_with("copy")),
        ("mtu", status.mtu == 1400),
        ("workers", status.workers == 2),
        ("node_key", status.node_key.as_ref() == Some(&nodes[number])),
        ("allow", status.allow.as_deref() == Some(&nodes[other..=other])),
        ("the peer's node_key", peer.node_key.as_ref() == Some(&nodes[other])),
        ("cipher", peer.sealed.as_ref().is_some_and(|sealed| sealed.cipher_sent == CIPHERS[number])),
        (
            "the peer's cipher",
            peer.sealed.as_ref().is_some_and(|sealed| sealed.cipher_received == CIPHERS[other]),
        ),
        ("local", status.links.iter().all(|link| link.local.ends_with(&format!(":{PORT}")))),
        ("rate", status.links.iter().all(|link| link.stated_bps == Some(150_000_000))),
        // On a busy machine less is measured than what is stated, and never more.
        ("the path's rate", peer.paths.iter().all(|path| matches!(path.rate_bps, Some(1..=150_000_000)))),
    ];
    let wrong: Vec<_> = said.iter().filter(|(_, is_right)| !is_right).map(|(what, _)| what).collect();
    ensure!(wrong.is_empty(), "{wrong:?} of {status:?}");
    Ok(())
}

fn seen(host: &Namespace, pid: u32) -> Result<()> {
    let device = host.ip(&format!("link show {WIRE}"))?;
    ensure!(device.contains(" mtu 1400 ") && device.contains(" qlen 123"), "{device}");
    let rights = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = |name: &str| rights.lines().find(|line| line.starts_with(name)).unwrap_or_default().to_owned();
    ensure!(line("Uid:").split_whitespace().skip(1).all(|id| id == NOBODY), "not nobody: {}", line("Uid:"));
    ensure!(line("Seccomp:").ends_with('2'), "no sandbox: {}", line("Seccomp:"));
    let mut workers = 0;
    for task in fs::read_dir(format!("/proc/{pid}/task"))? {
        workers += u32::from(fs::read_to_string(task?.path().join("comm"))?.starts_with("worker "));
    }
    ensure!(workers == 2, "{workers} threads of workers");
    let sockets = process::run(host.command("ss").args(["-uanH"]))?;
    ensure!(sockets.contains(":7555") && sockets.contains(":7556"), "the workers' ports: {sockets}");
    Ok(())
}

fn rates() -> Result<()> {
    const STATED: [(f64, &str); 2] = [(20.0, "up"), (50.0, "down")];
    let topology = Topology::build(plan(&[FAST]))?;
    let rates: String = STATED.iter().map(|(rate, key)| format!(",{key}={rate} Mbit/s")).collect();
    let links = [format!("{}{rates}", nic(0)), nic(0)];
    let mut bundles = Vec::new();
    for (number, (host, link)) in topology.hosts().iter().zip(links).enumerate() {
        bundles.push(Bundle::start(host, number, &[link], &options()?)?);
    }
    ready(&mut bundles, 1)?;
    for (from, (stated, key)) in STATED.into_iter().enumerate() {
        let to = 1 - from;
        let transfer = begin(topology.host(from), topology.host(to), to, FILE)?;
        let moves = |bytes: u64| {
            let before = (transfer.arrived(), monotonic_ns()?);
            wait_for("bytes of a transfer", WITHIN, || {
                let after = (transfer.arrived(), monotonic_ns()?);
                Ok((after.0 - before.0 >= bytes).then_some(after))
            })
            .map(|after| (after.0 - before.0) as f64 * 8e3 / (after.1 - before.1) as f64)
        };
        moves(FILE / 4)?;
        let speed = moves(FILE)?;
        whole(transfer)?;
        println!("{key}: {speed:.1} of {stated} Mbit/s");
        // Cells of 1,500 bytes with their headers carry 1,416 of frames and their heads.
        ensure!((0.8..=0.96).contains(&(speed / stated)), "{key}: {speed} of {stated} Mbit/s");
    }
    Bundle::stop_all(bundles)
}

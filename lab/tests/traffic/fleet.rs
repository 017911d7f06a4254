//! Fleets: nodes whose peers and keys come from etcd or DNS join, leave and change keys while traffic passes, and nothing
//! changes while etcd or DNS is away.
//!
//! ```text
//!   h1 ── eth1 ── s1, where etcd and DNS live ── eth1 ── h2, h3       10.1.1.0/24
//!   h1 ── eth2 ── s2 ─────────────────────────── eth2 ── h2, h3       10.1.2.0/24
//! ```

use std::sync::atomic::Ordering::Relaxed;
use std::thread;

use tabane_kit::prerequisites::{DNSMASQ, ETCD, ETCDCTL};
use tabane_kit::workload::etcd::Etcd;
use tabane_kit::workload::fleet::{Dns, Follower, run};
use tempfile::TempDir;

use crate::traffic::stage::*;
use crate::traffic::systemd::page::ACCOUNTS;
use crate::traffic::systemd::{self, KEY, SERVICE, machine};

const UNIT: &[u8] = include_bytes!("../../../packaging/tabane-follow@.service");
const HOSTS: usize = 3;
const LEAVER: usize = 2;
const SERVER: &str = "10.1.1.250";
/// A datagram each 10 ms, for as long as a trial can last; the longest time without one, beyond that in which the machine itself
/// stood still: a thread that only sleeps tells that.
const PACE: Pace = Pace { per_second: 100, bytes: 200 };
const LIMIT: Duration = Duration::from_secs(240);
const GAP_MAX: Duration = Duration::from_millis(500);
/// One copy of the file that goes from the first host to the second again and again.
const FILE: u64 = 16 << 20;
const LEASE: &str = "5";
/// A record in DNS has it within this: 5 s until it is asked for again, and 5 s for the rest.
const DNS_WITHIN: Duration = Duration::from_secs(10);
/// A follower notices within this time that no server answers: it asks after 5 s, by UDP and by TCP, three times each, and waits
/// 2 s for each answer.
const NOTICED_WITHIN: Duration = Duration::from_secs(30);
const STANDS: &str = "what was known last stands";

const ETCD_RUNS: &[Need] = &[Daemon, Tool(ETCD), Tool(ETCDCTL)];

pub(crate) fn cases() -> Vec<Case> {
    vec![
        // Exercises: follow --etcd --ca --cert --cert-key --user --password-file --keys --as --lease --cache --rotate --without
        Case::nightly("a_fleet_by_etcd_never_stops_its_traffic", ETCD_RUNS, by_etcd),
        // Exercises: follow --srv --dns
        Case::nightly(
            "a_fleet_by_dns_joins_by_a_record_and_outlives_the_server",
            [Daemon, Tool(DNSMASQ)],
            by_dns,
        ),
        // Exercises: follow --allow --announce --silent
        Case::nightly("a_fleet_lets_in_whose_keys_stand_in_etcd", ETCD_RUNS, allowed),
        Case::nightly("systemd_follows_a_fleet_for_a_bundle", [systemd::NEEDS, ETCD_RUNS].concat(), unit),
    ]
}

struct Stage<'a> {
    topology: &'a Topology,
    program: PathBuf,
    directory: TempDir,
    bundles: Vec<Bundle<'a>>,
}

impl<'a> Stage<'a> {
    fn start(topology: &'a Topology) -> Result<Stage<'a>> {
        let directory = tempfile::tempdir()?;
        let program = options()?.program;
        let mut stage = Stage { topology, program, directory, bundles: Vec::new() };
        for name in ["old.key", "new.key"] {
            tabane(topology.host(0), &format!("genkey {}", stage.file(name).display()))?;
        }
        let options = Options { protection: Protection::KeyFile(stage.file("old.key")), ..options()? };
        for host in 0..HOSTS {
            let links: Vec<String> =
                (0..LINKS).map(|link| format!("{},local={}", nic(link), address_of(link, host))).collect();
            let mut bundle = Bundle::start(topology.host(host), host, &links, &options)?;
            let status = bundle.wait_until("a bundle that is up", |_| true)?;
            ensure!(status.peers.is_empty(), "peers without a fleet: {:?}", status.peers);
            stage.bundles.push(bundle);
        }
        Ok(stage)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn follower(&self, host: usize, flags: &[String]) -> Result<Follower<'a>> {
        let cache = self.file(&format!("h{}.json", host + 1));
        let own = [DEVICE.to_owned(), "--cache".to_owned(), cache.display().to_string()];
        Follower::start(self.topology.host(host), &self.program, [&own[..], flags].concat())
    }

    fn rotate(&self, key: &str, reached: &[String], further: &[&str]) -> Result<String> {
        let own = [DEVICE, "--rotate", &self.file(key).display().to_string()].map(str::to_owned);
        let further: Vec<String> = further.iter().map(ToString::to_string).collect();
        run(self.topology.switch(0), &self.program, &[&own[..], reached, &further].concat())
    }

    fn joined(&mut self, hosts: &[usize]) -> Result<()> {
        let peers = hosts.len() - 1;
        let joined = hosts.iter().try_for_each(|host| {
            self.bundles[*host]
                .wait_until(&format!("{peers} peers"), |status| status.is_ready(peers, LINKS))
                .map(drop)
        });
        joined.with_context(|| self.events())
    }

    fn greets(&self, host: usize, other: usize, greets: bool) -> Result<()> {
        let what = format!("h{} greets h{}: {greets}", host + 1, other + 1);
        wait_for(&what, WITHIN, || {
            let changed = self.bundles[host].status()?.changed_by_hand.join("\n");
            let named = (0..LINKS)
                .filter(|link| changed.contains(&format!("{}:7420", address_of(*link, other))))
                .count();
            Ok((named == if greets { LINKS } else { 0 }).then_some(()))
        })
    }

    fn events(&self) -> String {
        self.bundles.iter().map(|bundle| bundle.ask(&["events", DEVICE]).unwrap_or_default() + "\n").collect()
    }

    fn traffic(&self) -> Result<Traffic> {
        let (from, to) = (self.topology.host(0), self.topology.host(1));
        Ok(Traffic {
            transfer: begin(from, to, 1, FILE)?,
            datagrams: datagrams(self.topology, PACE, LIMIT)?,
            machine: sleeper(from)?,
        })
    }
}

struct Traffic {
    datagrams: Sequence,
    transfer: Transfer,
    machine: Running<Duration>,
}

/// A thread that sleeps for 5 ms again and again until it is ended, and tells how long it slept at most.
fn sleeper(host: &Namespace) -> Result<Running<Duration>> {
    Running::start(host, "sleeper", |end| {
        let mut longest = Duration::ZERO;
        while !end.load(Relaxed) {
            let begun = Instant::now();
            thread::sleep(Duration::from_millis(5));
            longest = longest.max(begun.elapsed());
        }
        Ok(longest)
    })
}

impl Traffic {
    /// Nothing of it was lost, and it never stopped.
    fn passed(self) -> Result<()> {
        let stood_still = self.machine.end()?;
        self.transfer.end();
        let (datagrams, transfer) = (self.datagrams.finish()?, self.transfer.finish()?);
        let gaps = [datagrams.gaps.longest().length, transfer.gaps.longest().length];
        println!(
            "{} datagrams, {} bytes by TCP, longest gaps {gaps:?}, the machine's {stood_still:?}",
            datagrams.sent, transfer.bytes
        );
        ensure!(transfer.lost.is_none() && transfer.damaged == 0, "{transfer:?}");
        ensure!(datagrams.lost_at_ns.is_empty() && datagrams.damaged == 0, "{datagrams:?}");
        ensure!(gaps.iter().all(|gap| *gap < GAP_MAX + stood_still), "longest gaps {gaps:?}: {datagrams:?}");
        Ok(())
    }
}

fn topology(hosts: usize) -> Result<Topology> {
    let topology = Topology::build(Plan { hosts, addressed: true, ..plan(&[FAST; LINKS]) })?;
    topology.switch(0).ip(&format!("address add {SERVER}/24 dev br0"))?;
    Ok(topology)
}

fn etcd(topology: &Topology) -> Result<Etcd<'_>> {
    Etcd::start(topology.switch(0), SERVER.parse::<IpAddr>()?)
}

fn by_etcd() -> Result<()> {
    let topology = topology(HOSTS)?;
    let mut stage = Stage::start(&topology)?;
    let mut etcd = etcd(&topology)?;
    let reached = reached(&etcd);
    let flags = |host: usize| {
        let own = ["--keys", "--lease", LEASE, "--as"].map(String::from);
        [&reached[..], &own, &[format!("h{}", host + 1)]].concat()
    };
    let mut followers: Vec<Follower<'_>> =
        (0..HOSTS).map(|host| stage.follower(host, &flags(host))).collect::<Result<_>>()?;
    stage.joined(&[0, 1, 2])?;
    let traffic = stage.traffic()?;

    leave_and_return(&mut stage, &mut followers)?;
    rotate(&mut stage, &etcd)?;

    etcd.kill()?;
    // With the old key on disk and without etcd: peers and the new key are from the cache.
    followers[LEAVER].stop()?;
    stage.bundles[LEAVER].stop_for_now()?.success("a daemon told to stop")?;
    stage.bundles[LEAVER].start_again()?;
    followers[LEAVER].start_again()?;
    stage.joined(&[0, 1, 2])?;
    // A member that is back before they ask again was never away for them.
    followers[..LEAVER].iter().try_for_each(|follower| follower.says(STANDS, WITHIN))?;

    etcd.start_again()?;
    leave_and_return(&mut stage, &mut followers)?;
    traffic.passed().with_context(|| stage.events())?;

    stranger(&stage, &etcd)?;
    users(&stage, &etcd)?;
    for follower in &mut followers {
        let said = follower.stop()?;
        ensure!(!said.contains(fs::read_to_string(stage.file("new.key"))?.trim()), "a key in the log");
    }
    Bundle::stop_all(stage.bundles)
}

fn reached(etcd: &Etcd<'_>) -> Vec<String> {
    let file = |name| etcd.file(name).display().to_string();
    let url = format!("{}/fleet", etcd.url());
    let named = [
        ("--etcd", url),
        ("--ca", file("ca.crt")),
        ("--cert", file("client.crt")),
        ("--cert-key", file("client.key")),
    ];
    named.into_iter().flat_map(|(flag, value)| [flag.to_owned(), value]).collect()
}

/// A node that ends takes its record with it: the others greet it no longer. Started again, it joins.
fn leave_and_return(stage: &mut Stage<'_>, followers: &mut [Follower<'_>]) -> Result<()> {
    followers[LEAVER].stop()?;
    stage.bundles[LEAVER].stop_for_now()?.success("a daemon told to stop")?;
    (0..LEAVER).try_for_each(|host| stage.greets(host, LEAVER, false))?;
    stage.joined(&[0, 1])?;
    stage.bundles[LEAVER].start_again()?;
    followers[LEAVER].start_again()?;
    (0..LEAVER).try_for_each(|host| stage.greets(host, LEAVER, true))?;
    stage.joined(&[0, 1, 2])
}

/// The key that all have stands in etcd at first; then one command leads the group to another, in three rounds. A stolen node, which
/// announces what it likes, does not hold that up.
fn rotate(stage: &mut Stage<'_>, etcd: &Etcd<'_>) -> Result<()> {
    const STOLEN: &str = "/fleet/nodes/stolen";
    let rotate = |key: &str, further: &[&str]| stage.rotate(key, &reached(etcd), further);
    let parted = rotate("new.key", &[]).expect_err("the nodes speak the old one").to_string();
    ensure!(parted.contains("h1 speaks another key than this, and etcd has none yet"), "{parted}");
    rotate("old.key", &[])?;
    let without = ["--without", "stolen"];
    let unknown = rotate("new.key", &without).expect_err("nobody is called so").to_string();
    ensure!(unknown.contains("nobody announces that name; announced: h1, h2, h3"), "{unknown}");
    etcd.ask(&["put", STOLEN, r#"{ "endpoints": [null, null], "groups": ["00"] }"#])?;
    let said = rotate("new.key", &without)?;
    etcd.ask(&["del", STOLEN])?;
    ensure!(said.lines().count() == 4 && said.contains("round 3: every node drops the others"), "{said}");
    for bundle in &mut stage.bundles {
        let events = bundle.ask(&["events", DEVICE])?;
        let rounds: Vec<_> = events.lines().filter(|line| line.contains("further keys accepted")).collect();
        ensure!(rounds.len() == 3 && rounds[2].contains("0 further keys"), "{events}");
    }
    stage.joined(&[0, 1, 2])
}

fn stranger(stage: &Stage<'_>, etcd: &Etcd<'_>) -> Result<()> {
    let reached: Vec<_> =
        reached(etcd).into_iter().map(|flag| flag.replace("client.", "stranger.")).collect();
    let refused = stage.rotate("old.key", &reached, &[]).expect_err("no certificate of etcd's").to_string();
    ensure!(
        refused.contains(&format!("tabane-follow: etcd at {} cannot be reached", etcd.url())),
        "{refused}"
    );
    Ok(())
}

/// etcd's own access control: a user with the right password reads the fleet, one with a wrong password is refused in a sentence.
fn users(stage: &Stage<'_>, etcd: &Etcd<'_>) -> Result<()> {
    for arguments in
        [&["user", "add", "root:right"][..], &["user", "grant-role", "root", "root"], &["auth", "enable"]]
    {
        etcd.ask(arguments)?;
    }
    let rotate = |password: &str| {
        let file = stage.file("password");
        fs::write(&file, format!("{password}\n"))?;
        let flags = ["--user", "root", "--password-file", &file.display().to_string()];
        stage.rotate("new.key", &reached(etcd), &flags)
    };
    let said = rotate("right")?;
    ensure!(said == "every node has this key and no other\n", "{said}");
    let refused = rotate("wrong").expect_err("a wrong password").to_string();
    ensure!(
        refused.contains("refuses user root: ") && refused.contains("authentication failed"),
        "{refused}"
    );
    Ok(())
}

fn by_dns() -> Result<()> {
    let topology = topology(HOSTS)?;
    let mut stage = Stage::start(&topology)?;
    let server: IpAddr = SERVER.parse()?;
    let mut dns = Dns::start(topology.switch(0), server, &zone(&[0, 1]))?;
    let flags: Vec<String> = (0..LINKS)
        .flat_map(|link| ["--srv".to_owned(), format!("{}=_tabane._udp.net{link}.fleet.test", nic(link))])
        .chain(["--dns".to_owned(), SERVER.to_owned()])
        .collect();
    let mut followers: Vec<Follower<'_>> =
        (0..2).map(|host| stage.follower(host, &flags)).collect::<Result<_>>()?;
    stage.joined(&[0, 1])?;
    let traffic = stage.traffic()?;

    // The third host follows nobody: that it joins is due to its record.
    dns.serve(&zone(&[0, 1, LEAVER]))?;
    let since = Instant::now();
    stage.bundles[LEAVER].wait_until("a peer by its record", |status| status.is_ready(2, LINKS))?;
    let took = since.elapsed();
    ensure!(took < DNS_WITHIN, "the record had its effect after {took:?}");

    dns.kill()?;
    println!("a record had its effect after {took:?}");
    // Asked for again in vain, and a peer that is gone for a while is still known.
    stage.bundles[LEAVER].stop_for_now()?.success("a daemon told to stop")?;
    stage.joined(&[0, 1])?;
    followers.iter().try_for_each(|follower| follower.says(STANDS, NOTICED_WITHIN))?;
    stage.bundles[LEAVER].start_again()?;
    stage.joined(&[0, 1, 2])?;
    traffic.passed()?;

    // What a node knows without DNS is in its cache.
    followers[1].stop()?;
    stage.bundles[1].stop_for_now()?.success("a daemon told to stop")?;
    stage.bundles[1].start_again()?;
    stage.bundles[1].wait_until("a bundle that is up", |_| true)?;
    followers[1].start_again()?;
    (0..HOSTS).filter(|host| *host != 1).try_for_each(|host| stage.greets(1, host, true))?;
    stage.joined(&[0, 1, 2])?;
    let said = followers[0].stop()?;
    ensure!(said.matches("DNS does not answer").count() == 1 && said.contains(STANDS), "{said}");
    followers[1].stop()?;
    Bundle::stop_all(stage.bundles)
}

/// Nodes with keys of their own that stand in etcd stay joined; one whose key is taken out is out. The first one tells nobody where
/// it listens, and the other one has to say it, for its links listen at any address.
fn allowed() -> Result<()> {
    let topology = topology(2)?;
    let etcd = etcd(&topology)?;
    let (program, directory) = (options()?.program, tempfile::tempdir()?);
    let mut stage = Stage { topology: &topology, program, directory, bundles: Vec::new() };
    let (mut followers, mut keys) = (Vec::new(), Vec::new());
    for host in 0..2 {
        let key = stage.file(&format!("node{host}.key")).display().to_string();
        keys.push(tabane(topology.host(host), &format!("genkey --node {key}"))?.trim().to_owned());
        let options = Options { arguments: vec!["--node-key".to_owned(), key], ..options()? };
        let local = |link| if host == 0 { address_of(link, host).to_string() } else { "0.0.0.0".to_owned() };
        let links: Vec<String> =
            (0..LINKS).map(|link| format!("{},local={}", nic(link), local(link))).collect();
        stage.bundles.push(Bundle::start(topology.host(host), host, &links, &options)?);
        let announced = (0..LINKS)
            .flat_map(|link| ["--announce".to_owned(), format!("{}={}", nic(link), address_of(link, host))]);
        let told = if host == 0 { vec!["--silent".to_owned()] } else { announced.collect() };
        let own = ["--allow", "--lease", LEASE, "--as"].map(String::from);
        let flags = [&reached(&etcd)[..], &told, &own, &[format!("h{host}")]].concat();
        followers.push(stage.follower(host, &flags)?);
    }
    stage.joined(&[0, 1])?;
    for (host, key) in keys.iter().enumerate() {
        etcd.ask(&["put", &format!("/fleet/allow/h{host}"), key])?;
    }
    keys.sort_unstable();
    for bundle in &mut stage.bundles {
        bundle.wait_until("a list of two keys", |status| {
            let mut list = status.allow.clone().unwrap_or_default();
            list.sort_unstable();
            list == keys
        })?;
    }
    stage.joined(&[0, 1])?;
    stage.greets(0, 1, true)?;
    stage.greets(1, 0, false)?;
    etcd.ask(&["del", "/fleet/allow/h1"])?;
    stage.bundles[0].wait_until("a node that is shut out", |status| status.peers.is_empty())?;
    followers.iter_mut().try_for_each(|follower| follower.stop().map(drop))?;
    Bundle::stop_all(stage.bundles)
}

/// The unit as it is packaged: it joins a bundle to the other host's by etcd, keeps its cache to itself, and leaves.
fn unit() -> Result<()> {
    let topology = topology(2)?;
    let etcd = etcd(&topology)?;
    let (program, directory) = (options()?.program, tempfile::tempdir()?);
    let link = |host, link| format!("{},local={}", nic(link), address_of(link, host));
    let table = |link| format!("[[link]]\nnic = \"{}\"\nlocal = \"{}\"\n", nic(link), address_of(link, 0));
    let config: String = (0..LINKS).map(table).collect();
    let words = format!(
        "FOLLOW=--etcd {}/fleet --ca /etc/ca.crt --cert /etc/client.crt --cert-key /etc/client.key --as h1 --lease {LEASE}\n",
        etcd.url()
    );
    let follow = fs::read(program.with_file_name("tabane-follow"))?;
    let certificates = ["ca.crt", "client.crt", "client.key"].map(|name| fs::read(etcd.file(name)));
    let [ca, certificate, key] = certificates;
    let (ca, certificate, key) = (ca?, certificate?, key?);
    let path = format!("{UNITS}/tabane-follow@.service");
    let files: [(&str, &[u8], u32); 8] = [
        ACCOUNTS,
        (&path, UNIT, 0o644),
        ("usr/bin/tabane-follow", &follow, 0o755),
        ("etc/tabane/tb0.toml", config.as_bytes(), 0o644),
        ("etc/tabane/tb0.follow", words.as_bytes(), 0o644),
        ("etc/ca.crt", &ca, 0o644),
        ("etc/client.crt", &certificate, 0o644),
        ("etc/client.key", &key, 0o644),
    ];
    let systemd = machine(topology.host(0), "", &files)?;
    process::run(systemd.command("systemd-sysusers").arg("tabane.conf"))?;
    systemd.systemctl(&format!("start {SERVICE} tabane-follow@tb0.service"))?;

    let key = directory.path().join("key");
    fs::write(&key, KEY)?;
    let options = Options { protection: Protection::KeyFile(key), ..options()? };
    let links: Vec<String> = (0..LINKS).map(|number| link(1, number)).collect();
    let bundles = vec![Bundle::start(topology.host(1), 1, &links, &options)?];
    let mut stage = Stage { topology: &topology, program, directory, bundles };
    let own = ["--as", "h2", "--lease", LEASE].map(String::from);
    let mut follower = stage.follower(1, &[&reached(&etcd)[..], &own].concat())?;
    let joined = stage.bundles[0].wait_until("a peer", |status| status.is_ready(1, LINKS));
    joined.with_context(|| systemd.said().unwrap_or_default())?;
    let cache = "stat --format %a /var/lib/private/tabane-follow/tb0.json";
    ensure!(
        process::run(systemd.command("sh").args(["-c", cache]))?.trim() == "600",
        "others may read the cache"
    );
    systemd.systemctl("stop tabane-follow@tb0.service")?;
    stage.greets(0, 0, false)?;
    follower.stop()?;
    systemd.systemctl(&format!("stop {SERVICE}"))?;
    Bundle::stop_all(stage.bundles)
}

fn zone(hosts: &[usize]) -> String {
    let record = |host: &usize, link: usize| {
        let name = format!("h{host}-{link}.fleet.test");
        let end = address_of(link, *host);
        format!("srv-host=_tabane._udp.net{link}.fleet.test,{name},7420\nhost-record={name},{end}\n")
    };
    let records = hosts.iter().flat_map(|host| (0..LINKS).map(move |link| record(host, link)));
    format!("local=/fleet.test/\n{}", records.collect::<String>())
}
